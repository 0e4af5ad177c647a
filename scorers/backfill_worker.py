"""The consumer group that scores for backfills: tasks in, answers out, each exactly once.

Its processes stand back behind live scoring on the same machine. Entries that wait, the judge's
too, are not its work: who asks does them, within the run's share of the budget.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
from prometheus_client import CollectorRegistry

from assay.bus.contract import Bus, Consumer, Outgoing, Record
from assay.bus.topics import BACKFILL, BACKFILL_SCORES
from assay.config import Config
from assay.cores import cores
from assay.errors import ConfigError, Permanent
from assay.records import encode
from scorers.backfill_plan import scorers_in
from scorers.backfill_run import Run, thawed
from scorers.batch import NICENESS, Job, Refused
from scorers.fleet import NO_TURN, Answer, Task
from scorers.judge import judge_of
from scorers.judged_plan import plan_of
from scorers.pool import ScorerPool
from scorers.scoring_stage import HEADERS, ScoringStage

GROUP = "backfill"
POLL = 0.5
QUEUED = 2
"""Tasks per process that are read ahead of it."""
RUNS = 2
"""Runs whose processes are kept when they are idle: those of the latest."""


class BackfillWorker(ScoringStage):
    """A member of the group. `config` has what a run does not keep: keys, and the judge's name."""

    def __init__(
        self,
        bus: Bus,
        config: Config,
        registry: CollectorRegistry,
        *,
        processes: int | None = None,
    ) -> None:
        super().__init__(bus, registry, group=GROUP, topics=(BACKFILL,), what="scoring (backfill)")
        self._config = config
        self._processes = processes
        self._pools: dict[str, ScorerPool | str] = {}
        """By run; a text says why the run cannot be worked on."""
        self._opening = asyncio.Lock()
        self._busy: Counter[str] = Counter()
        self._room = asyncio.Semaphore(QUEUED * (processes or cores()))

    async def stop(self) -> None:
        """Read no more, finish what is under way, leave the group, end the processes."""
        await super().stop()
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            if isinstance(pool, ScorerPool):
                await pool.stop()

    async def _step(self, consumer: Consumer) -> None:
        self._raise_lost()
        async with self._room:
            records = await consumer.poll(max_records=1, timeout=POLL)
        self._heartbeat.turned()
        if not records and not self._under_way:
            self._heartbeat.finished()
        for record in records:
            await self._room.acquire()
            self._begin(record.partition, self._finish(consumer, record), self._room.release)

    async def _finish(self, consumer: Consumer, record: Record) -> None:
        """Answer a task and commit. One whose partition is gone is another member's."""
        outgoing, turns = await self._answer(record)

        async def commit() -> None:
            await consumer.commit(outputs=[outgoing], done=[record])

        if await self._committed(consumer, record.partition, commit):
            self._turns.inc(turns)
            self._heartbeat.finished()

    async def _answer(self, record: Record) -> tuple[Outgoing, int]:
        try:
            task = msgspec.json.decode(record.value, type=Task)
        except (msgspec.MsgspecError, RecursionError):
            return self._refused(record, "unreadable"), 0
        answer = Answer(asker=task.asker, number=task.number)
        self._busy[task.run.run_id] += 1
        try:
            pool = await self._pool_of(task.run)
            if isinstance(pool, str):
                answer = msgspec.structs.replace(answer, refused=pool)
            else:
                found = await pool.score([bytes(turn) for turn in task.turns], task.known)
                scores = [msgspec.Raw(NO_TURN if isinstance(x, Refused) else x) for x in found]
                answer = msgspec.structs.replace(answer, scores=scores)
        finally:
            self._busy[task.run.run_id] -= 1
        key = task.asker.encode()
        return Outgoing(BACKFILL_SCORES, encode(answer), key=key, headers=HEADERS), len(task.turns)

    async def _pool_of(self, run: Run) -> ScorerPool | str:
        async with self._opening:
            pool = self._pools.pop(run.run_id, None)
            if pool is None:
                pool = await self._open(run)
            self._pools[run.run_id] = pool
            idle = [run_id for run_id in self._pools if not self._busy[run_id]]
            for run_id in idle[: max(0, len(self._pools) - RUNS)]:
                del self._busy[run_id]
                old = self._pools.pop(run_id)
                if isinstance(old, ScorerPool):
                    await old.stop()
            return pool

    async def _open(self, run: Run) -> ScorerPool | str:
        """Processes for a run by its own settings, or why they cannot be had here."""
        try:
            config = thawed(run, self._config)
            judge = judge_of(config, cache=False)
            try:
                plan = plan_of(config, judge, run.selected.sample)
            finally:
                if judge is not None:
                    await judge.stop()
        except (ConfigError, Permanent) as error:
            return str(error)
        # Whole conversations are judged by who asks.
        if scorers_in(plan) != [tuple(row) for row in run.scorers if row[1] != "conversation"]:
            return "another version of a scorer runs here"
        job = Job(plan.part(lambda entry: not entry.waits), "local", run.run_id, NICENESS)
        pool = ScorerPool(job, processes=self._processes)
        pool.start()
        return pool
