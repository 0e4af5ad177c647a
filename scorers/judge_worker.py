"""The consumer group of the judge: turns in, one TurnScores per turn out, in any order.

So many turns are in flight as keep the endpoints busy; when there are more, reading rests while the
group is kept alive. A turn that waited for longer than `judge.give_up_after`, counted from its
arrival on the bus, ends as `late`. What is finished is committed a few times a second, together
with what the budget of each partition has spent.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Record, StateChange
from assay.bus.topics import SCORES, TURNS
from assay.errors import Permanent, retrying
from assay.records import Turn, decode_turn, encode
from assay.stage import later_schema
from scorers import cascade
from scorers.judge import LATE, Judge, JudgeOptions
from scorers.judging.budget import PARTITION
from scorers.plan import Entry, Plan
from scorers.scorer import Verdict
from scorers.scoring import to_score, turn_scores, unasked
from scorers.scoring_stage import HEADERS, ScoringStage

GROUP = "judge"
STATE_KEY = "budget"
WIDTH = 4
"""Turns in flight for each call that the endpoints may take at once."""
MOST_BYTES = 256 * 10**6
"""Bytes of the turns in flight."""
POLL = 0.5
COMMIT_EVERY = 0.25
"""Seconds between commits while turns finish."""
COMMIT_RECORDS = 256


class Finished(msgspec.Struct, frozen=True):
    """A record and what came of it, ready to be committed."""

    record: Record
    output: Outgoing


class JudgeWorker(ScoringStage):
    """A member of the group `judge`. The judge is stopped with it.

    A turn that is not finished when its partition goes is read again, and its paid answers come
    from the cache.
    """

    def __init__(
        self,
        bus: Bus,
        plan: Plan,
        judge: Judge,
        registry: CollectorRegistry,
        *,
        group: str = GROUP,
        run: str = "live",
        source: str = TURNS,
        target: str = SCORES,
    ) -> None:
        super().__init__(bus, registry, group=group, topics=(source,), what=f"scoring ({group})")
        self._plan = judge_part(plan, judge)
        self._judge = judge
        self._run_id, self._target = run, target
        settings = judge.client.settings
        self._give_up_after = settings.give_up_after
        concurrency = settings.concurrency + sum(e.concurrency for e in settings.endpoints)
        self._most = max(16, WIDTH * concurrency)
        self._bytes = 0
        self._committer: asyncio.Task[None] | None = None
        self._finished: list[Finished] = []
        self._ready = asyncio.Event()
        self._committing = asyncio.Lock()
        self._paused = False
        self._judging = _JudgeCounters(registry, judge)

    async def start(self) -> None:
        """Join the group and begin."""
        await super().start()
        self._committer = asyncio.create_task(self._commit_on(), name=f"{self._group} committer")

    async def stop(self) -> None:
        """Read no more, finish what can be finished soon, commit it, leave, close the judge."""
        self._stopping.set()
        self._ready.set()
        committer, self._committer = self._committer, None
        if committer is not None:
            await committer
        await super().stop()
        await self._judge.stop()

    async def _step(self, consumer: Consumer) -> None:
        self._raise_lost()
        room = self._most - len(self._under_way)
        full = room <= 0 or self._bytes >= MOST_BYTES
        if full and not self._paused:
            consumer.pause(consumer.assignment())
        elif self._paused and not full:
            consumer.resume(consumer.assignment())
        self._paused = full
        records = await consumer.poll(max_records=max(1, room), timeout=POLL / 10 if full else POLL)
        self._heartbeat.turned()
        if not records and not self._under_way:
            self._heartbeat.finished()
        for record in records:
            size = len(record.value)
            self._bytes += size
            self._begin(record.partition, self._judge_record(record), partial(self._free, size))

    def _free(self, size: int) -> None:
        self._bytes -= size

    async def _judge_record(self, record: Record) -> None:
        PARTITION.set(record.partition)
        output = await self._output(record)
        self._finished.append(Finished(record, output))
        self._ready.set()

    async def _output(self, record: Record) -> Outgoing:
        """The record's TurnScores, or its dead letter."""
        reason = "schema" if later_schema(record) else ""
        if not reason:
            try:
                turn = decode_turn(record.value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                reason = "unreadable"
        if reason:
            return self._refused(record, reason)
        entries = self._plan.entries(turn.app)
        patience = self._give_up_after - (time.time() - record.timestamp / 1000.0)
        drawn, verdicts = await self._verdicts(turn, entries, record.partition, patience)
        scores = tuple(
            to_score(drawn, entry, verdict, run=self._run_id)
            for entry, verdict in zip(entries, verdicts, strict=True)
        )
        done = turn_scores(
            turn, scores, group=self._group, scored_at=time.time_ns(), run=self._run_id
        )
        return Outgoing(self._target, encode(done), key=record.key, headers=HEADERS)

    async def _verdicts(
        self, turn: Turn, entries: Sequence[Entry], partition: int, patience: float
    ) -> tuple[Turn, list[Verdict]]:
        """The verdicts, and the turn with the probability that the budget leaves it."""
        if all(unasked(turn, entry) is not None for entry in entries):
            return turn, await cascade.verdicts(self._judge, turn, entries)
        budget = self._judge.client.budget
        ratio = budget.ratio(partition)
        if ratio < 1.0:
            probability = turn.inclusion_probability * ratio
            turn = msgspec.structs.replace(turn, inclusion_probability=probability)
        early = [unasked(turn, entry) for entry in entries]
        if all(verdict is not None for verdict in early):
            return turn, [verdict for verdict in early if verdict is not None]
        if patience <= 0.0:
            return turn, [verdict or LATE for verdict in early]
        verdicts = await cascade.verdicts(self._judge, turn, entries, patience=patience)
        budget.judged(partition)
        return turn, verdicts

    async def _commit_on(self) -> None:
        while not self._stopping.is_set():
            await self._ready.wait()
            await self._commit_finished()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), COMMIT_EVERY)

    async def _commit_finished(self) -> None:
        """Commit what is finished, and the budget's state of its partitions."""
        async with self._committing:
            self._ready.clear()
            while self._finished:
                batch = self._finished[:COMMIT_RECORDS]
                await self._commit(batch)
                del self._finished[: len(batch)]

    async def _commit(self, batch: Sequence[Finished]) -> None:
        consumer = self._consumer
        if consumer is None:
            return
        budget = self._judge.client.budget
        mine = list(batch)
        while mine := [one for one in mine if one.record.partition in consumer.assignment()]:
            partitions = {one.record.partition for one in mine}
            changes = [StateChange(p, STATE_KEY, budget.state(p)) for p in sorted(partitions)]
            commit = partial(
                consumer.commit,
                outputs=[one.output for one in mine],
                done=[one.record for one in mine],
                state=changes if budget.needs_price else (),
            )
            try:
                await retrying(commit, deadline=math.inf, on_retry=self._retried)
                break
            except Permanent as error:
                if partitions <= consumer.assignment():
                    self._lost = error
                    return
        self._turns.inc(len(mine))
        self._judging.follow()
        self._worked()

    async def _join(self) -> Consumer:
        self._paused = False
        return await super()._join()

    def _discard(self) -> None:
        self._finished.clear()

    async def _assigned(self, partition: int, state: Mapping[str, bytes]) -> None:
        self._judge.client.budget.restore(partition, state.get(STATE_KEY))
        if self._paused and self._consumer is not None:
            self._consumer.pause([partition])

    async def _revoked(self, partition: int) -> None:
        await super()._revoked(partition)
        self._judge.client.budget.release(partition)

    async def _drain(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        await super()._drain(tasks)
        await self._commit_finished()


def judge_part(plan: Plan, judge: Judge) -> Plan:
    """The judge's entries on turns, each with its model's name as engine."""
    return named_part(plan, judge, lambda entry: not on_conversation(entry))


def on_conversation(entry: Entry) -> bool:
    """Whether an entry of the judge scores whole conversations."""
    wanted = isinstance(entry.options, JudgeOptions) and entry.options.conversation
    return wanted or entry.metric.subject == "conversation"


def named_part(plan: Plan, judge: Judge, keep: Callable[[Entry], bool]) -> Plan:
    """The entries that the judge answers and `keep` holds true, as `cascade.named` gives them."""
    mine = plan.part(lambda entry: cascade.answered_by_judge(entry) and keep(entry))
    return mine.each(lambda entry: cascade.named(entry, judge))


class _JudgeCounters:
    """The judge's series, which follow its own counts."""

    def __init__(self, registry: CollectorRegistry, judge: Judge) -> None:
        self._client = judge.client
        self._requests = series.shared(registry, series.JUDGE_REQUESTS)
        self._tokens = series.shared(registry, series.JUDGE_TOKENS)
        self._cost = series.shared(registry, series.JUDGE_COST)
        self._seen: dict[str, float] = {}
        in_flight = series.shared(registry, series.JUDGE_IN_FLIGHT)
        in_flight.set_function(lambda: float(self._client.in_flight))
        series.shared(registry, series.JUDGE_RATIO).set_function(self._client.budget.least_ratio)

    def follow(self) -> None:
        """Add what the client has counted since the last time."""
        counts = self._client.counts
        for reason, number in counts.results.items():
            self._requests.labels(reason).inc(self._new(reason, number))
        self._tokens.labels("input").inc(self._new("input tokens", counts.input_tokens))
        self._tokens.labels("output").inc(self._new("output tokens", counts.output_tokens))
        self._cost.inc(self._new("usd", counts.usd))

    def _new(self, name: str, total: float) -> float:
        before = self._seen.get(name, 0.0)
        self._seen[name] = total
        return max(0.0, total - before)
