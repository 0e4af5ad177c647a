"""Where a backfill's turns come from: the store, or a file that an import was written to.

Both give the turns by the day of their event, the store's partition, so that what is known of a
day's scores is looked up once.
"""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Protocol

from assay.records import Turn, decode_turn, encode
from assay.store import Store
from assay.store_rows import turn_of
from assay.store_tables import event_day
from scorers.backfill_run import Selected

EPOCH = datetime.date(1970, 1, 1)
BATCH = 256


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


class StoredTurns:
    """The turns of the store."""

    stored = True

    def __init__(self, store: Store, selected: Selected) -> None:
        self._store = store
        self._where = " AND ".join(conditions(selected, "ended_at")) or "true"

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

    def _select(self, columns: str, day: int) -> str:
        return f"SELECT {columns} FROM turns WHERE date = {date_text(day)} AND {self._where}"  # noqa: S608


class SpooledTurns:
    """Turns of an import, kept in a SQLite file so that a resumed run has the same ones."""

    stored = False

    def __init__(self, path: Path, selected: Selected) -> None:
        self._path = path
        self._selected = selected

    def fill(self, turns: Iterable[Turn]) -> None:
        """Write the selected turns, in place of what the file held; a turn counts once."""
        unfinished = self._path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        with sqlite3.connect(unfinished) as db:
            db.execute(
                "CREATE TABLE turns (day INT, turn_id TEXT, value BLOB, PRIMARY KEY (day, turn_id))"
                " WITHOUT ROWID"
            )
            db.executemany(
                "INSERT OR REPLACE INTO turns VALUES (?, ?, ?)",
                (
                    (event_day(turn.ended_at, turn.arrived_at), turn.turn_id, encode(turn))
                    for turn in turns
                    if selects(self._selected, turn)
                ),
            )
        db.close()
        unfinished.chmod(0o600)
        unfinished.replace(self._path)

    async def days(self) -> dict[int, int]:
        with sqlite3.connect(self._path) as db:
            rows = db.execute("SELECT day, count(*) FROM turns GROUP BY day ORDER BY day")
            found = dict(rows.fetchall())
        db.close()
        return found

    async def names(self, day: int) -> AsyncGenerator[list[tuple[str, str]], None]:
        async for turns in self.turns(day):
            yield [(turn.turn_id, turn.app) for turn in turns]

    async def turns(self, day: int) -> AsyncGenerator[list[Turn], None]:
        db = sqlite3.connect(self._path)
        try:
            cursor = db.execute("SELECT value FROM turns WHERE day = ? ORDER BY turn_id", (day,))
            while rows := cursor.fetchmany(BATCH):
                yield [decode_turn(value) for (value,) in rows]
        finally:
            db.close()


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


def selects(selected: Selected, turn: Turn) -> bool:
    """The same of a turn at hand."""
    return (
        (not selected.since or turn.ended_at >= selected.since)
        and (not selected.until or turn.ended_at < selected.until)
        and selected.app in (None, turn.app)
        and (selected.sample >= 1.0 or turn.draw < turn.inclusion_probability * selected.sample)
    )


def text(value: str) -> str:
    """`value` as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def date_text(day: int) -> str:
    """A day since the epoch as a literal of SQL."""
    return f"date '{(EPOCH + datetime.timedelta(days=max(0, day))).isoformat()}'"


def _moment(nanoseconds: int) -> str:
    return f"to_timestamp_micros({nanoseconds // 1000})"
