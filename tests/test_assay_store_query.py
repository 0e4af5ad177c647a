"""A reader's SQL in a process of its own: same rows, same errors, and never in the way."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from assay.errors import Permanent
from assay.store import Store
from assay.store_query import Desk, Question

ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
HUGE = "SELECT repeat('x', 2000000000) || repeat('y', 2000000000) AS text"


async def test_rows_come_as_from_the_engine(tmp_path: Path) -> None:
    """Texts, times, lists and nothing arrive as the values that they are."""
    sql = "SELECT 'ü\n' AS text, NULL AS none, [1, 2] AS list, to_timestamp(0) AS time"
    store = Store(str(tmp_path))
    assert await store.ask(sql) == await store.query(sql)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("DROP TABLE turns", "only a select"),
        ("SELECT nothing FROM turns", "nothing"),
        ("SELECT '\udcc3'", "Unicode"),
        ("SELECT * FROM generate_series(1, 200000)", "add a limit"),
        (HUGE, "memory"),
    ],
)
async def test_what_is_refused_is_told(tmp_path: Path, sql: str, words: str) -> None:
    """What the engine or our bounds refuse is an error in words, whichever process found it."""
    with pytest.raises(Permanent, match=words):
        await Store(str(tmp_path)).ask(sql)


async def test_a_query_without_end_is_stopped_and_holds_up_nobody(tmp_path: Path) -> None:
    """The loop runs on while the engine is busy, and the query ends at its deadline."""
    asked = asyncio.create_task(Desk(seconds=2).ask(Question(str(tmp_path), {}, ENDLESS)))
    longest = 0.0
    while not asked.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    with pytest.raises(Permanent, match="longer than 2 s"):
        await asked
    assert longest < 1
