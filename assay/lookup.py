"""What the listings show: turns with their scores, conversations, and rows of the store.

The stream is the first source, since the store is written every few seconds; what the stream no
longer keeps comes from the store. One turn is shown with the scores of every group and run.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec

from assay.bus.contract import Bus, Record
from assay.bus.topics import SCORES, TURNS
from assay.errors import AssayError, Permanent
from assay.records import Turn, TurnScores, decode_turn, decode_turn_scores
from assay.store import Store
from assay.store_rows import scores_of, turn_of

T = TypeVar("T")
_ID = re.compile(r"[0-9a-f]{1,32}(-[0-9]+)?")
RECENT = (10.0, 120.0, 1800.0)
"""Seconds back that are looked at first: what is asked for is mostly new, and reading an hour of a
busy stream takes minutes."""
MOST_TURNS = 5_000
"""Turns that a listing of conversations is made of, the latest."""
REMEMBERED = 2_000
"""Turns that `tail` keeps until their scores come."""
WAITING = 50
"""Turns whose scores `tail` keeps until they come themselves."""


class ScoredTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn and what each group found for it."""

    turn: Turn
    scores: tuple[TurnScores, ...] = ()


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The turns of one conversation of one app, in the order in which they started."""

    conversation_id: str
    app: str
    turns: tuple[ScoredTurn, ...]
    started_at: int
    ended_at: int
    defects: int
    """Scores with `passed` false, over all turns."""


class Head(msgspec.Struct, frozen=True):
    """The fields of a Turn or TurnScores by which listings choose: decoding all costs ten times
    as much."""

    turn_id: str
    app: str = "unknown"
    conversation_id: str | None = None
    started_at: int = 0


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which turns a listing is about."""

    since: float = 3600.0
    """Seconds back from now, by the time that the turn was published."""
    app: str | None = None
    conversation_id: str | None = None
    limit: int = 100

    def takes(self, turn: Head) -> bool:
        return (self.app is None or turn.app == self.app) and (
            self.conversation_id is None or turn.conversation_id == self.conversation_id
        )


decode_head = msgspec.json.Decoder(Head).decode


class Lookup:
    """Reads from the bus and, where there is one, from the store."""

    def __init__(self, bus: Bus, store: Store | None) -> None:
        self._bus = bus
        self._store = store
        self._tails: set[asyncio.Queue[Record | AssayError | None]] = set()

    async def turns(self, selection: Selection) -> list[ScoredTurn]:
        """The latest turns that match, at most `limit`, in the order in which they started."""
        earlier = [seconds for seconds in RECENT if seconds < selection.since]
        for seconds in (*earlier, selection.since):
            since = _ago(seconds)
            turns = await self._latest(selection, since)
            if len(turns) == selection.limit:
                break
        return await self._with_scores(turns, since)

    async def turn(self, turn_id: str) -> ScoredTurn | None:
        """The turn whose id is or begins with `turn_id`; none when there is no such turn."""
        for seconds in RECENT:
            found = await self._on_stream(turn_id, _ago(seconds))
            if found is not None:
                return found
        if self._store is None:
            return await self._on_stream(turn_id, None)
        return await self._in_store(self._store, turn_id)

    async def conversations(self, selection: Selection) -> list[Conversation]:
        """The latest conversations, at most `limit`, by their last turn. A turn without a
        conversation id belongs to none."""
        by_id: dict[tuple[str, str], list[ScoredTurn]] = {}
        for scored in await self.turns(msgspec.structs.replace(selection, limit=MOST_TURNS)):
            if scored.turn.conversation_id is not None:
                key = (scored.turn.app, scored.turn.conversation_id)
                by_id.setdefault(key, []).append(scored)
        found = [_conversation(app, name, turns) for (app, name), turns in by_id.items()]
        found.sort(key=lambda conversation: conversation.ended_at)
        return found[-selection.limit :]

    async def tail(self, app: str | None = None) -> AsyncGenerator[ScoredTurn, None]:
        """Each TurnScores from now on with its turn, as it is published, until `end_tails`.

        Scores that wait too long for their turn, or whose turn is too old, come without content.
        """
        queue: asyncio.Queue[Record | AssayError | None] = asyncio.Queue(REMEMBERED)
        now = _ago(0)
        # A turn may stand on the stream for a while before its scores do.
        readers = [
            asyncio.create_task(_follow(self._bus, TURNS, now - 60_000, queue)),
            asyncio.create_task(_follow(self._bus, SCORES, now, queue)),
        ]
        turns: OrderedDict[str, Turn] = OrderedDict()
        waiting: OrderedDict[str, list[TurnScores]] = OrderedDict()
        self._tails.add(queue)
        try:
            while (record := await queue.get()) is not None:
                if isinstance(record, AssayError):
                    raise record
                for scored in _join(record, turns, waiting):
                    if app is None or scored.turn.app == app:
                        yield scored
        finally:
            self._tails.discard(queue)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)

    async def end_tails(self) -> None:
        """End every `tail`, so that those who read them are not waited for."""
        for queue in self._tails:
            await queue.put(None)

    async def query(self, sql: str) -> list[dict[str, Any]]:
        """Rows of a select over the store's tables. Raises Permanent when it is not one."""
        if self._store is None:
            raise Permanent("there is no store: exporters.store.enabled is false")
        return await self._store.ask(sql)

    async def _latest(self, selection: Selection, since: int) -> list[Turn]:
        """The last `limit` matching turns by their start, of those published from `since` on."""
        found: list[tuple[int, Record]] = []
        async for record in self._bus.read(TURNS, since=since):
            head = _decoded(decode_head, record)
            if head is None or not selection.takes(head):
                continue
            found.append((head.started_at, record))
            if len(found) > 2 * selection.limit + 100:
                found.sort(key=_start)
                del found[: -selection.limit]
        found.sort(key=_start)
        turns = (_decoded(decode_turn, record) for _, record in found[-selection.limit :])
        return [turn for turn in turns if turn is not None]

    async def _on_stream(self, turn_id: str, since: int | None) -> ScoredTurn | None:
        async for record in self._bus.read(TURNS, since=since):
            # Looked for in the bytes first: decoding every turn of three days takes minutes.
            if turn_id.encode() not in record.value:
                continue
            turn = _decoded(decode_turn, record)
            if turn is not None and turn.turn_id.startswith(turn_id):
                return (await self._with_scores([turn], record.timestamp))[0]
        return None

    async def _in_store(self, store: Store, turn_id: str) -> ScoredTurn | None:
        if not _ID.fullmatch(turn_id):
            return None
        turns = await store.query(
            f"select * from turns where starts_with(turn_id, '{turn_id}') limit 1"  # noqa: S608
        )
        if not turns:
            return None
        turn = turn_of(turns[0])
        rows = await store.query(
            f"select * from scores where turn_id = '{turn.turn_id}'"  # noqa: S608
        )
        return ScoredTurn(turn=turn, scores=scores_of(rows))

    async def _with_scores(self, turns: list[Turn], since: int) -> list[ScoredTurn]:
        scores: dict[str, list[TurnScores]] = {turn.turn_id: [] for turn in turns}
        if turns:
            async for record in self._bus.read(SCORES, since=since):
                head = _decoded(decode_head, record)
                if head is not None and head.turn_id in scores:
                    found = _decoded(decode_turn_scores, record)
                    if found is not None:
                        scores[found.turn_id].append(found)
        return [ScoredTurn(turn=turn, scores=tuple(scores[turn.turn_id])) for turn in turns]


def _start(found: tuple[int, Record]) -> int:
    return found[0]


def _ago(seconds: float) -> int:
    return int((time.time() - seconds) * 1000)


def _decoded(decode: Callable[[bytes], T], record: Record) -> T | None:
    """The record's value, or none where it cannot be read: its consumers have counted it."""
    try:
        return decode(record.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def _follow(
    bus: Bus, topic: str, since: int, queue: asyncio.Queue[Record | AssayError | None]
) -> None:
    try:
        # Ended while it waits for the queue, a reader left open would be closed at some later time.
        async with aclosing(bus.read(topic, since=since, follow=True)) as records:
            async for record in records:
                await queue.put(record)
    except AssayError as error:
        await queue.put(error)


def _join(
    record: Record, turns: OrderedDict[str, Turn], waiting: OrderedDict[str, list[TurnScores]]
) -> list[ScoredTurn]:
    """What becomes whole with `record`: scores whose turn is known."""
    if record.topic == TURNS:
        turn = _decoded(decode_turn, record)
        if turn is None:
            return []
        turns[turn.turn_id] = turn
        if len(turns) > REMEMBERED:
            turns.popitem(last=False)
        return [ScoredTurn(turn=turn, scores=(s,)) for s in waiting.pop(turn.turn_id, ())]
    scores = _decoded(decode_turn_scores, record)
    if scores is None:
        return []
    known = turns.get(scores.turn_id)
    if known is not None:
        return [ScoredTurn(turn=known, scores=(scores,))]
    waiting.setdefault(scores.turn_id, []).append(scores)
    if len(waiting) <= WAITING:
        return []
    _, given_up = waiting.popitem(last=False)
    return [ScoredTurn(turn=_identity(found), scores=(found,)) for found in given_up]


def _identity(scores: TurnScores) -> Turn:
    """The turn as far as its scores tell of it."""
    return Turn(
        turn_id=scores.turn_id,
        trace_id=scores.trace_id,
        span_id=scores.span_id,
        conversation_id=scores.conversation_id,
        app=scores.app,
        environment=scores.environment,
        version=scores.version,
        operation=scores.operation,
        model=scores.model,
        ended_at=scores.event_time,
        arrived_at=scores.arrived_at,
    )


def _conversation(app: str, conversation_id: str, turns: list[ScoredTurn]) -> Conversation:
    entries = [entry for turn in turns for scores in turn.scores for entry in scores.scores]
    return Conversation(
        conversation_id=conversation_id,
        app=app,
        turns=tuple(turns),
        started_at=min(scored.turn.started_at for scored in turns),
        ended_at=max(scored.turn.ended_at for scored in turns),
        defects=sum(entry.kind == "defect" and entry.passed is False for entry in entries),
    )
