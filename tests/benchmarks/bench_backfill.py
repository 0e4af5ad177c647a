"""How near a backfill comes to what its scorers alone could do.

`python tests/benchmarks/bench_backfill.py [TURNS]`. Local: turns of the store through the default
set, beside what one process scores that does nothing else, times the cores. The work beside scoring
(reading, handing over, writing) must leave 80 % of that. Judge: a stand-in with fixed latency,
beside concurrency / latency. Both sides of each ratio are measured in the same run; a busy machine
slows them alike, so the local ratio is also given in processor time.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import msgspec
from bench_scorers import turn
from judge_drive import StandInProcess

from assay.config import Config
from assay.records import encode
from assay.store import Source, Store
from scorers import backfill_plan as plans
from scorers.backfill import Backfill
from scorers.backfill_known import Known
from scorers.backfill_run import Run, Runs, Selected, new_run
from scorers.backfill_source import StoredTurns
from scorers.batch import Job, score_values
from scorers.judge import judge_of
from scorers.judged_plan import all_entries, digests_of, plan_of
from scorers.worker import BATCH_RECORDS

LOCAL_LIMIT, JUDGE_LIMIT = 0.8, 0.9
MEMORY_LIMIT = 1000
"""MB of the parent process."""
LATENCY, CONCURRENCY, JUDGED = 0.2, 16, 2400
DAY = 86400 * 10**9


async def fill(store: Store, count: int) -> None:
    first = (time.time_ns() // DAY - 5) * DAY
    for start in range(0, count, 2000):
        rows = []
        for number in range(start, min(count, start + 2000)):
            at = first + number % 3 * DAY + number * 10**9
            moments = {"started_at": at, "ended_at": at + 10**9, "arrived_at": at + 2 * 10**9}
            rows.append(msgspec.structs.replace(turn(number), **moments))
        source = Source("fill", range(start, start + len(rows)), rows, start + len(rows))
        await store.append("turns", [source])


def cpu() -> float:
    """Processor seconds of this process and its ended children."""
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, both))


async def run(config: Config, store: Store) -> tuple[Run, float, float]:
    """The run; turns a second once it is under way; processor seconds."""
    judge = judge_of(config)
    plan = plan_of(config, judge)
    made, runs = new_run(config, Selected()), Runs(config.data_dir)
    runs.save(made)
    entries = ((entry, digests_of(entry, judge)) for entry in all_entries(plan))
    known = Known(store, entries, made.run_id, rescore=False)
    seen: list[tuple[float, int]] = []

    def note(of: Run) -> None:
        if of.counts.turns:
            seen.append((time.perf_counter(), of.counts.turns))

    source = StoredTurns(store, made.selected)
    work = Backfill(made, runs, source, store, plan, known, judge, on_progress=note)
    began = cpu()
    await work.work()
    if judge is not None:
        await judge.stop()
    return made, (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]), cpu() - began


def single(count: int) -> tuple[float, float]:
    """Turns a second of one process by the clock, and by its processor time."""
    job = Job(plans_of_default(), "local", "bench")
    values = [encode(turn(number)) for number in range(count)]
    score_values(values[:50], job)
    clock, used = time.perf_counter(), time.process_time()
    for start in range(0, count, BATCH_RECORDS):
        score_values(values[start : start + BATCH_RECORDS], job)
    return count / (time.perf_counter() - clock), count / (time.process_time() - used)


def plans_of_default() -> Any:
    return plan_of(Config(), None)


async def local(folder: Path, count: int) -> bool:
    config = Config(data_dir=folder)
    store = Store(str(folder / "store"))
    await fill(store, count)
    before = single(1500)
    made, rate, used = await run(config, store)
    after = single(1500)
    cores = os.cpu_count() or 1
    alone, alone_cpu = ((a + b) / 2 for a, b in zip(before, after, strict=True))
    start = time.perf_counter()
    estimate = await again(config, store)
    known = time.perf_counter() - start
    by_clock, by_cpu = rate / (cores * alone), made.counts.turns / used / alone_cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    counts = made.counts
    print(f"local: {counts.turns:,} turns, {counts.scores:,} scores, {counts.errors:,} errors")
    print(f"  {rate:,.0f} turns/s on {cores} cores; one process alone {alone:,.0f}")
    print(f"  ratio by the clock {by_clock:.2f}, by processor time {by_cpu:.2f} of {LOCAL_LIMIT}")
    print(f"  memory {memory:,.0f} MB of {MEMORY_LIMIT}")
    print(f"  a second run finds {estimate.known:,} scores in {known:.1f} s")
    return max(by_clock, by_cpu) >= LOCAL_LIMIT and memory <= MEMORY_LIMIT


async def again(config: Config, store: Store) -> plans.Estimate:
    plan = plan_of(config, None)
    made = new_run(config, Selected())
    known = Known(store, ((e, frozenset()) for e in all_entries(plan)), made.run_id, rescore=False)
    return await plans.estimate(made, StoredTurns(store, made.selected), known, plan, None, 1)


async def judged(folder: Path) -> bool:
    standin = StandInProcess()
    try:
        standin.script(latency=LATENCY)
        config = Config.model_validate(
            {
                "data_dir": folder,
                "metrics": [{"coherence": {"engine": "judge"}}],
                "judge": {
                    "base_url": standin.base_url, "model": "gpt-4o-mini",
                    "concurrency": CONCURRENCY,
                },
            }
        )  # fmt: skip
        store = Store(str(folder / "store"))
        await fill(store, JUDGED)
        _, rate, _ = await run(config, store)
    finally:
        standin.stop()
    ideal = CONCURRENCY / LATENCY
    print(
        f"judge: {rate:.1f} turns/s; ideal {ideal:.1f}; ratio {rate / ideal:.2f} of {JUDGE_LIMIT}"
    )
    return rate / ideal >= JUDGE_LIMIT


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        good = [
            asyncio.run(local(Path(folder) / "local", count)),
            asyncio.run(judged(Path(folder) / "judge")),
        ]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
