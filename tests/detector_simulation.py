"""Many detectors at once: what production does minute by minute, in arrays over runs.

Baseline and design effect come from the product's own functions; the evidence is the product's
formula, which `test_exporters_detector` compares with the product on the same blocks.
Run as a program it prints the long tables: `make simulate`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.records import Cell
from exporters.baseline import null_rate, recurring
from exporters.detector import CEILING, FRACTIONS
from exporters.intervals import Moments, spread
from exporters.rollup import GROUPS

Array = NDArray[np.float64]
HOUR = 60
DAY = 24 * HOUR
CHANGE = 0.2


@dataclass(frozen=True)
class Design:
    """How turns come and fail. Rates are per minute."""

    name: str
    rate: float
    """Conversations a minute, on average."""
    turns: tuple[int, int] = (1, 1)
    """Fewest and most turns of a conversation, one a minute."""
    correlation: float = 0.0
    defects: float = 0.04
    traffic_swing: float = 0.0
    """Amplitude of day and night in the traffic."""
    defect_swing: float = 0.0
    """Amplitude of day and night in the defect rate, relative."""
    doubles: int | None = None
    """Day from which the traffic is twofold."""
    ratios: tuple[float, ...] = (1.0,)
    """Sampling ratio, in equal parts of the time."""


DESIGNS = [
    Design("steady", 3),
    Design("day and night", 3, traffic_swing=0.8, defect_swing=0.3),
    Design("traffic doubles", 3, doubles=5),
    Design("ratio changes", 10, ratios=(1.0, 0.2, 0.5)),
    Design("30 turns a day", 30 / DAY),
    Design("2 conversations a minute", 2, (2, 20), 0.3),
    Design("200 conversations a minute", 200, (2, 20), 0.3),
    Design("clustered day and night", 2, (2, 20), 0.3, traffic_swing=0.8, defect_swing=0.3),
]


@dataclass
class Minutes:
    """One run: sampled turns and defects by minute, the moments by hour, the weight by minute."""

    n: Array
    d: Array
    weight: Array
    hours: list[Moments]


def simulate(design: Design, days: int, rng: np.random.Generator) -> Minutes:
    """One run of `days`, with the true rate unchanged."""
    total = days * DAY
    minute = np.arange(total)
    phase = 2 * np.pi * minute / DAY
    traffic = design.rate * (1 + design.traffic_swing * np.sin(phase))
    if design.doubles is not None:
        traffic = np.where(minute >= design.doubles * DAY, 2 * traffic, traffic)
    ratio = np.repeat(design.ratios, -(-total // len(design.ratios)))[:total]
    truth = design.defects * (1 + design.defect_swing * np.sin(phase))
    starts = np.repeat(minute, rng.poisson(traffic))
    low, high = design.turns
    sizes = rng.integers(low, high + 1, starts.size)
    p = truth[starts]
    if design.correlation:
        concentration = 1 / design.correlation - 1
        p = rng.beta(p * concentration, (1 - p) * concentration)
    group = rng.integers(0, GROUPS, starts.size)
    n, d = np.zeros(total), np.zeros(total)
    w_hours, d_hours = (np.zeros(days * 24 * GROUPS) for _ in range(2))
    for turn in range(high):
        here = sizes > turn
        at = starts[here] + turn
        kept = (at < total) & (rng.random(at.size) < ratio[np.minimum(at, total - 1)])
        at = at[kept]
        bad = rng.random(at.size) < p[here][kept]
        n += np.bincount(at, minlength=total)
        d += np.bincount(at[bad], minlength=total)
        cell = at // HOUR * GROUPS + group[here][kept]
        w = 1 / ratio[at]
        w_hours += np.bincount(cell, w, minlength=w_hours.size)
        d_hours += np.bincount(cell[bad], w[bad], minlength=d_hours.size)
    moments = [
        Moments(x.sum(), y.sum(), x @ x, x @ y, y @ y, int((x > 0).sum()))
        for x, y in zip(w_hours.reshape(-1, GROUPS), d_hours.reshape(-1, GROUPS), strict=True)
    ]
    return Minutes(n, d, 1 / ratio, moments)


def evidence_step(
    r: Array, n: Array, d: Array, w: Array, p0: Array, deff: Array, top: Array
) -> Array:
    """R after a block, for arrays over runs; the last axis is the bet size."""
    bets = np.array(FRACTIONS) / deff[:, None] / (top * p0)[:, None] * w[:, None]
    log = d[:, None] * np.log1p(bets * (1 - p0[:, None]))
    log += (n - d)[:, None] * np.log1p(-bets * p0[:, None])
    log = np.where((w > top * (1 + 1e-9))[:, None], 0.0, log / deff[:, None])
    return np.minimum(CEILING, (r + 1) * np.exp(np.minimum(log, 500.0)))


def hour_cells(run: Minutes, hour: int) -> list[Cell]:
    part = slice(hour * HOUR, (hour + 1) * HOUR)
    weights = run.weight[part]
    return [
        Cell(
            "base",
            float(w),
            judged=int(run.n[part][weights == w].sum()),
            defects=int(run.d[part][weights == w].sum()),
        )
        for w in np.unique(weights)
    ]


def joined(cells: list[Cell]) -> list[Cell]:
    sums: dict[float, Cell] = {}
    for cell in cells:
        total = sums.setdefault(cell.weight, Cell("base", cell.weight))
        total.judged += cell.judged
        total.defects += cell.defects
    return list(sums.values())


def nulls(run: Minutes, change: float = CHANGE) -> tuple[Array, Array]:
    """The null rate (0 while there is none) and the design effect in force in each hour."""
    count = len(run.hours)
    cells = [hour_cells(run, hour) for hour in range(count)]
    rates, effects = np.zeros(count), np.ones(count)
    for hour in range(24, count):
        day = joined([c for h in range(hour - 24, hour) for c in cells[h]])
        effects[hour] = spread(run.hours[hour - 24 : hour], day, GROUPS).design_effect
        week = joined([c for h in range(max(0, hour - 168), hour) for c in cells[h]])
        same = joined([c for h in recurring(hour, 0) for c in cells[h]])
        rates[hour] = null_rate(week, same, effects[hour], change) or 0.0
    return rates, effects


def false_alarms(runs: list[Minutes], mean: float) -> Array:
    """Minutes from the first minute with a baseline to the alarm of each run; inf for none."""
    found = [nulls(run) for run in runs]
    rates, effects = (np.array(part) for part in zip(*found, strict=True))
    n, d, w = (np.array([getattr(r, x) for r in runs]) for x in ("n", "d", "weight"))
    r = np.zeros((len(runs), len(FRACTIONS)))
    alarm = np.full(len(runs), np.inf)
    first = np.full(len(runs), np.inf)
    for minute in range(n.shape[1]):
        hour = minute // HOUR
        p0 = rates[:, hour]
        known = p0 > 0
        top = w[:, max(0, minute - DAY) : minute + 1].max(axis=1)
        first = np.where(known & np.isinf(first), minute, first)
        step = evidence_step(
            r,
            n[:, minute],
            d[:, minute],
            w[:, minute],
            np.where(known, p0, 0.5),
            effects[:, hour],
            top,
        )
        r = np.where(known[:, None], step, r)
        alarm = np.where((r.mean(axis=1) >= mean) & np.isinf(alarm), minute, alarm)
    return alarm - np.where(np.isinf(first), 0, first)


def detection_delay(
    runs: int, mean: float, p0: float, p1: float, block: int, rng: np.random.Generator
) -> Array:
    """Turns until the alarm when the rate is p1 from the start and p0 is known."""
    r = np.zeros((runs, len(FRACTIONS)))
    delay = np.full(runs, np.inf)
    ones = np.ones(runs)
    count = 0
    while np.isinf(delay).any():
        count += block
        d = rng.binomial(block, p1, runs).astype(float)
        r = evidence_step(r, ones * block, d, ones, ones * p0, ones, ones)
        delay = np.where((r.mean(axis=1) >= mean) & np.isinf(delay), count, delay)
        if count > 20 * mean:
            break
    return delay


def cusum_delay(
    runs: int,
    threshold: float,
    p0: float,
    p1: float,
    p: float,
    rng: np.random.Generator,
    most: int = 10**6,
) -> Array:
    """Turns until the CUSUM tuned to p0 -> p1 alarms at true rate p."""
    s = np.zeros(runs)
    delay = np.full(runs, np.inf)
    up, down = np.log(p1 / p0), np.log((1 - p1) / (1 - p0))
    for count in range(1, most):
        s = np.maximum(0, s + np.where(rng.random(runs) < p, up, down))
        delay = np.where((s >= threshold) & np.isinf(delay), count, delay)
        if not np.isinf(delay).any():
            break
    return delay


def table(
    designs: list[Design], runs: int, days: int, mean: float, seed: int = 1
) -> list[tuple[str, float, float, float]]:
    """Per design: the share that fired in the first week, what an exponential would give, and the
    median time to a false alarm in means (inf: more than half never fired)."""
    rows = []
    for design in designs:
        rng = np.random.default_rng(seed)
        alarms = false_alarms([simulate(design, days, rng) for _ in range(runs)], mean)
        week = float((alarms <= 7 * DAY).mean())
        rows.append(
            (design.name, week, float(1 - np.exp(-7 * DAY / mean)), float(np.median(alarms)) / mean)
        )
    return rows


def main() -> None:
    runs, days, mean_days = (int(x) for x in (sys.argv[1:] or ["100", "45", "30"]))
    print(f"{runs} runs of {days} days, one false alarm configured in {mean_days} days")
    print(f"{'design':30} {'fired in week 1':>16} {'exponential':>12} {'median / mean':>14}")
    for design in DESIGNS:
        few = max(10, runs // 10) if design.rate > 50 else runs
        for name, week, allowed, median in table([design], few, days, mean_days * DAY):
            print(f"{name:30} {week:16.3f} {allowed:12.3f} {median:14.2f}", flush=True)


if __name__ == "__main__":
    main()
