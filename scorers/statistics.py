"""Intervals and tests of evaluations: of one mean or rate, and of the difference of two.

All are two-sided; intervals have 95 %. Pairs are of the same subject scored twice, so that what
makes one subject harder than another cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from assay.statistics import Z95, wilson

_NORMAL = NormalDist()
EXACT_UP_TO = 1_000
"""Discordant pairs up to which McNemar's test is exact."""


class Interval(NamedTuple):
    """An estimate and its limits."""

    value: float
    lower: float
    upper: float


class Mean(NamedTuple):
    """A mean and its limits; none of a single value."""

    value: float
    lower: float | None
    upper: float | None


class Difference(NamedTuple):
    """An estimated difference, its limits, and the p-value of there being none."""

    value: float
    lower: float
    upper: float
    p: float


def rate(defects: float, weight: float, squares: float) -> Interval | None:
    """A share with Wilson's limits at the effective size `weight`^2 / `squares`; none of nothing.

    `defects` and `weight` are sums of weights, `squares` of their squares.
    """
    if weight <= 0:
        return None
    share = min(1.0, max(0.0, defects / weight))
    return Interval(share, *wilson(share, weight * weight / squares))


def mean(values: Sequence[float]) -> Mean | None:
    """The mean with limits by Student's t; none of nothing."""
    if not values:
        return None
    n = len(values)
    centre = math.fsum(values) / n
    if n == 1:
        return Mean(centre, None, None)
    half = student(n - 1) * _spread(values, centre)
    return Mean(centre, centre - half, centre + half)


def paired_means(differences: Sequence[float]) -> Difference | None:
    """The mean of paired differences, tested by Student's t; none of fewer than two."""
    found = mean(differences)
    if found is None or found.lower is None or found.upper is None:
        return None
    spread = _spread(differences, found.value)
    if spread == 0.0:
        return Difference(found.value, found.lower, found.upper, float(found.value == 0.0))
    p = _t_tail(abs(found.value) / spread, len(differences) - 1)
    return Difference(found.value, found.lower, found.upper, p)


def _spread(values: Sequence[float], centre: float) -> float:
    """The standard error of the mean `centre`."""
    n = len(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (n - 1) / n)


def paired_rates(n: int, gained: int, lost: int) -> Difference | None:
    """The difference of two rates over `n` pairs, of which `gained` are events only in the first
    run and `lost` only in the second; limits by Agresti and Min (2005), McNemar's test."""
    if n <= 0:
        return None
    size = n + 2
    b, c = gained + 0.5, lost + 0.5
    centre = (b - c) / size
    half = Z95 * math.sqrt((b + c) - (b - c) ** 2 / size) / size
    return Difference(
        (gained - lost) / n,
        max(-1.0, centre - half),
        min(1.0, centre + half),
        mcnemar(gained, lost),
    )


def mcnemar(gained: int, lost: int) -> float:
    """The p-value that discordant pairs fall to either side alike: exact, else with continuity."""
    n, fewer = gained + lost, min(gained, lost)
    if n == 0:
        return 1.0
    if n > EXACT_UP_TO:
        return 2 * _NORMAL.cdf(-max(0.0, abs(gained - lost) - 1) / math.sqrt(n))
    tail = sum(math.comb(n, k) for k in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << n))


def two_rates(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """The difference of the defect rates of two independent groups, each given as (defects, weight,
    squares): limits by Newcombe's hybrid of Wilson's, test by the pooled normal."""
    a, b = rate(first[0], first[1], first[2]), rate(second[0], second[1], second[2])
    if a is None or b is None:
        return None
    n, m = first[1] * first[1] / first[2], second[1] * second[1] / second[2]
    value = a.value - b.value
    below = math.hypot(a.value - a.lower, b.upper - b.value)
    above = math.hypot(a.upper - a.value, b.value - b.lower)
    pooled = (a.value * n + b.value * m) / (n + m)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    p = 1.0 if spread == 0.0 else 2 * _NORMAL.cdf(-abs(value) / spread)
    return Difference(value, value - below, value + above, p)


def two_means(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """The difference of the means of two independent groups: Welch's t."""
    if len(first) < 2 or len(second) < 2:
        return None
    a, b = math.fsum(first) / len(first), math.fsum(second) / len(second)
    va, vb = _spread(first, a) ** 2, _spread(second, b) ** 2
    spread = math.sqrt(va + vb)
    if spread == 0.0:
        return Difference(a - b, a - b, a - b, 1.0 if a == b else 0.0)
    freedom = (va + vb) ** 2 / (va**2 / (len(first) - 1) + vb**2 / (len(second) - 1))
    half = student(freedom) * spread
    return Difference(a - b, a - b - half, a - b + half, _t_tail(abs(a - b) / spread, freedom))


def win_rate(wins: int, losses: int, ties: int) -> Difference | None:
    """The share of comparisons won, a tie counting half; limits by its own variance, sign test."""
    n = wins + losses + ties
    if n == 0:
        return None
    share = (wins + ties / 2) / n
    # Two successes and two failures more, as Agresti and Coull: near 0 and 1 the plain one is void.
    size = n + 4
    centre = (wins + ties / 2 + 2) / size
    variance = (wins + 2 + ties / 4) / size - centre**2
    half = Z95 * math.sqrt(max(variance, 0.0) / size)
    return Difference(
        share, max(0.0, centre - half), min(1.0, centre + half), mcnemar(wins, losses)
    )


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t."""
    low, high = Z95, 13.0
    while _t_tail(high, freedom) > 0.05:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_tail(middle, freedom) > 0.05 else (low, middle)
    return (low + high) / 2


def _t_tail(t: float, freedom: float) -> float:
    """P(|T| > t): the incomplete beta function I_x(freedom / 2, 1 / 2)."""
    return _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by Lentz's continued fraction."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta(1.0 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    c, d = 1.0, 1.0 / _off_zero(1.0 - (a + b) * x / (a + 1), tiny)
    found = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1.0 / _off_zero(1.0 + step * d, tiny)
            c = _off_zero(1.0 + step / c, tiny)
            found *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return front * found / a


def _off_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
