"""What rate is no news: the trailing week's, as high as it may truly be, and a little more.

A plain estimate as the null would fire too often, since half of all estimates are too low. So the
null is the upper end of the estimate's interval, raised by the smallest change worth a page. Where
the same hour of the week (or, within the first week, of the day) is known to be worse, it is that
hour's: a bad evening that comes every day is no news.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.records import Cell
from exporters.intervals import Interval, interval

WEEK = 7 * 24
DAY = 24
FIRST_HOURS = 24
"""Hours of history before there is a baseline."""
MIN_JUDGED = 100
"""Verdicts before there is a baseline; of a recurring hour, before it counts."""
HIGHEST = 0.95
"""No rate above this can get meaningfully worse."""


def recurring(hour: int, since: int) -> list[int]:
    """The earlier hours, from `since` on, that fall on the same time as `hour`, and their
    neighbours: of last week once it is all there, before that of every day."""
    step = WEEK if since <= hour - WEEK - 1 else DAY
    at = range(hour - step, max(since, hour - WEEK - 1) - 1, -step)
    return [h + near for h in at for near in (-1, 0, 1) if since <= h + near < hour]


def null_rate(
    overall: Iterable[Cell], same_hours: Iterable[Cell], design_effect: float, change: float
) -> float | None:
    """The highest rate that is no news, in (0, 1); none while too little is known.

    `overall` are the sums of the trailing week, `same_hours` those of `recurring` hours; `change`
    is the smallest relative rise worth a page.
    """
    week, same = _known(overall, design_effect), _known(same_hours, design_effect)
    if week is None:
        return None
    worse = same is not None and same.lower > week.rate
    bound = same.upper if worse and same is not None else week.upper
    rate = bound * (1 + change)
    return rate if rate < HIGHEST else None


def _known(cells: Iterable[Cell], design_effect: float) -> Interval | None:
    cells = list(cells)
    if sum(cell.judged for cell in cells) < MIN_JUDGED:
        return None
    return interval(cells, design_effect)


Sums = dict[tuple[str, float], Cell]


def add(into: Sums, cells: Iterable[Cell], sign: int = 1) -> None:
    """Add (or with sign -1 take away) the verdicts of `cells`; none falls below zero."""
    for cell in cells:
        if cell.judged:
            key = cell.stratum, cell.weight
            total = into.get(key)
            if total is None:
                total = into[key] = Cell(*key)
            total.judged = max(0, total.judged + sign * cell.judged)
            total.defects = min(total.judged, max(0, total.defects + sign * cell.defects))
            if not total.judged:
                del into[key]
