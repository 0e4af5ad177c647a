"""Has the defect rate risen? A sequential test that may be asked every minute for ever.

Per clock block, the evidence of one bet size `lambda` is the product over the block's sampled turns
of `1 + lambda * w * (x - p0)`: x is 1 for a defect, w the turn's sampling weight, p0 the highest
rate that is no news. Its expectation is at most 1 while the true rate is at most p0, whatever the
traffic does and however the sampling ratio moves, because w undoes the sampling. Turns of a
conversation agree with each other, so the product is raised to 1 / (design effect), and bets are
kept small enough that a conversation which fails throughout cannot be mistaken for a regression.

The Shiryaev-Roberts statistic R = (R + 1) * E then satisfies: the mean number of blocks until R
first reaches A is at least A. It is kept per bet size and averaged, which keeps that promise and
finds small and large changes alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from assay.records import Cell

FRACTIONS = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)
"""lambda * w_max * p0 * (design effect) of each bet size: the largest stake that a passing turn may
lose. Smaller for turns that agree with each other."""
CEILING = 1e250
"""Evidence is held below this, where a float still multiplies."""


def factors(
    cells: Iterable[Cell], null_rate: float, largest_weight: float, design_effect: float
) -> list[float]:
    """The logarithm of the block's evidence per bet size.

    `null_rate` is in (0, 1), `design_effect` at least 1. `largest_weight` and both of these are
    known before the block. A block with a heavier turn says nothing: its stakes could exceed 1.
    """
    found = [0.0] * len(FRACTIONS)
    bets = [f / (design_effect * largest_weight * null_rate) for f in FRACTIONS]
    for cell in cells:
        if cell.judged and cell.weight > largest_weight * (1 + 1e-9):
            return [0.0] * len(FRACTIONS)
        passes = cell.judged - cell.defects
        for i, bet in enumerate(bets):
            stake = bet * cell.weight
            found[i] += cell.defects * math.log1p(stake * (1 - null_rate))
            found[i] += passes * math.log1p(-stake * null_rate)
    return [log / design_effect for log in found]


def advance(evidence: Sequence[float], block: Sequence[float]) -> list[float]:
    """R after a block, per bet size; `block` as `factors` gives it."""
    return [
        min(CEILING, (r + 1) * math.exp(min(log, 500.0)))
        for r, log in zip(evidence, block, strict=True)
    ]


def fresh() -> list[float]:
    """R before the first block."""
    return [0.0] * len(FRACTIONS)


def mixture(evidence: Sequence[float]) -> float:
    """The number that is compared with the threshold: a mean of so many blocks to false alarm."""
    return sum(evidence) / len(evidence)
