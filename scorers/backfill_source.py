"""Where a backfill's turns come from; here: the store.

A source gives the turns by the day of their event, the store's partition, so that what is known of
a day's scores is looked up once. A conversation belongs to the day of its last turn, and is
selected by that turn.
"""

from __future__ import annotations

import datetime
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from assay.records import Turn
from assay.store import Store
from assay.store_rows import turn_of
from scorers.backfill_run import Selected
from scorers.judging.conversation import FIRST_TURNS, MAX_TURNS

EPOCH = datetime.date(1970, 1, 1)
BATCH = 256
READ_TOGETHER = 1000
"""Turns of conversations that one question to the store brings."""
LATEST_TURNS = MAX_TURNS - FIRST_TURNS
"""Of a longer conversation the first turns and these are read, as live ones are kept."""


class Talk(NamedTuple):
    """A conversation, without its turns."""

    app: str
    conversation_id: str
    last_turn: str
    """Its turn's id."""
    turns: int
    first_day: int
    last_day: int


class TurnSource(Protocol):
    """Turns to score."""

    stored: bool
    """Whether the turns are rows of the store already."""

    async def days(self) -> dict[int, int]:
        """Days since the epoch, ascending, with the number of turns that are selected by all but
        `when`."""

    def names(self, day: int) -> AsyncGenerator[list[tuple[str, str]], None]:
        """Id and app of those turns of a day, in batches, in any order."""

    def turns(self, day: int) -> AsyncGenerator[list[Turn], None]:
        """The same turns whole, in batches, in any order."""

    def talks(self) -> AsyncGenerator[tuple[int, list[Talk]], None]:
        """The selected conversations by their day, ascending; a sample is no matter of turns."""

    def whole(self, talks: Sequence[Talk]) -> AsyncGenerator[list[Turn], None]:
        """The turns of each of the conversations, in order of time."""


class StoredTurns:
    """The turns of the store."""

    stored = True

    def __init__(self, store: Store, selected: Selected) -> None:
        self._store = store
        self._where = " AND ".join(conditions(selected, "ended_at")) or "true"
        whole = conditions(msgspec.structs.replace(selected, sample=1.0), "ended_at")
        self._where_talk = " AND ".join(whole) or "true"

    async def days(self) -> dict[int, int]:
        rows = await self._store.query(
            f"SELECT date, count(*) AS n FROM turns WHERE {self._where} "  # noqa: S608 - quoted
            "GROUP BY date ORDER BY date"
        )
        return {(row["date"] - EPOCH).days: row["n"] for row in rows}

    async def names(self, day: int) -> AsyncGenerator[list[tuple[str, str]], None]:
        async for rows in self._store.stream(self._select("turn_id, app", day)):
            yield [(row["turn_id"], row["app"]) for row in rows]

    async def turns(self, day: int) -> AsyncGenerator[list[Turn], None]:
        async for rows in self._store.stream(self._select("*", day)):
            for start in range(0, len(rows), BATCH):
                yield [turn_of(row) for row in rows[start : start + BATCH]]

    async def talks(self) -> AsyncGenerator[tuple[int, list[Talk]], None]:
        last = "last_value({} ORDER BY started_at NULLS FIRST, turn_id)".format
        sql = (
            "SELECT * FROM (SELECT app, conversation_id, count(*) AS turns, "  # noqa: S608 - quoted
            f"min(date) AS first_date, max(date) AS last_date, {last('date')} AS date, "
            f"{last('turn_id')} AS last_turn, "
            f"{last('ended_at')} AS ended_at FROM turns WHERE conversation_id <> '' "
            f"GROUP BY app, conversation_id) WHERE {self._where_talk} ORDER BY date"
        )
        day, found = 0, list[Talk]()
        async for rows in self._store.stream(sql):
            for row in rows:
                of_row = (row["date"] - EPOCH).days
                if of_row != day and found:
                    yield day, found
                    found = []
                day = of_row
                found.append(
                    Talk(
                        row["app"],
                        row["conversation_id"],
                        row["last_turn"],
                        row["turns"],
                        (row["first_date"] - EPOCH).days,
                        (row["last_date"] - EPOCH).days,
                    )
                )
        if found:
            yield day, found

    async def whole(self, talks: Sequence[Talk]) -> AsyncGenerator[list[Turn], None]:
        for some in _portions(talks):
            names = ", ".join(
                f"({text(talk.app)}, {text(talk.conversation_id)}, {talk.turns})" for talk in some
            )
            first = min(talk.first_day for talk in some)
            last = max(talk.last_day for talk in some)
            sql = (
                "SELECT * FROM (SELECT t.*, k.turns, row_number() OVER (PARTITION BY t.app, "  # noqa: S608
                "t.conversation_id ORDER BY t.started_at NULLS FIRST, t.turn_id) AS nth "
                f"FROM turns t JOIN (VALUES {names}) AS k(app, conversation_id, turns) "
                "ON t.app = k.app AND t.conversation_id = k.conversation_id "
                f"WHERE t.date BETWEEN {date_text(first)} AND {date_text(last)}) "
                f"WHERE nth <= {FIRST_TURNS} OR nth > turns - {LATEST_TURNS} "
                "ORDER BY app, conversation_id, nth"
            )
            turns: list[Turn] = []
            async for rows in self._store.stream(sql):
                for turn in map(turn_of, rows):
                    if turns and _talk_of(turns[-1]) != _talk_of(turn):
                        yield turns
                        turns = []
                    turns.append(turn)
            if turns:
                yield turns

    def _select(self, columns: str, day: int) -> str:
        return f"SELECT {columns} FROM turns WHERE date = {date_text(day)} AND {self._where}"  # noqa: S608


def _talk_of(turn: Turn) -> tuple[str, str | None]:
    return turn.app, turn.conversation_id


def _portions(talks: Iterable[Talk]) -> Iterator[list[Talk]]:
    """Talks whose turns can be read together."""
    found: list[Talk] = []
    size = 0
    for talk in talks:
        if size >= READ_TOGETHER:
            yield found
            found, size = [], 0
        found.append(talk)
        size += min(talk.turns, MAX_TURNS)
    if found:
        yield found


def conditions(selected: Selected, time_column: str) -> list[str]:
    """What SQL can check of a selection on `turns`."""
    found = []
    if selected.since:
        found.append(f"{time_column} >= {_moment(selected.since)}")
        found.append(f"date >= {date_text(selected.since // (86400 * 10**9) - 1)}")
    if selected.until:
        found.append(f"{time_column} < {_moment(selected.until)}")
        found.append(f"date <= {date_text(selected.until // (86400 * 10**9) + 1)}")
    if selected.app is not None:
        found.append(f"app = {text(selected.app)}")
    if selected.sample < 1.0:
        found.append(f"draw < inclusion_probability * {selected.sample!r}")
    return found


def text(value: str) -> str:
    """`value` as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def date_text(day: int) -> str:
    """A day since the epoch as a literal of SQL."""
    return f"date '{(EPOCH + datetime.timedelta(days=max(0, day))).isoformat()}'"


def _moment(nanoseconds: int) -> str:
    return f"to_timestamp_micros({nanoseconds // 1000})"
