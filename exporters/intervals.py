"""How sure a defect rate is: Hajek's estimate, Wilson's interval per stratum joined by MOVER, and
a design effect because turns of one conversation are not independent.

The estimate is the ratio of weighted sums. Each stratum's interval is Wilson's over its effective
size: Kish's (sum w)^2 / sum w^2, divided by the design effect. MOVER (Zou and Donner 2008) joins
them: the distances from estimate to limit add as squares, weighted by the strata's shares. The
shares are themselves estimated from the sample, which adds (p_s - r)^2 / n_s per stratum.

The design effect is a random-group estimate (Wolter 2007, chapter 2): conversations are hashed
into 32 groups per hour; the variance of the groups' residuals over what independent turns of the
same weights would show, pooled over a day.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay.records import Cell
from assay.statistics import Z95, wilson

MIN_CONVERSATIONS = 200
"""Below this many, a series' own design effect is too noisy and its app's is used."""


class Interval(NamedTuple):
    """A rate and its limits, lower <= rate <= upper; of verdicts all are from 0 to 1."""

    rate: float
    lower: float
    upper: float


class Moments(NamedTuple):
    """What the design effect needs of the groups of one hour: sums over the groups of their
    weight W and defect weight D, their squares and products, and how many groups hold anything."""

    w: float
    d: float
    ww: float
    wd: float
    dd: float
    occupied: int


class Spread(NamedTuple):
    """Variance of the residuals between groups and under independence, and how many conversations
    they rest on. They add up over hours and series."""

    between: float = 0.0
    independent: float = 0.0
    conversations: float = 0.0

    @property
    def design_effect(self) -> float:
        """At least 1."""
        return max(1.0, self.between / self.independent) if self.independent > 0 else 1.0


def interval(cells: Iterable[Cell], design_effect: float = 1.0, z: float = Z95) -> Interval | None:
    """The weighted defect rate over `cells` and its limits; none without a verdict."""
    strata: dict[str, list[float]] = {}
    defects, passes = [0.0, 0.0], [0.0, 0.0]
    for cell in cells:
        if cell.judged:
            weight, square = cell.weight, cell.weight * cell.weight
            sums = strata.setdefault(cell.stratum, [0.0, 0.0, 0.0])
            sums[0] += cell.judged * weight
            sums[1] += cell.judged * square
            sums[2] += cell.defects * weight
            defects[0] += cell.defects * weight
            defects[1] += cell.defects * square
            passes[0] += (cell.judged - cell.defects) * weight
            passes[1] += (cell.judged - cell.defects) * square
    weight = sum(sums[0] for sums in strata.values())
    if weight <= 0:
        return None
    rate = min(1.0, defects[0] / weight)
    rarer = min(defects, passes)
    z *= _student(rarer[0], rarer[1], design_effect, z)
    below = above = 0.0
    for w, ww, d in strata.values():
        share, p, n = w / weight, min(1.0, d / w), w * w / ww / design_effect
        lower, upper = wilson(p, n, z)
        shares = z * z * (p - rate) ** 2 / n
        below += share * share * ((p - lower) ** 2 + shares)
        above += share * share * ((upper - p) ** 2 + shares)
    return Interval(rate, max(0.0, rate - math.sqrt(below)), min(1.0, rate + math.sqrt(above)))


def estimated(cells: Iterable[Cell], design_effect: float = 1.0, z: float = Z95) -> Interval | None:
    """The weighted mean of the cascade's estimates over `cells` with a normal interval, which may
    lie outside 0 to 1; none without an estimate."""
    cells = list(cells)
    weight = sum(cell.n * cell.weight for cell in cells)
    if weight <= 0:
        return None
    rate = sum(cell.total * cell.weight for cell in cells) / weight
    half = z * math.sqrt(design_effect * _residual_squares(cells, rate)) / weight
    return Interval(rate, rate - half, rate + half)


def judged_alike(cells: Iterable[Cell]) -> float | None:
    """Of how many turns, drawn evenly, the judge's verdicts alone would give an interval as wide as
    that of `estimated`; none where there is no rate between 0 and 1 to tell it from."""
    cells = list(cells)
    weight = sum(cell.n * cell.weight for cell in cells)
    rate = sum(cell.total * cell.weight for cell in cells) / weight if weight > 0 else 0.0
    squares = _residual_squares(cells, rate)
    return rate * (1 - rate) * weight * weight / squares if 0 < rate < 1 and squares > 0 else None


def _residual_squares(cells: Iterable[Cell], rate: float) -> float:
    """The weighted squares of what the estimates are off `rate`: the variance of their sum."""
    return sum(
        cell.weight**2 * max(0.0, cell.squares - 2 * rate * cell.total + rate * rate * cell.n)
        for cell in cells
    )


def _verdict_squares(cells: Iterable[Cell], rate: float) -> float:
    """The same of verdicts."""
    return sum(
        cell.weight**2 * (cell.defects * (1 - rate) ** 2 + (cell.judged - cell.defects) * rate**2)
        for cell in cells
    )


def _student(weight: float, square: float, design_effect: float, z: float) -> float:
    """How much wider the interval is because the design effect is itself an estimate.

    It rests on about as many clusters as the rarer verdict fills, so Student's quantile takes the
    place of the normal one (its first-order expansion, 1 + (z^2 + 1) / 4 df), in proportion to how
    much of the variance the design effect stands for; at most twofold.
    """
    if design_effect <= 1 or square <= 0:
        return 1.0
    clusters = weight * weight / square / design_effect
    return min(2.0, 1 + (1 - 1 / design_effect) * (z * z + 1) / (4 * clusters))


def moments(weights: Sequence[float], defects: Sequence[float]) -> Moments:
    """The moments of one hour's groups; both sequences have one entry per group."""
    w = d = ww = wd = dd = 0.0
    occupied = 0
    for x, y in zip(weights, defects, strict=True):
        if x:
            occupied += 1
            w += x
            d += y
            ww += x * x
            wd += x * y
            dd += y * y
    return Moments(w, d, ww, wd, dd, occupied)


def spread(
    hours: Iterable[Moments], cells: Iterable[Cell], groups: int, *, estimates: bool = False
) -> Spread:
    """The spread of a series over `hours`, whose entries are summed up in `cells`: verdicts, or
    the cascade's `estimates`.

    Conversations are counted by how many of an hour's groups are occupied (linear counting); an
    hour whose groups are all occupied counts as if half a group more had stayed empty.
    """
    hours = [hour for hour in hours if hour.w > 0]
    weight = sum(hour.w for hour in hours)
    if weight <= 0:
        return Spread()
    rate = sum(hour.d for hour in hours) / weight
    between = conversations = 0.0
    for hour in hours:
        squares = hour.dd - 2 * rate * hour.wd + rate * rate * hour.ww
        mean = (hour.d - rate * hour.w) / groups
        between += (squares - groups * mean * mean) * groups / (groups - 1)
        empty = max(groups - hour.occupied, 0.5)
        conversations += groups * math.log(groups / empty)
    independent = (_residual_squares if estimates else _verdict_squares)(cells, rate)
    return Spread(max(0.0, between), independent, conversations)


def pool(spreads: Iterable[Spread]) -> Spread:
    """The spread of several series of one app together."""
    return Spread(*map(sum, zip(*spreads, strict=True)))
