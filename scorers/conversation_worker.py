"""The consumer group of whole conversations: turns in, one TurnScores per revision of each out.

A conversation is gathered until it was quiet for `judge.conversation_idle`, or for
`judge.conversation_max_age` at most, by the partition's clock. Its turns are the group's state, one
value each, so that offsets move on at once and nothing is lost by a restart. A turn that comes
after the judgement opens the conversation again: the next judgement is a further revision of it,
over all its turns that are still kept: `MOST_BYTES` bounds what a member keeps, and closed
conversations go first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry

from assay.bus.contract import Bus, Consumer, Outgoing, Record, StateChange
from assay.bus.topics import SCORES, TURNS
from assay.config import Config
from assay.errors import ConfigError, retrying
from assay.records import Turn, decode_turn, encode
from assay.stage import later_schema
from scorers.judge import Judge
from scorers.judge_worker import named_part, on_conversation
from scorers.judging.budget import PARTITION
from scorers.judging.conversation import GROUP, Conversations, Gathered, Window, key_of
from scorers.plan import Plan
from scorers.scoring_stage import HEADERS, ScoringStage

STATE_TTL = 2 * 86_400.0
"""Seconds after its last change for which a conversation may be opened again."""
MOST_BYTES = 256 * 10**6
"""Bytes of all conversations that a member keeps."""
AT_ONCE = 8
"""Conversations that are judged at the same time."""
POLL = 0.5

_decode_window = msgspec.json.Decoder(Window).decode


class ConversationWorker(ScoringStage):
    """A member of the group. The judge is shared with the group of turns, and not stopped here."""

    def __init__(
        self, bus: Bus, plan: Plan, judge: Judge, config: Config, registry: CollectorRegistry
    ) -> None:
        super().__init__(
            bus,
            registry,
            group=GROUP,
            topics=(TURNS,),
            what="judging conversations",
            state_ttl=STATE_TTL,
        )
        settings = judge.client.settings
        self._plan = conversation_part(plan, judge, config)
        self._conversations = Conversations(
            self._plan, judge, config.sampling.ratio, patience=settings.give_up_after
        )
        self._idle = int(settings.conversation_idle * 1000)
        self._max_age = int(settings.conversation_max_age * 1000)
        self._gathered: dict[int, dict[str, Gathered]] = {}
        self._forgotten: list[StateChange] = []

    async def _step(self, consumer: Consumer) -> None:
        self._raise_lost()
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
                outputs.append(self._refused(record, reason))
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
                self._begin(partition, self._finish(consumer, partition, key, gathered))

    async def _finish(
        self, consumer: Consumer, partition: int, key: str, gathered: Gathered
    ) -> None:
        """Judge a conversation as it stands, and commit its scores with its new state."""
        PARTITION.set(partition)
        window, seen = gathered.window, gathered.window.next
        turns = sorted(map(decode_turn, gathered.values()), key=lambda turn: turn.started_at)
        found = await self._conversations.scores(
            turns,
            self._plan.entries(window.app),
            run="live",
            revision=window.revision,
            cut=window.cut,
        )
        conversation = f"{window.app}\x1f{window.conversation_id}".encode()
        output = Outgoing(SCORES, encode(found), key=conversation, headers=HEADERS)
        window.revision += 1
        window.open = window.next > seen
        gathered.judging = False
        commit = partial(
            consumer.commit,
            outputs=[output],
            state=[StateChange(partition, f"w {key}", encode(window))],
        )
        if await self._committed(consumer, partition, commit):
            self._turns.inc()

    def _discard(self) -> None:
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
        await super()._revoked(partition)
        self._gathered.pop(partition, None)


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
