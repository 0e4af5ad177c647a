"""The store: appending turns and scores, and asking one day of a month of scores.

`python tests/benchmarks/bench_store.py [SCORES]` (default: four million, three minutes). Appending
stands beside writing the same records as JSON lines to a plain file. The month is made by the
engine itself and maintained; one app's metric of the last day is asked with the day named and
without, in this process and as `assay query` does, in a process of its own.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from arro3.core import Table
from bench_export import METRICS, NOW, SECOND, scores_of
from deltalake import QueryBuilder

from assay.records import Document, Turn, encode
from assay.store import TABLES, Source, Store

ASKED_APPEND = 5000
"""Turns a second."""
ASKED_QUERY = 1.0
"""Seconds."""
COMMITS = 4
DAYS, APPS = 30, 8
FRESH_DAYS, COMMITS_A_DAY = 2, 20
"""The latest days are written in many commits, as the sink does; older ones lie compacted."""
TODAY = datetime.datetime.fromtimestamp(NOW, datetime.UTC).date()


def turns_of(count: int, rng: random.Random) -> list[Turn]:
    """Turns with three documents of 150 words and an answer of up to 100."""
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 10))) for _ in range(5000)]

    def text(length: int) -> str:
        return " ".join(rng.choices(words, k=length))

    return [
        Turn(
            turn_id=f"{i:032x}-0",
            trace_id=f"{rng.getrandbits(128):032x}",
            app="shop",
            query=text(10),
            response=text(rng.randint(20, 100)),
            documents=tuple(Document(id=str(d), content=text(150)) for d in range(3)),
            started_at=NOW * SECOND,
            ended_at=NOW * SECOND + SECOND,
            arrived_at=NOW * SECOND + 2 * SECOND,
        )
        for i in range(count)
    ]


async def measure_append(folder: Path, count: int = 10_000) -> bool:
    rng = random.Random(3)
    turns = turns_of(count, rng)
    entries = [
        (scores, entry)
        for i in range(count // 5)
        for scores in [scores_of(i, rng)]
        for entry in scores.scores
    ]
    store = Store(str(folder / "appended"))
    good = True
    for table, rows in (("turns", turns), ("scores", entries)):
        await store.append(table, [])
        step = len(rows) // COMMITS
        start, used = time.perf_counter(), time.process_time()
        for n in range(COMMITS):
            part, offsets = rows[n * step : (n + 1) * step], range(n * step, (n + 1) * step)
            await store.append(table, [Source("s", offsets, part, (n + 1) * step)])
        used = time.process_time() - used
        rate = len(rows) / (time.perf_counter() - start)
        plain = len(rows) / plainly(folder / "plain.jsonl", rows, step)
        print(
            f"append: {rate:,.0f} {table}/s, {len(rows) / used:,.0f} a second of processor time; "
            f"as JSON lines {plain:,.0f}, ratio {rate / plain:.2f}"
            + (f" (asked: {ASKED_APPEND:,})" if table == "turns" else "")
        )
        good &= table != "turns" or rate >= ASKED_APPEND
    return good


def plainly(path: Path, rows: Sequence[Any], step: int) -> float:
    """Seconds for the same rows as lines of JSON, synced after each commit's worth."""
    start = time.perf_counter()
    with path.open("wb") as file:
        for first in range(0, len(rows), step):
            for row in rows[first : first + step]:
                file.write(encode(row[1] if isinstance(row, tuple) else row) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - start


def scores_sql(day: datetime.date, first: int, turns: int) -> str:
    """Scores of `turns` turns that are spread over the day, a row for each metric."""
    start = f"timestamp '{day.isoformat()} 00:00:00'"
    at = f"{start} + arrow_cast(t.value % 86400, 'Duration(Second)')"
    of = {
        "date": f"date '{day.isoformat()}'",
        "score_id": "substr(md5(concat(t.value, '/', m.value)), 1, 24)",
        "subject_id": "concat(md5(cast(t.value AS varchar)), '-0')",
        "turn_id": "concat(md5(cast(t.value AS varchar)), '-0')",
        "trace_id": "md5(cast(t.value AS varchar))",
        "conversation_id": "md5(cast(t.value / 4 AS varchar))",
        "app": f"concat('app-', t.value % {APPS})",
        "environment": "'production'",
        "stratum": "'base'",
        "inclusion_probability": "0.2",
        "revision": "0",
        '"group"': "'local'",
        "run": "'live'",
        "event_time": at,
        "arrived_at": at,
        "scored_at": at,
        "metric": "concat('metric_', m.value)",
        "engine": "'local'",
        "subject": "'response'",
        "kind": "'defect'",
        "outcome": "'scored'",
        "value": "random()",
        "passed": "random() > 0.05",
        "threshold": "0.5",
        "direction": "'higher'",
        "reason": "concat('Sentence ', cast(random() * 9 AS int), ' is in no document.')",
        "weight": "5.0",
        "scorer_version": "'1'",
    }
    columns = [
        f"arrow_cast({of.get(_quoted(c.name), 'NULL')}, '{_type(c.type)}') AS {_quoted(c.name)}"
        for c in TABLES["scores"].columns
    ]
    return (
        f"SELECT {', '.join(columns)} "
        f"FROM generate_series({first}, {first + turns - 1}) AS t(value) "
        f"CROSS JOIN generate_series(1, {METRICS}) AS m(value)"
    )


def _quoted(name: str) -> str:
    return f'"{name}"' if name == "group" else name


def _type(kind: Any) -> str:
    text = str(kind)
    return text[text.index("<") + 1 : text.rindex(">")].strip() if "<" in text else text


async def fill(store: Store, scores: int) -> None:
    number = 0
    for back in range(DAYS):
        commits = COMMITS_A_DAY if back < FRESH_DAYS else 1
        turns = max(1, scores // METRICS // DAYS // commits)
        for _ in range(commits):
            sql = scores_sql(TODAY - datetime.timedelta(days=back), number, turns)
            rows = Table.from_arrow(QueryBuilder().execute(sql).read_all()).combine_chunks()
            number += turns
            offsets = [number] * len(rows)
            await store.append("scores", [Source("fill", offsets, rows, number + 1)])


async def timed(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = await work()
    return time.perf_counter() - start, found


async def measure_month(folder: Path, scores: int) -> bool:
    store = Store(str(folder / "month"), retention=365 * 86400.0 * 10)
    made, _ = await timed(lambda: fill(store, scores))
    kept, _ = await timed(store.maintain)
    files = list((folder / "month" / "scores").rglob("*.parquet"))
    size = sum(path.stat().st_size for path in files) / 1e9
    (row,) = await store.query("SELECT count(*) AS n FROM scores")
    print(f"month: {row['n']:,} scores, {size:.2f} GB; made in {made:.0f} s, ", end="")
    print(f"maintained in {kept:.0f} s")
    since = f"{TODAY - datetime.timedelta(days=1)}T12:00:00Z"
    select = (
        "SELECT count(*) AS n, avg(value) AS mean, sum(CASE WHEN passed THEN 0 ELSE 1 END) AS bad "
        "FROM scores WHERE app = 'app-3' AND metric = 'metric_7' "
        f"AND event_time >= '{since}' AND event_time < '{TODAY}T12:00:00Z'"
    )
    dated = f"{select} AND date >= date '{TODAY - datetime.timedelta(days=1)}'"
    good = True
    for name, sql in (("with the date", dated), ("without the date", select)):
        own = min([await timed(lambda sql=sql: store.query(sql)) for _ in range(3)])  # type: ignore[misc]
        apart = min([await timed(lambda sql=sql: store.ask(sql)) for _ in range(3)])  # type: ignore[misc]
        assert own[1] == apart[1] and own[1][0]["n"]
        print(
            f"  24 hours of an app and metric, {name}: {own[0]:.3f} s; in a process of its own "
            f"{apart[0]:.3f} s (asked: {ASKED_QUERY:g} s); {own[1][0]['n']:,} scores"
        )
        good &= apart[0] < ASKED_QUERY
    return good


async def main() -> None:
    scores = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    with tempfile.TemporaryDirectory() as folder:
        good = [await measure_append(Path(folder)), await measure_month(Path(folder), scores)]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    asyncio.run(main())
