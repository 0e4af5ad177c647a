"""Turns of an import, kept in a SQLite file so that a resumed run has the same ones."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from assay.records import Turn, decode_turn, encode
from assay.store_tables import event_day
from scorers.backfill_run import Selected
from scorers.backfill_source import BATCH, LATEST_TURNS, Talk
from scorers.judging.conversation import FIRST_TURNS


class SpooledTurns:
    """The turns of one import, as a `TurnSource`."""

    stored = False

    def __init__(self, path: Path, selected: Selected) -> None:
        self._path = path
        self._selected = selected

    def fill(self, turns: Iterable[Turn]) -> None:
        """Write the turns, in place of what the file held; a turn counts once."""
        unfinished = self._path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        with sqlite3.connect(unfinished) as db:
            db.execute(
                "CREATE TABLE turns (day INT, turn_id TEXT, app TEXT, conversation TEXT,"
                " started INT, selected INT, ends INT, value BLOB, PRIMARY KEY (day, turn_id))"
                " WITHOUT ROWID"
            )
            db.executemany(
                "INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                map(self._row, turns),
            )
            db.execute("CREATE INDEX talks ON turns (app, conversation, started, turn_id)")
        db.close()
        unfinished.chmod(0o600)
        unfinished.replace(self._path)

    def _row(self, turn: Turn) -> tuple[object, ...]:
        whole = msgspec.structs.replace(self._selected, sample=1.0)
        return (
            event_day(turn.ended_at, turn.arrived_at),
            turn.turn_id,
            turn.app,
            turn.conversation_id or "",
            turn.started_at,
            selects(self._selected, turn),
            selects(whole, turn),
            encode(turn),
        )

    async def days(self) -> dict[int, int]:
        rows = self._rows("SELECT day, count(*) FROM turns WHERE selected GROUP BY day ORDER BY 1")
        return dict(rows)

    async def names(self, day: int) -> AsyncGenerator[list[tuple[str, str]], None]:
        yield list(self._rows("SELECT turn_id, app FROM turns WHERE day = ? AND selected", day))

    async def turns(self, day: int) -> AsyncGenerator[list[Turn], None]:
        db = sqlite3.connect(self._path)
        try:
            cursor = db.execute(
                "SELECT value FROM turns WHERE day = ? AND selected ORDER BY turn_id", (day,)
            )
            while rows := cursor.fetchmany(BATCH):
                yield [decode_turn(value) for (value,) in rows]
        finally:
            db.close()

    async def talks(self) -> AsyncGenerator[tuple[int, list[Talk]], None]:
        rows = self._rows(
            "SELECT day, app, conversation, turn_id, n, first, latest FROM (SELECT *,"
            " count(*) OVER one AS n, min(day) OVER one AS first, max(day) OVER one AS latest,"
            " row_number() OVER"
            " (PARTITION BY app, conversation ORDER BY started DESC, turn_id DESC) AS nth"
            " FROM turns WHERE conversation <> '' WINDOW one AS (PARTITION BY app, conversation))"
            " WHERE nth = 1 AND ends ORDER BY day"
        )
        for day, found in groupby(rows, key=lambda row: row[0]):
            yield day, [Talk(*row[1:]) for row in found]

    async def whole(self, talks: Sequence[Talk]) -> AsyncGenerator[list[Turn], None]:
        for talk in talks:
            rows = self._rows(
                "SELECT value FROM (SELECT value, row_number() OVER (ORDER BY started, turn_id)"
                " AS nth FROM turns WHERE app = ? AND conversation = ?)"
                " WHERE nth <= ? OR nth > ? ORDER BY nth",
                *(talk.app, talk.conversation_id, FIRST_TURNS, talk.turns - LATEST_TURNS),
            )
            yield [decode_turn(value) for (value,) in rows]

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        db = sqlite3.connect(self._path)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()


def selects(selected: Selected, turn: Turn) -> bool:
    """Whether the selection, but for `when`, takes in the turn."""
    return (
        (not selected.since or turn.ended_at >= selected.since)
        and (not selected.until or turn.ended_at < selected.until)
        and selected.app in (None, turn.app)
        and (selected.sample >= 1.0 or turn.draw < turn.inclusion_probability * selected.sample)
    )
