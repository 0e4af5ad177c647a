"""The consumer group of whole conversations: turns in, one TurnScores per revision of each out.

A conversation is gathered until it was quiet for `judge.conversation_idle`, or for
`judge.conversation_max_age` at most, by the partition's clock. Its turns are the group's state, one
value each, so that offsets move on at once and nothing is lost by a restart. A turn that comes
after the judgement opens the conversation again: the next judgement is a further revision of it,
over all its turns that are still kept: `MOST_BYTES` bounds what a member keeps, and closed
conversations go first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Record, StateChange
from assay.bus.dead_letter import dead_letter
from assay.bus.topics import SCORES, TURNS
from assay.config import Config
from assay.errors import AssayError, ConfigError, Permanent, Retryable, retrying
from assay.health import Health, Heartbeat
from assay.records import SCHEMA_VERSION, Score, Turn, decode_turn, encode
from assay.sampling import conversation_draw
from assay.telemetry import Trouble, error_text
from scorers.judge import LATE, Judge
from scorers.judge_worker import named_part, on_conversation
from scorers.judging.asking import failure
from scorers.judging.budget import PARTITION
from scorers.judging.conversation import Gathered, Window, conversation_verdict, key_of
from scorers.plan import Entry, Plan
from scorers.scorer import Verdict
from scorers.scoring import to_score, turn_scores
from scorers.worker import later_schema

GROUP = "conversation"
STATE_TTL = 2 * 86_400.0
"""Seconds after its last change for which a conversation may be opened again."""
MOST_BYTES = 256 * 10**6
"""Bytes of all conversations that a member keeps."""
AT_ONCE = 8
"""Conversations that are judged at the same time."""
POLL = 0.5
FIRST_DELAY, MAX_DELAY = 0.2, 30.0
DRAIN = 10.0

_HEADERS = {"schema": str(SCHEMA_VERSION)}
_decode_window = msgspec.json.Decoder(Window).decode


class ConversationWorker:
    """A member of the group. `start` once; `stop` is safe twice and without start.

    The judge is shared with the group of turns and is not stopped here.
    """

    def __init__(
        self, bus: Bus, plan: Plan, judge: Judge, config: Config, registry: CollectorRegistry
    ) -> None:
        settings = judge.client.settings
        self._bus = bus
        self._plan = conversation_part(plan, judge, config)
        self._judge = judge
        self._probability = config.sampling.ratio
        self._idle = int(settings.conversation_idle * 1000)
        self._max_age = int(settings.conversation_max_age * 1000)
        self._give_up_after = settings.give_up_after
        self._gathered: dict[int, dict[str, Gathered]] = {}
        self._consumer: Consumer | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._forgotten: list[StateChange] = []
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._lost: AssayError | None = None
        self._log = logging.getLogger(__name__)
        self._trouble = Trouble(self._log, "judging conversations")
        self._heartbeat = Heartbeat(self.lag)
        self._retries = series.shared(registry, series.SCORER_RETRIES).labels(GROUP)
        self._finished = series.shared(registry, series.SCORED_TURNS).labels(GROUP)
        self._dead_letters = series.shared(registry, series.SCORER_DEAD_LETTERS)
        series.shared(registry, series.SCORER_LAG).labels(GROUP).set_function(self.lag)

    async def start(self) -> None:
        """Join the group, take over its conversations, and begin."""
        await self._join()
        self._task = asyncio.create_task(self._loop(), name="conversations")

    async def stop(self) -> None:
        """Read no more, finish what can be finished soon, leave."""
        self._stopping.set()
        task, self._task = self._task, None
        if task is not None:
            await task
        await self._leave()

    def lag(self) -> int:
        """Turns that this member has not gathered."""
        return self._consumer.lag() if self._consumer is not None else 0

    def health(self) -> Health:
        return self._heartbeat.health()

    async def _loop(self) -> None:
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
                self._log.exception("conversations met a fault of their own and start over")
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
        records = await consumer.poll(timeout=POLL)
        self._heartbeat.turned()
        if records:
            await self._gather(consumer, records)
        self._heartbeat.finished()
        for partition in consumer.assignment():
            self._judge_due(consumer, partition)

    async def _gather(self, consumer: Consumer, records: Sequence[Record]) -> None:
        """Put the records' turns into their conversations, and commit that."""
        outputs = []
        changes: list[StateChange] = []
        for record in records:
            try:
                if later_schema(record):
                    raise ValueError("schema")
                turn = decode_turn(record.value)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                reason = "schema" if str(error) == "schema" else "unreadable"
                self._dead_letters.labels(GROUP, reason).inc()
                outputs.append(dead_letter(record, stage=GROUP, reason=reason))
                continue
            if turn.conversation_id and self._plan.entries(turn.app):
                changes += self._add(record, turn, turn.conversation_id)
        changes += self._forgotten
        latest = {(change.partition, change.key): change for change in changes}
        commit = partial(
            consumer.commit, outputs=outputs, done=records, state=list(latest.values())
        )
        await retrying(commit, deadline=math.inf, on_retry=self._retried)
        self._forgotten.clear()
        self._make_room()

    def _make_room(self) -> None:
        """Forget closed conversations, the quietest first, and then let open ones end early."""
        total = sum(g.size for known in self._gathered.values() for g in known.values())
        if total <= MOST_BYTES:
            return
        everything = [
            (g.window.last_at, partition, key)
            for partition, known in self._gathered.items()
            for key, g in known.items()
            if not g.judging
        ]
        for _, partition, key in sorted(everything):
            if total <= MOST_BYTES:
                break
            gathered = self._gathered[partition][key]
            total -= gathered.size
            if gathered.window.open:
                gathered.window.first_at = 0
                continue
            del self._gathered[partition][key]
            self._forgotten.append(StateChange(partition, f"w {key}", None))
            self._forgotten += [
                StateChange(partition, f"t {key} {number:08d}", None)
                for number, _ in (*gathered.first, *gathered.latest)
            ]

    def _add(self, record: Record, turn: Turn, conversation_id: str) -> list[StateChange]:
        key = key_of(turn.app, conversation_id)
        known = self._gathered.setdefault(record.partition, {})
        if key not in known:
            known[key] = Gathered(Window(app=turn.app, conversation_id=conversation_id))
        gathered = known[key]
        number = gathered.window.next
        dropped = gathered.add(record.value, record.timestamp)
        return [
            *(StateChange(record.partition, f"t {key} {old:08d}", None) for old in dropped),
            StateChange(record.partition, f"t {key} {number:08d}", record.value),
            StateChange(record.partition, f"w {key}", encode(gathered.window)),
        ]

    def _judge_due(self, consumer: Consumer, partition: int) -> None:
        """Begin to judge conversations whose time has come."""
        now = consumer.clock(partition)
        known = self._gathered.get(partition, {})
        for key, gathered in list(known.items()):
            window = gathered.window
            if not window.open:
                if now - window.last_at > STATE_TTL * 1000:
                    del known[key]
                continue
            quiet = now - window.last_at >= self._idle or now - window.first_at >= self._max_age
            if quiet and not gathered.judging and len(self._under_way) < AT_ONCE:
                gathered.judging = True
                task = asyncio.create_task(self._finish(consumer, partition, key, gathered))
                self._under_way[task] = partition
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self._lost = Permanent(f"a conversation was lost: {error_text(task.exception())}")  # type: ignore[arg-type]

    async def _finish(
        self, consumer: Consumer, partition: int, key: str, gathered: Gathered
    ) -> None:
        """Judge a conversation as it stands, and commit its scores with its new state."""
        PARTITION.set(partition)
        window, seen = gathered.window, gathered.window.next
        turns = sorted(map(decode_turn, gathered.values()), key=lambda turn: turn.started_at)
        output = await self._output(window, turns)
        window.revision += 1
        window.open = window.next > seen
        gathered.judging = False
        commit = partial(
            consumer.commit,
            outputs=[output],
            state=[StateChange(partition, f"w {key}", encode(window))],
        )
        try:
            await retrying(commit, deadline=math.inf, on_retry=self._retried)
        except Permanent:
            if partition in consumer.assignment():
                raise
            return
        self._finished.inc()
        self._trouble.worked()

    async def _output(self, window: Window, turns: Sequence[Turn]) -> Outgoing:
        last = turns[-1]
        whole = msgspec.structs.replace(
            last,
            turn_id=window.conversation_id,
            draw=conversation_draw(window.app, window.conversation_id),
            inclusion_probability=self._probability,
        )
        entries = self._plan.entries(window.app)
        verdicts = await asyncio.gather(*(self._verdict(whole, e, turns) for e in entries))
        scores = tuple(
            self._score(whole, entry, verdict, window)
            for entry, verdict in zip(entries, verdicts, strict=True)
        )
        record = turn_scores(whole, scores, group=GROUP, scored_at=time.time_ns(), run="live")
        record = msgspec.structs.replace(record, turn_id=last.turn_id, revision=window.revision)
        key = f"{window.app}\x1f{window.conversation_id}".encode()
        return Outgoing(SCORES, encode(record), key=key, headers=_HEADERS)

    async def _verdict(self, whole: Turn, entry: Entry, turns: Sequence[Turn]) -> Verdict:
        if whole.draw >= self._probability * entry.ratio:
            return Verdict(outcome="sampled_out")
        try:
            if entry.when is not None and not entry.when(turns[-1]):
                return Verdict(outcome="filtered")
            async with asyncio.timeout(self._give_up_after):
                return await conversation_verdict(self._judge, entry, turns)
        except TimeoutError:
            return LATE
        except Exception as error:  # noqa: BLE001 - a fault is an outcome, and names no content
            return failure(error)

    def _score(self, whole: Turn, entry: Entry, verdict: Verdict, window: Window) -> Score:
        if window.cut and verdict.outcome == "scored":
            details = verdict.details | {"turns_left_out": window.cut}
            verdict = msgspec.structs.replace(verdict, details=details)
        return to_score(whole, entry, verdict, run="live", revision=window.revision)

    async def _join(self) -> Consumer:
        consumer = self._bus.consumer(
            GROUP,
            (TURNS,),
            state_ttl=STATE_TTL,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
        )
        self._consumer = consumer
        await consumer.start()
        return consumer

    async def _leave(self) -> None:
        await self._drain(list(self._under_way))
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()
        self._gathered.clear()

    async def _assigned(self, partition: int, state: Mapping[str, bytes]) -> None:
        known: dict[str, Gathered] = {}
        for name, value in sorted(state.items(), reverse=True):
            kind, key, *number = name.split(" ")
            if kind == "w":
                known[key] = Gathered(_decode_window(value))
        for name, value in sorted(state.items()):
            kind, key, *number = name.split(" ")
            if kind == "t" and key in known:
                known[key].restore(int(number[0]), value)
        self._gathered[partition] = known

    async def _revoked(self, partition: int) -> None:
        await self._drain([task for task, of in self._under_way.items() if of == partition])
        self._gathered.pop(partition, None)

    async def _drain(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Give what is under way a little time, then cancel it: it will be judged again."""
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=DRAIN)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _retried(self, error: Retryable, wait: float) -> None:
        del wait
        self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._retries.inc()
        self._trouble.failed(error)
        self._heartbeat.failed(error_text(error))


def conversation_part(plan: Plan, judge: Judge, config: Config) -> Plan:
    """The judge's entries on conversations; empty where the settings have none.

    Raises ConfigError when they are configured and sampling would tear conversations apart.
    """
    part = named_part(plan, judge, on_conversation)
    entries = [entry for own in (part.base, *part.apps.values()) for entry in own]
    sampling = config.sampling
    if entries and sampling.unit != "conversation" and min(sampling.ratio, sampling.head_ratio) < 1:
        raise ConfigError(
            [
                "sampling.unit: allowed: conversation, since metrics on conversations are "
                "configured, and sampling by trace would tear them apart"
            ]
        )
    for entry in entries:
        entry.metric = msgspec.structs.replace(entry.metric, subject="conversation")
    return part
