"""The store: every field in a column, every row once, and SQL that only reads."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from exporters_data import SECOND, score, turn, turn_scores

from assay.errors import Permanent, Retryable
from assay.records import (
    Cascade,
    Document,
    Feedback,
    JudgeUsage,
    Message,
    Score,
    ToolCall,
    ToolDefinition,
    Turn,
    TurnScores,
    Usage,
)
from assay.store import MOST_ROWS, SMALL_FILES, Appended, Source, Store
from assay.store_rows import scores_of, turn_of
from assay.store_tables import DAY, SCORES, TURNS, event_day

TRACE = "0af7651916cd43dd8448eb211c80319c"
FULL = Turn(
    turn_id=f"{TRACE}-1",
    trace_id=TRACE,
    span_id="b7ad6b7169203331",
    response_id="r-1",
    conversation_id="c-1",
    user_id="u-1",
    ordinal=1,
    app="shop",
    environment="production",
    version="1.2",
    operation="answer",
    prompt_version="3",
    model="m",
    provider="p",
    language="en",
    query='Quote " and \x00 and 模型',
    response="",
    system="Be kind.",
    messages=(Message(role="user", content="hello", tool_calls=(ToolCall(name="t"),)),),
    documents=(Document(id="d", title="t", content="text", score=0.5, relevance=2.0),),
    tool_definitions=(ToolDefinition(name="t", parameters={"type": "object"}),),
    tool_calls=(ToolCall(name="t", id="1", arguments={"a": [1, None]}, result=3, error="e"),),
    response_format={"type": "json_object"},
    ground_truth=("one", "two"),
    reference_tool_calls=(ToolCall(name="t"),),
    baseline_response="b",
    feedback=(Feedback(name="thumb", value=1.0),),
    usage=Usage(input_tokens=0, output_tokens=5, cached_tokens=2, cost=0.25),
    started_at=1796040000 * SECOND,
    ended_at=1796040003 * SECOND + 5000,
    arrived_at=1796040004 * SECOND,
    time_to_first_token=0.5,
    finish_reason="stop",
    error="failed",
    labels={"tier": "gold"},
    dialect="genai",
    orphan=True,
    truncated=True,
    draw=0.25,
    inclusion_probability=0.5,
    stratum="errors",
)
ENTRY = Score(
    metric="groundedness",
    engine="gpt",
    subject="response",
    kind="defect",
    outcome="scored",
    outcome_reason="none",
    value=0.0,
    label="low",
    passed=False,
    threshold=3.0,
    direction="higher",
    reason="because",
    confidence=0.5,
    details={"n": [1]},
    weight=20.0,
    score_id="s",
    scorer_version="1",
    prompt_digest="p",
    judge_usage=JudgeUsage(input_tokens=1, output_tokens=2, cached_tokens=3, calls=1, cost=0.5),
    judge_latency=1.5,
    cascade=Cascade(local=0.25, judge=True, pi=0.5),
)


def source(rows: list[Any], start: int = 0, name: str = "assay.turns/0/x") -> Source:
    return Source(name, range(start, start + len(rows)), rows, start + len(rows))


def entries(scores: TurnScores) -> list[tuple[TurnScores, Score]]:
    return [(scores, entry) for entry in scores.scores]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def written() -> bool:
    return Path("/tmp/assay-test-never.csv").exists()


async def count(store: Store, table: str = "turns") -> int:
    (row,) = await store.query(f"SELECT count(*) AS n FROM {table}")
    return int(row["n"])


async def test_every_field_comes_back(store: Store) -> None:
    """A turn and its scores read from the store equal those written: 0, empty and absent differ."""
    bare = Turn(turn_id="ab-0", trace_id="ab", ended_at=FULL.ended_at, arrived_at=FULL.arrived_at)
    assert await store.append("turns", [source([FULL, bare])]) == Appended(2, 0)
    scores = turn_scores(
        1, ENTRY, score(outcome="skipped", outcome_reason="documents"), at=1796040000.0
    )
    await store.append("scores", [source(entries(scores))])
    rows = await store.query("SELECT * FROM turns ORDER BY turn_id")
    assert [turn_of(row) for row in rows] == [FULL, bare]
    assert rows[0]["date"] == date(2026, 11, 30)
    assert rows[0]["started_at"] == datetime.fromtimestamp(1796040000, UTC)
    assert scores_of(await store.query("SELECT * FROM scores")) == (scores,)


def test_columns_are_the_records_fields() -> None:
    """No field of a record is without its column."""
    turns = {column.name for column in TURNS.columns}
    assert set(Turn.__struct_fields__) - {"usage"} <= turns
    assert set(Usage.__struct_fields__) <= turns
    scores = {column.name for column in SCORES.columns}
    fields = {*TurnScores.__struct_fields__, *Score.__struct_fields__}
    assert fields - {"scores", "judge_usage", "cascade"} <= scores
    assert {f"judge_{name}" for name in JudgeUsage.__struct_fields__} <= scores
    assert {f"cascade_{name}" for name in Cascade.__struct_fields__} <= scores
    for table in (TURNS, SCORES):
        names = [column.name for column in table.columns]
        assert len(names) == len(set(names)) and set(table.statistics) < set(names)


async def test_replays_are_recognised(store: Store) -> None:
    """Rows offered again, wholly or in part, are not written again; other sources are."""
    rows = [turn(i) for i in range(10)]
    assert await store.append("turns", [source(rows[:6])]) == Appended(6, 0)
    assert await store.append("turns", [source(rows[:6])]) == Appended(0, 6)
    assert await store.append("turns", [source(rows[2:9], 2)]) == Appended(3, 4)
    assert await store.append("turns", [source(rows[:3])]) == Appended(0, 3)
    again = Source("assay.turns/1/x", [0], [rows[9]], 1)
    assert await store.append("turns", [source(rows[:9]), again]) == Appended(1, 9)
    fresh = Store(store._url)
    assert await fresh.append("turns", [source(rows[:9])]) == Appended(0, 9)
    assert await count(store) == 10


async def test_several_rows_of_one_record_stay_together(store: Store) -> None:
    """The entries of one TurnScores share an offset and are stored or skipped as one."""
    scores = turn_scores(1, *(score(f"m{i}", value=1.0) for i in range(5)))
    part = Source("assay.scores/0/x", [7] * 5, entries(scores), 8)
    assert await store.append("scores", [part]) == Appended(5, 0)
    assert await store.append("scores", [part]) == Appended(0, 5)


async def test_two_writers_of_one_source_do_not_double(tmp_path: Path) -> None:
    """A writer that lost its partition while it wrote fails for now, and then sees the replay."""
    rows = [turn(i) for i in range(200)]
    stores = [Store(str(tmp_path)) for _ in range(4)]
    await stores[0].append("turns", [])

    async def attempt(store: Store) -> None:
        for _ in range(20):
            try:
                await store.append("turns", [source(rows)])
                return
            except Retryable:
                await asyncio.sleep(0.01)
        raise AssertionError("never written")

    await asyncio.gather(*map(attempt, stores))
    assert await count(stores[0]) == 200


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '/tmp/assay-test-never.csv'",
        "CREATE EXTERNAL TABLE f STORED AS CSV LOCATION '/etc/passwd'",
        "explain analyze COPY (SELECT 1) TO '/tmp/assay-test-never.csv'",
        "INSERT INTO turns SELECT * FROM turns",
        "DROP TABLE turns",
        "SET datafusion.execution.batch_size = 1",
        "SELECT 1; DROP TABLE turns",
        "SELECT * FROM '/etc/passwd'",
        "WITH q AS (SELECT 1) INSERT INTO turns SELECT * FROM q",
        "selec 1",
        "",
    ],
)
async def test_only_selects_are_answered(store: Store, sql: str) -> None:
    """Whatever is not one reading statement over the tables is refused."""
    with pytest.raises(Permanent):
        await store.query(sql)
    assert not written()


async def test_a_query_is_bounded(store: Store) -> None:
    """More rows than a listing can hold are an error that says so, never a silent cut."""
    many = f"SELECT * FROM generate_series(1, {MOST_ROWS})"
    assert len(await store.query(many)) == MOST_ROWS
    with pytest.raises(Permanent, match="add a limit"):
        await store.query(f"SELECT * FROM generate_series(1, {MOST_ROWS + 1})")


async def test_scores_latest_shows_the_highest_revision(store: Store) -> None:
    """A conversation that opened again counts as it ended up, per group and run."""
    parts = [
        turn_scores(1, score(value=0.1), revision=0),
        turn_scores(1, score(value=0.2), revision=1),
        turn_scores(1, score(value=0.3), revision=0, group="judge"),
        turn_scores(1, score(value=0.4), revision=0, run="backfill"),
    ]
    await store.append("scores", [source([row for part in parts for row in entries(part)])])
    rows = await store.query("SELECT value FROM scores_latest ORDER BY value")
    assert [row["value"] for row in rows] == [0.2, 0.3, 0.4]


async def test_tables_of_an_older_version_gain_columns(tmp_path: Path) -> None:
    """A column that the table does not have yet is added; old rows have none in it."""
    old = TURNS._replace(columns=TURNS.columns[:8])
    write_deltalake(f"{tmp_path}/turns", old.arrow([turn(1)]), partition_by=["date"])
    store = Store(str(tmp_path))
    await store.append("turns", [source([turn(2)])])
    rows = await store.query("SELECT turn_id, app FROM turns ORDER BY turn_id")
    assert [row["app"] for row in rows] == [None, "shop"]


async def test_maintenance_joins_files_and_ends_old_dates(tmp_path: Path) -> None:
    """Small files of a date become few, dates beyond the retention go, offsets stay known."""
    store = Store(str(tmp_path), retention=30 * 86400.0)
    long_ago = time.time_ns() - 40 * DAY
    await store.append("turns", [source([turn(0, ended_at=long_ago, arrived_at=long_ago)])])
    for i in range(1, SMALL_FILES + 3):
        await store.append("turns", [source([turn(i)], i)])
    table = DeltaTable(f"{tmp_path}/turns")
    before = len(table.file_uris())
    await store.maintain()
    table.update_incremental()
    assert len(table.file_uris()) <= 2 < before
    assert await count(store) == SMALL_FILES + 2
    assert await store.append("turns", [source([turn(5)], 5)]) == Appended(0, 1)


async def test_a_store_that_is_away_is_retryable_and_tells_no_secret(tmp_path: Path) -> None:
    """What a later attempt may cure is Retryable; keys of the settings are in no text."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = Store(str(blocked / "store"), options={"secret_key": "file"})
    with pytest.raises(Retryable) as caught:
        await store.append("turns", [source([turn(1)])])
    assert "/file" not in str(caught.value)


async def test_a_lost_race_is_retryable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that another writer beat was not made and may be made again."""

    def lose(*_: Any, **__: Any) -> None:
        raise CommitFailedError("Concurrent transaction failed.")

    with monkeypatch.context() as patched:
        patched.setattr("assay.store.write_deltalake", lose)
        with pytest.raises(Retryable):
            await store.append("turns", [source([turn(1)])])
    assert await store.append("turns", [source([turn(1)])]) == Appended(1, 0)


def test_absurd_clocks_do_not_make_partitions() -> None:
    """An event far from its arrival is filed under its arrival."""
    now = time.time_ns()
    today = now // DAY
    assert event_day(now - SECOND, now) == today
    assert event_day(now - 40 * DAY, now) == today - 40
    assert event_day(0, now) == event_day(2**62, now) == event_day(now + 2 * DAY, now) == today
    assert event_day(5 * DAY, 0) == 5


async def test_random_splits_and_replays_store_each_row_once(store: Store) -> None:
    """However batches are cut and offered again, each row is there once."""
    rng = random.Random(11)
    rows = [turn(i) for i in range(60)]
    committed = 0
    while committed < 60:
        size = rng.randint(1, 20)
        part = rows[committed : committed + size]
        await store.append("turns", [source(part, committed)])
        if rng.random() < 0.6:
            committed += len(part)
    found = await store.query("SELECT turn_id FROM turns ORDER BY turn_id")
    assert [row["turn_id"] for row in found] == [one.turn_id for one in rows]


async def test_a_table_that_was_deleted_is_made_anew(store: Store, tmp_path: Path) -> None:
    """Somebody empties the folder under the running agent: one try fails, the next one starts a
    table, and what came after the deletion is stored."""
    await store.append("turns", [source([FULL])])
    rmtree(tmp_path / "store" / "turns")
    with pytest.raises(Retryable, match="the store is away"):
        await store.append("turns", [source([FULL], 1)])
    assert await store.append("turns", [source([FULL], 1)]) == Appended(1, 0)
    assert await count(store) == 1


OPENER = """
import asyncio, sys
from assay.errors import AssayError
from assay.store import Store
for line in sys.stdin:
    store = Store(line.strip())
    try:
        print([asyncio.run(store.position(name, "x")) for name in ("turns", "scores")], flush=True)
    except AssayError as error:
        print(error, flush=True)
"""


def test_processes_that_start_at_once_create_the_tables_together(tmp_path: Path) -> None:
    """Of several processes that find no table one creates it, and the others open that one."""
    children = [
        subprocess.Popen(
            (sys.executable, "-c", OPENER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    try:
        for number in range(25):
            for child in children:
                assert child.stdin is not None
                child.stdin.write(f"{tmp_path}/{number}\n")
                child.stdin.flush()
            answers = {child.stdout.readline() for child in children if child.stdout is not None}
            assert answers == {"[0, 0]\n"}
    finally:
        for child in children:
            child.communicate()
