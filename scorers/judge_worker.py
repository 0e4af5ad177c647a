"""The consumer group of the judge: turns in, one TurnScores per turn out, in any order.

So many turns are in flight as keep the endpoints busy; when there are more, reading rests while the
group is kept alive. A turn that waited for longer than `judge.give_up_after`, counted from its
arrival on the bus, ends as `late`. What is finished is committed a few times a second, together
with what the budget of each partition has spent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Record, StateChange
from assay.bus.dead_letter import dead_letter
from assay.bus.topics import SCORES, TURNS
from assay.errors import AssayError, Permanent, Retryable, retrying
from assay.health import Health, Heartbeat
from assay.records import SCHEMA_VERSION, Turn, decode_turn, encode
from assay.telemetry import Trouble, error_text
from scorers.judge import ENGINE, LATE, Judge, JudgeOptions
from scorers.judging.budget import PARTITION
from scorers.plan import Entry, Plan
from scorers.scorer import Verdict
from scorers.scoring import to_score, turn_scores, unasked
from scorers.worker import later_schema

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
FIRST_DELAY, MAX_DELAY = 0.2, 30.0
DRAIN = 10.0
"""Seconds in which turns under way are finished when a partition or the worker ends; what is not
finished by then will be read again, and its paid answers come from the cache."""

_HEADERS = {"schema": str(SCHEMA_VERSION)}


class Finished(msgspec.Struct, frozen=True):
    """A record and what came of it, ready to be committed."""

    record: Record
    output: Outgoing


class JudgeWorker:
    """A member of the group `judge`. `start` once; `stop` is safe twice and without start.

    The judge is stopped with the worker.
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
        self._bus = bus
        self._plan = judge_part(plan, judge)
        self._judge = judge
        self._group, self._run, self._source, self._target = group, run, source, target
        settings = judge.client.settings
        self._give_up_after = settings.give_up_after
        concurrency = settings.concurrency + sum(e.concurrency for e in settings.endpoints)
        self._most = max(16, WIDTH * concurrency)
        self._bytes = 0
        self._consumer: Consumer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._finished: list[Finished] = []
        self._ready = asyncio.Event()
        self._committing = asyncio.Lock()
        self._paused = False
        self._lost: AssayError | None = None
        self._log = logging.getLogger(__name__)
        self._trouble = Trouble(self._log, f"scoring ({group})")
        self._heartbeat = Heartbeat(self.lag)
        self._count = _Counters(registry, group, judge)
        self._count.lag.set_function(self.lag)

    async def start(self) -> None:
        """Join the group and begin."""
        await self._join()
        self._tasks = [
            asyncio.create_task(self._read_on(), name=f"{self._group} reader"),
            asyncio.create_task(self._commit_on(), name=f"{self._group} committer"),
        ]

    async def stop(self) -> None:
        """Read no more, finish what can be finished soon, commit it, leave, close the judge."""
        self._stopping.set()
        self._ready.set()
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks)
        await self._leave()
        await self._judge.stop()

    def lag(self) -> int:
        """Turns that this member has not finished."""
        return self._consumer.lag() if self._consumer is not None else 0

    def health(self) -> Health:
        return self._heartbeat.health()

    async def _read_on(self) -> None:
        delay = FIRST_DELAY
        while not self._stopping.is_set():
            try:
                await self._step()
                delay = FIRST_DELAY
                continue
            except Retryable as error:
                self._failed(error)
            except Permanent as error:
                self._failed(error)
                await self._leave()
            except Exception as error:  # noqa: BLE001 - a fault in our code must not end the stage
                self._log.exception("judging met a fault of its own and starts over")
                self._failed(error)
                await self._leave()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)
            delay = min(delay * 2, MAX_DELAY)

    async def _step(self) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost
        consumer = self._consumer or await self._join()
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
            task = asyncio.create_task(self._judge_record(record))
            self._under_way[task] = record.partition
            self._bytes += len(record.value)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self._lost = Permanent(f"a turn was lost: {error_text(task.exception())}")  # type: ignore[arg-type]

    async def _judge_record(self, record: Record) -> None:
        PARTITION.set(record.partition)
        try:
            output = await self._output(record)
        finally:
            self._bytes -= len(record.value)
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
            self._count.dead_letters.labels(self._group, reason).inc()
            return dead_letter(record, stage=self._group, reason=reason)
        entries = self._plan.entries(turn.app)
        patience = self._give_up_after - (time.time() - record.timestamp / 1000.0)
        drawn, verdicts = await self._verdicts(turn, entries, record.partition, patience)
        scores = tuple(
            to_score(drawn, entry, verdict, run=self._run)
            for entry, verdict in zip(entries, verdicts, strict=True)
        )
        done = turn_scores(turn, scores, group=self._group, scored_at=time.time_ns(), run=self._run)
        return Outgoing(self._target, encode(done), key=record.key, headers=_HEADERS)

    async def _verdicts(
        self, turn: Turn, entries: Sequence[Entry], partition: int, patience: float
    ) -> tuple[Turn, list[Verdict]]:
        """The verdicts, and the turn with the probability that the budget leaves it."""
        if all(unasked(turn, entry) is not None for entry in entries):
            return turn, await self._judge.verdicts(turn, entries)
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
        verdicts = await self._judge.verdicts(turn, entries, patience=patience)
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
        self._count.turns.inc(len(mine))
        self._count.follow()
        self._trouble.worked()
        self._heartbeat.finished()

    async def _join(self) -> Consumer:
        consumer = self._bus.consumer(
            self._group, (self._source,), on_assigned=self._assigned, on_revoked=self._revoked
        )
        self._consumer = consumer
        self._paused = False
        await consumer.start()
        return consumer

    async def _leave(self) -> None:
        await self._drain(list(self._under_way))
        consumer, self._consumer = self._consumer, None
        self._finished.clear()
        if consumer is not None:
            await consumer.stop()

    async def _assigned(self, partition: int, state: Mapping[str, bytes]) -> None:
        self._judge.client.budget.restore(partition, state.get(STATE_KEY))
        if self._paused and self._consumer is not None:
            self._consumer.pause([partition])

    async def _revoked(self, partition: int) -> None:
        await self._drain([task for task, of in self._under_way.items() if of == partition])
        self._judge.client.budget.release(partition)

    async def _drain(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Give the turns under way a little time, cancel the rest, commit what is finished."""
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=DRAIN)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._commit_finished()

    def _retried(self, error: Retryable, wait: float) -> None:
        del wait
        self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._count.retries.inc()
        self._trouble.failed(error)
        self._heartbeat.failed(error_text(error))


def judge_part(plan: Plan, judge: Judge) -> Plan:
    """The judge's entries on turns, each with its model's name as engine."""
    return named_part(plan, judge, lambda entry: not on_conversation(entry))


def on_conversation(entry: Entry) -> bool:
    """Whether an entry of the judge scores whole conversations."""
    wanted = isinstance(entry.options, JudgeOptions) and entry.options.conversation
    return wanted or entry.metric.subject == "conversation"


def named_part(plan: Plan, judge: Judge, keep: Callable[[Entry], bool]) -> Plan:
    """The judge's entries that `keep` holds true, named after their models."""

    def own(entries: Sequence[Entry]) -> tuple[Entry, ...]:
        mine = []
        for entry in entries:
            if entry.engine == ENGINE and keep(entry):
                named = Entry(entry.scorer, entry.metric, entry.ratio, entry.when, entry.options)
                named.engine = judge.model_of(named)
                mine.append(named)
        return tuple(mine)

    return Plan(base=own(plan.base), apps={app: own(entries) for app, entries in plan.apps.items()})


class _Counters:
    """The worker's series, and the judge's, which follow its own counts."""

    def __init__(self, registry: CollectorRegistry, group: str, judge: Judge) -> None:
        self.turns = series.shared(registry, series.SCORED_TURNS).labels(group)
        self.retries = series.shared(registry, series.SCORER_RETRIES).labels(group)
        self.lag = series.shared(registry, series.SCORER_LAG).labels(group)
        self.dead_letters = series.shared(registry, series.SCORER_DEAD_LETTERS)
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
