"""What exporting costs: adding scores up, a scrape, a restart.

Run it as a script. Each figure stands beside the limit that it is measured against, from the same
run: a bare loop that adds the same entries into a dictionary.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from assay.records import (
    RollupBatch,
    Score,
    TurnScores,
    decode_rollups,
    encode,
)
from exporters.families import render
from exporters.rollup import Sums, decode_entries
from exporters.samples import QualitySeries
from exporters.windows import Windows

HOUR = 3600
NOW = 1796040000 // HOUR * HOUR + 1800
METRICS = 25
SECOND = 10**9


def scores_of(index: int, rng: random.Random, *, app: str = "shop", at: int = NOW) -> TurnScores:
    """A turn's scores as a group writes them: 25 entries with reasons and details."""
    trace = f"{index:032x}"
    return TurnScores(
        subject_id=f"{trace}-0",
        turn_id=f"{trace}-0",
        trace_id=trace,
        conversation_id=f"conversation-{index // 5}",
        app=app,
        environment="production",
        stratum="errors" if index % 10 == 0 else "base",
        arrived_at=at * SECOND,
        scored_at=at * SECOND + SECOND,
        scores=tuple(
            Score(
                metric=f"metric_{m}",
                engine="local",
                value=rng.random(),
                passed=rng.random() > 0.05,
                threshold=0.5,
                reason="The second sentence of the answer is in none of the three documents.",
                weight=1.0 if index % 10 == 0 else 20.0,
                details={"unsupported": ["We deliver on Sundays."]},
                score_id=f"{index:016x}{m:016x}",
                scorer_version="1",
            )
            for m in range(METRICS)
        ),
    )


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_rollup(turns: int = 4000) -> None:
    rng = random.Random(1)
    raw = [encode(scores_of(i, rng, app=f"app-{i % 4}")) for i in range(turns)]
    decoded = [decode_entries(value) for value in raw]
    entries = turns * METRICS

    def bare() -> None:
        sums: dict[tuple[str, str], float] = {}
        for turn in decoded:
            for entry in turn.scores:
                key = entry.metric, entry.engine
                sums[key] = sums.get(key, 0.0) + entry.weight

    def whole() -> None:
        sums = Sums()
        for value in raw:
            sums.add(decode_entries(value))
        batch = decode_rollups(encode(RollupBatch(rollups=sums.rollups())))
        windows = Windows(lambda *_: None, max_series=5000, clock=lambda: NOW + 60)
        for rollup in batch.rollups:
            windows.add(rollup)

    limit = entries / min(seconds(bare) for _ in range(3))
    reached = entries / min(seconds(whole) for _ in range(3))
    print(f"rollup: {reached:,.0f} entries/s from bytes to windows (asked: 100,000)")
    print(f"        a bare dictionary-add loop over decoded entries: {limit:,.0f}/s,", end=" ")
    print(f"ratio {reached / limit:.2f}")


def filled(series: int, hours: int) -> Windows:
    """Windows with `series` series, active in each of the last `hours` hours and 60 minutes."""
    rng = random.Random(2)
    windows = Windows(lambda *_: None, max_series=10_000, clock=lambda: NOW)
    minutes = [NOW - h * HOUR for h in range(hours - 1, 0, -1)]
    minutes += [NOW - m * 60 for m in range(60, -1, -1)]
    for at in minutes:
        sums = Sums()
        for app in range(series // METRICS):
            sums.add(decode_entries(encode(scores_of(at + app, rng, app=f"app-{app}", at=at))))
        for rollup in sums.rollups():
            windows.add(rollup)
    return windows


def measure_scrape(series: int, hours: int = 25) -> None:
    windows = filled(series, hours)
    registry = CollectorRegistry()
    clock = [float(NOW)]
    registry.register(QualitySeries(lambda: windows, clock=lambda: clock[0]))

    def scrape(*, openmetrics: bool = False) -> bytes:
        return render(registry.collect(), openmetrics=openmetrics)

    first = seconds(scrape)
    clock[0] += 60
    minute = seconds(scrape)
    for one in windows.series.values():
        one.changes += 1
    changed = seconds(scrape)
    collect = seconds(lambda: list(registry.collect()))
    openmetrics = seconds(lambda: scrape(openmetrics=True))
    client = seconds(lambda: generate_latest(registry)) if series <= 600 else None
    page = scrape()
    print(
        f"scrape: {series} score series, {page.count(b'{'):,} samples, {len(page) / 1e6:.1f} MB: "
        f"all changed {changed:.3f} s (collecting {collect:.3f} s of it), new minute "
        f"{minute:.3f} s, first {first:.3f} s, OpenMetrics {openmetrics:.3f} s"
        + (f"; rendered by the client {client:.3f} s" if client else "")
    )


def measure_restart(series: int = 600) -> None:
    windows = filled(series, 9 * 24)
    state = {key: value for key, value in windows.changes(NOW // 60).items() if value}
    fresh = Windows(lambda *_: None, max_series=10_000, clock=lambda: NOW)
    taken = seconds(lambda: fresh.restore(state))
    size = sum(map(len, state.values())) / 1e6
    print(f"restart: {series} series, 9 days, {size:.1f} MB: {taken:.2f} s (asked: 20 s)")


if __name__ == "__main__":
    measure_rollup()
    measure_scrape(100)
    measure_scrape(600)
    measure_scrape(5000)
    measure_restart()
