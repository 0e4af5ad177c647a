"""Adding cells, outcomes and conversation groups: the arithmetic that deltas and windows share."""

from __future__ import annotations

import math
from collections.abc import Iterable

from assay.records import Cell, OutcomeCount

EXACT_CELLS = 64
"""Cells of a sum up to which weights are kept exactly."""
MAX_CELLS = 256
"""Cells of a sum altogether: memory is bounded by series, not by the number of weights."""

Cells = dict[tuple[str, float], Cell]
Outcomes = dict[tuple[str, str], OutcomeCount]


def cell_of(cells: Cells, stratum: str, weight: float) -> Cell:
    """The cell of (stratum, weight), opened when it is not there.

    Beyond EXACT_CELLS a new weight is rounded to the grid 2^(k/16), at most 2.2 % off; beyond
    MAX_CELLS all further strata share one name.
    """
    cell = cells.get((stratum, weight))
    if cell is not None:
        return cell
    if len(cells) >= EXACT_CELLS:
        weight = 2.0 ** (round(16 * math.log2(weight)) / 16)
        if len(cells) >= MAX_CELLS and (stratum, weight) not in cells:
            stratum, weight = "other", 2.0 ** round(math.log2(weight))
        cell = cells.get((stratum, weight))
    if cell is None:
        cell = cells[stratum, weight] = Cell(stratum, weight)
    return cell


def add_cells(into: Cells, cells: Iterable[Cell], *, buckets: bool) -> None:
    """Add `cells` to `into`; their histograms too when `buckets` is set."""
    for cell in cells:
        total = cell_of(into, cell.stratum, cell.weight)
        total.n += cell.n
        total.judged += cell.judged
        total.defects += cell.defects
        total.total += cell.total
        total.squares += cell.squares
        if buckets and cell.buckets:
            if len(total.buckets) == len(cell.buckets):
                for i, n in enumerate(cell.buckets):
                    total.buckets[i] += n
            else:
                # Another scale: the metric was redefined, and its old counts mean nothing.
                total.buckets = cell.buckets.copy()


def add_outcomes(into: Outcomes, outcomes: Iterable[OutcomeCount]) -> None:
    """Add `outcomes` to `into`."""
    for count in outcomes:
        total = into.get((count.outcome, count.reason))
        if total is None:
            total = into[count.outcome, count.reason] = OutcomeCount(count.outcome, count.reason)
        total.n += count.n
        total.weight += count.weight
        total.lost += count.lost
        total.highest += count.highest
        total.lowest += count.lowest
