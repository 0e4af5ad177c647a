"""Coverage of the defect rate's interval over simulated traffic, 2,000 runs a design.

Each design is a day of conversations with its sampling policy. The truth is the expected share of
defects among all turns. `agree` is the intra-class correlation of a conversation's turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from assay.records import Cell
from exporters.intervals import Spread, interval, moments, spread
from exporters.rollup import GROUPS

RUNS = 2000


@dataclass(frozen=True)
class Stratum:
    name: str
    share: float
    """Of all turns."""
    rate: float
    """True defect rate."""
    kept: float
    """Inclusion probability."""


@dataclass(frozen=True)
class Design:
    name: str
    strata: tuple[Stratum, ...]
    conversations: float
    """Per hour, expected."""
    longest: int = 1
    """Turns per conversation: 1, or uniform from 2 to this."""
    agree: float = 0.0
    hours: int = 24

    @property
    def truth(self) -> float:
        return sum(s.share * s.rate for s in self.strata)

    def turns(self) -> float:
        return self.conversations * self.hours * ((2 + self.longest) / 2 if self.longest > 1 else 1)

    def sampled_defects(self) -> float:
        """The fewest that any stratum expects."""
        return min(self.turns() * s.share * s.rate * s.kept for s in self.strata)


def whole(rate: float, kept: float = 1.0) -> tuple[Stratum, ...]:
    return (Stratum("base", 1.0, rate, kept),)


def errors_kept(base: float, errors: float, share: float = 0.03) -> tuple[Stratum, ...]:
    return (Stratum("errors", share, errors, 1.0), Stratum("base", 1 - share, base, 0.05))


def floors(base: float) -> tuple[Stratum, ...]:
    """Errors, an operation kept by its floor, and the rest."""
    return (
        Stratum("errors", 0.02, 0.6, 1.0),
        Stratum("floor", 0.08, min(0.9, base * 2), 0.3535533905932738),
        Stratum("base", 0.90, base, 0.05),
    )


DAY = (
    Design("all kept, 0.5 %", whole(0.005), 100),
    Design("all kept, 5 %", whole(0.05), 20),
    Design("all kept, 30 %", whole(0.30), 10),
    Design("errors at 1, rest at 0.05, 0.5 % in the rest", errors_kept(0.005, 0.3), 1200),
    Design("errors at 1, rest at 0.05, 4 % in the rest", errors_kept(0.04, 0.5), 300),
    Design("errors at 1, rest at 0.05, 30 % in the rest", errors_kept(0.30, 0.8), 80),
    Design("three policies, 2 %", floors(0.02), 500),
    Design("three policies, 10 %", floors(0.10), 200),
    Design("2 to 20 turns, all kept, 1 %", whole(0.01), 30, longest=20, agree=0.3),
    Design("2 to 20 turns, all kept, 5 %", whole(0.05), 30, longest=20, agree=0.3),
    Design("2 to 20 turns, all kept, 30 %", whole(0.30), 10, longest=20, agree=0.3),
    Design("2 to 20 turns, at 0.25, 5 %", whole(0.05, 0.25), 60, longest=20, agree=0.3),
    Design(
        "2 to 20 turns, errors at 1, rest at 0.05, 5 %",
        errors_kept(0.05, 0.5),
        60,
        longest=20,
        agree=0.3,
    ),
    Design("2 to 20 turns, three policies, 10 %", floors(0.10), 60, longest=20, agree=0.3),
)
FIRST_HOURS = (
    Design("first 2 h: all kept, 5 %", whole(0.05), 100, hours=2),
    Design("first 2 h: errors at 1, rest at 0.05", errors_kept(0.04, 0.5), 2500, hours=2),
    Design("first 2 h: 2 to 20 turns, 10 %", whole(0.10), 60, longest=20, agree=0.3, hours=2),
    Design("first 6 h: 2 to 20 turns, 5 %", whole(0.05), 40, longest=20, agree=0.3, hours=6),
    Design("first 6 h: three policies", floors(0.10), 100, longest=20, agree=0.3, hours=6),
)


def sample(design: Design, rng: np.random.Generator) -> tuple[list[Cell], np.ndarray, np.ndarray]:
    """The sampled day: its cells, and the groups' weights and defect weights by hour."""
    n = rng.poisson(design.conversations * design.hours)
    size = rng.integers(2, design.longest + 1, n) if design.longest > 1 else np.ones(n, int)
    turns = int(size.sum())
    shares = np.array([s.share for s in design.strata])
    kept = np.array([s.kept for s in design.strata])
    stratum = np.searchsorted(np.cumsum(shares)[:-1], rng.random(turns))
    sampled = np.flatnonzero(rng.random(turns) < kept[stratum])
    stratum = stratum[sampled]
    conversation = np.repeat(np.arange(n), size)[sampled]
    draw = rng.random(len(sampled))
    if design.agree:
        common = rng.random(n)[conversation]
        draw = np.where(rng.random(len(sampled)) < design.agree**0.5, common, draw)
    defect = draw < np.array([s.rate for s in design.strata])[stratum]
    cells = [
        Cell(s.name, 1 / s.kept, 0, int((stratum == i).sum()), int(defect[stratum == i].sum()))
        for i, s in enumerate(design.strata)
    ]
    hour = rng.integers(0, design.hours, n)[conversation]
    group = rng.integers(0, GROUPS, n)[conversation]
    index = hour * GROUPS + group
    weight = 1 / kept[stratum]
    total = design.hours * GROUPS
    weights = np.bincount(index, weight, total).reshape(design.hours, GROUPS)
    defects = np.bincount(index, weight * defect, total).reshape(design.hours, GROUPS)
    return cells, weights, defects


def run(design: Design, seed: int) -> tuple[float, float, float]:
    """Mean estimate over the truth, coverage, and the mean design effect."""
    rng = np.random.default_rng(seed)
    rates, covered, effects = [], 0, []
    for _ in range(RUNS):
        cells, weights, defects = sample(design, rng)
        hours = [moments(w, d) for w, d in zip(weights.tolist(), defects.tolist(), strict=True)]
        measured: Spread = spread(hours, cells, GROUPS)
        result = interval(cells, measured.design_effect)
        assert result is not None
        rates.append(result.rate)
        covered += result.lower <= design.truth <= result.upper
        effects.append(measured.design_effect)
    return float(np.mean(rates)) / design.truth, covered / RUNS, float(np.mean(effects))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_coverage_by_design() -> None:
    """The estimate is unbiased and the 95 % interval covers 93 to 97 %, 90 % on the first day."""
    print(f"\n{'design':<52}{'truth':>7}{'defects':>9}{'bias':>8}{'deff':>6}{'cover':>7}")
    bad = []
    for seed, design in enumerate((*DAY, *FIRST_HOURS)):
        bias, coverage, effect = run(design, seed)
        print(
            f"{design.name:<52}{design.truth:>7.3f}{design.sampled_defects():>9.1f}"
            f"{bias - 1:>+8.2%}{effect:>6.2f}{coverage:>7.1%}"
        )
        assert design.sampled_defects() >= 5
        low, high = (0.93, 0.97) if design in DAY else (0.90, 0.98)
        if abs(bias - 1) > 0.02 or not low <= coverage <= high:
            bad.append(design.name)
    assert not bad
