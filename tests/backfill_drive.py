"""What tests of the backfill share: turns in a store, and a run over them, also as a process."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from assay.config import Config
from assay.records import Turn, turn_id_of
from assay.store import Source, Store
from scorers import backfill_plan as plans
from scorers.backfill import Backfill
from scorers.backfill_known import Known
from scorers.backfill_run import Run, Runs, Selected, new_run
from scorers.backfill_source import StoredTurns, TurnSource
from scorers.judge import judge_of
from scorers.judged_plan import all_entries, conversations_of, digests_of, plan_of

DAY = 86400 * 10**9
NOON = (time.time_ns() // DAY - 3) * DAY + DAY // 2


def a_turn(number: int, **fields: Any) -> Turn:
    """Turn `number`; every 100 of them are a day earlier."""
    trace_id = f"{number:032x}"
    at = NOON - number // 100 * DAY + number * 10**6
    base: dict[str, Any] = {
        "turn_id": turn_id_of(trace_id, 0),
        "trace_id": trace_id,
        "app": "shop",
        "query": f"Is lamp {number} in stock?",
        "response": f"Lamp {number} is in stock" + " and more" * (number % 9) + ".",
        "ground_truth": f"Lamp {number} is in stock.",
        "started_at": at,
        "ended_at": at + 10**9,
        "arrived_at": at + 2 * 10**9,
        "draw": (number * 37 % 100) / 100,
    }
    return Turn(**(base | fields))


async def fill(store: Store, first: int, last: int, **fields: Any) -> None:
    turns = [a_turn(number, **fields) for number in range(first, last)]
    name = f"fill/{first}"
    await store.append("turns", [Source(name, range(len(turns)), turns, len(turns))])


def settings(folder: Path, *metrics: Any, **more: Any) -> Config:
    values = {"data_dir": folder, "metrics": list(metrics) or ["f1_score", "exact_match"], **more}
    return Config.model_validate(values)


def store_of(config: Config) -> Store:
    return Store(str(config.data_dir / "store"))


async def backfill(
    config: Config,
    *,
    run: Run | None = None,
    source: TurnSource | None = None,
    limit: int | None = None,
    rescore: bool = False,
    work: bool = True,
    **selected: Any,
) -> tuple[Run, plans.Estimate]:
    """A run worked on to its end, and what it was estimated to take."""
    runs = Runs(config.data_dir)
    if run is None:
        run = new_run(config, Selected(**selected), limit=limit, rescore=rescore)
    store = store_of(config)
    judge = judge_of(config)
    try:
        plan = plan_of(config, judge, run.selected.sample)
        whole = conversations_of(config, judge, run.selected.sample)
        asked = [plan] if whole is None else [plan, whole.plan]
        known = Known(
            store,
            ((entry, digests_of(entry, judge)) for entry in all_entries(*asked)),
            run.run_id,
            rescore=run.rescore,
        )
        source = source or StoredTurns(store, run.selected)
        estimate = await plans.estimate(run, source, known, plan, judge, 1, whole)
        runs.save(run)
        if work:
            with runs.hold(run):
                job = Backfill(run, runs, source, store, plan, known, judge, whole, processes=1)
                await job.work()
    finally:
        if judge is not None:
            await judge.stop()
    return run, estimate


async def rows(config: Config, where: str = "true") -> list[dict[str, Any]]:
    return await store_of(config).query(
        "SELECT turn_id, metric, engine, outcome, value, weight, run, scorer_version FROM scores "
        f"WHERE {where} ORDER BY turn_id, metric, run"
    )


def main() -> None:
    """Work on the run and settings that standard input holds, until it is done or killed."""
    given = json.load(sys.stdin)
    config = Config.model_validate(given["config"])
    run = msgspec.convert(given["run"], Run)
    print("begun", flush=True)
    done, _ = asyncio.run(backfill(config, run=run))
    print(done.state, flush=True)


if __name__ == "__main__":
    main()
