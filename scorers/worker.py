"""The consumer group of the computed and local metrics: turns in, one TurnScores per turn out.

Batches are of one partition and finish in any order. A batch's outputs and offsets are one commit,
so every turn gets exactly one TurnScores of the group, whatever dies in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Record
from assay.bus.topics import SCORES, TURNS
from assay.stage import later_schema
from scorers.batch import Job, Refused
from scorers.plan import Plan
from scorers.pool import ScorerPool
from scorers.scoring_stage import HEADERS, ScoringStage

BATCH_RECORDS = 64
BATCH_BYTES = 2 * 10**6
QUEUED = 2
"""Batches per process that are read ahead of it."""
POLL = 0.5
"""Seconds."""
GATHER = 0.1
"""Seconds to wait after a poll that brought less than a batch, so that batches are fewer and
fuller: each is a task of a process and a commit."""


class Worker(ScoringStage):
    """A member of the group."""

    drain = 20.0

    def __init__(
        self,
        bus: Bus,
        plan: Plan,
        registry: CollectorRegistry,
        *,
        group: str = "local",
        run: str = "live",
        source: str = TURNS,
        target: str = SCORES,
        processes: int | None = None,
    ) -> None:
        super().__init__(bus, registry, group=group, topics=(source,), what=f"scoring ({group})")
        self._target = target
        job = Job(plan.part(lambda entry: not entry.waits), group, run)
        deaths = series.shared(registry, series.SCORER_DEATHS).labels(group)
        self._pool = ScorerPool(job, processes=processes, on_death=deaths.inc)
        self._room = asyncio.Semaphore(QUEUED * self._pool.processes)
        self._committing = asyncio.Lock()

    async def start(self) -> None:
        """Start the processes and join the group."""
        self._pool.start()
        await super().start()

    async def stop(self) -> None:
        """Read no more, finish what is under way, leave the group, end the processes."""
        await super().stop()
        await self._pool.stop()

    async def _step(self, consumer: Consumer) -> None:
        self._raise_lost()
        async with self._room:
            records = await consumer.poll(
                max_records=BATCH_RECORDS * self._pool.processes, timeout=POLL
            )
        self._heartbeat.turned()
        if not records and not self._under_way:
            self._heartbeat.finished()
        for batch in batches(records):
            await self._room.acquire()
            self._begin(batch[0].partition, self._finish(consumer, batch), self._room.release)
        if 0 < len(records) < BATCH_RECORDS:
            await asyncio.sleep(GATHER)

    async def _finish(self, consumer: Consumer, batch: Sequence[Record]) -> None:
        """Score a batch and commit it. A batch whose partition is gone is another member's."""
        outputs = await self._outputs(batch)

        async def commit() -> None:
            async with self._committing:
                await consumer.commit(outputs=outputs, done=batch)

        if await self._committed(consumer, batch[0].partition, commit):
            self._turns.inc(len(batch))
            self._heartbeat.finished()

    async def _outputs(self, batch: Sequence[Record]) -> list[Outgoing]:
        known = [record for record in batch if not later_schema(record)]
        found = iter(await self._pool.score([record.value for record in known]) if known else ())
        outputs: list[Outgoing] = []
        for record in batch:
            result = Refused("schema") if later_schema(record) else next(found)
            if isinstance(result, Refused):
                outputs.append(self._refused(record, result.reason))
            else:
                outputs.append(Outgoing(self._target, result, key=record.key, headers=HEADERS))
        return outputs


def batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records in batches of one partition, each bounded in number and bytes, in order."""
    by_partition: dict[int, list[Record]] = {}
    for record in records:
        by_partition.setdefault(record.partition, []).append(record)
    for own in by_partition.values():
        batch: list[Record] = []
        size = 0
        for record in own:
            if batch and (len(batch) == BATCH_RECORDS or size + len(record.value) > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(record)
            size += len(record.value)
        yield batch
