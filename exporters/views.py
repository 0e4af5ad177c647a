"""What a series shows over a window: estimates, limits, shares."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from exporters.intervals import MIN_CONVERSATIONS, Interval, Spread, interval, spread
from exporters.rollup import GROUPS
from exporters.sums import Cells, add_cells
from exporters.tracked import OPEN_HOURS, OpenPart, Series
from exporters.windows import Windows

WINDOWS = ("5m", "1h", "24h")


class View(msgspec.Struct, frozen=True):
    """One window of one series. None where the window has nothing to say it from."""

    turns: int
    freshness: float
    mean: float | None
    rate: Interval | None
    if_errors_fail: float | None
    if_errors_pass: float | None
    at_severity: dict[str, float]


class Views:
    """Views of the series of `windows`, computed again only when a series or the minute changed."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._views: dict[int, tuple[int, int, float, dict[str, View]]] = {}
        self._spreads: dict[int, tuple[int, int, Spread]] = {}

    def refresh(self, minute: int) -> list[tuple[Series, float, dict[str, View]]]:
        """Every series with its design effect and its windows, seen in `minute`."""
        spreads = {s.number: self._spread(s, minute // 60) for s in self._windows.series.values()}
        apps: dict[tuple[str, str], Spread] = {}
        for series in self._windows.series.values():
            app = series.key.app, series.key.environment
            apps[app] = apps.get(app, Spread()).plus(spreads[series.number])
        shown = []
        for series in self._windows.series.values():
            own = spreads[series.number]
            if own.conversations < MIN_CONVERSATIONS:
                own = apps[series.key.app, series.key.environment]
            shown.append((series, own.design_effect, self._view(series, minute, own.design_effect)))
        return shown

    def _spread(self, series: Series, hour: int) -> Spread:
        cached = self._spreads.get(series.number)
        if cached is not None and cached[:2] == (series.changes, hour):
            return cached[2]
        hours = [h for h in series.groups if hour - OPEN_HOURS < h <= hour]
        cells: Cells = {}
        for h in hours:
            if (part := series.hours.get(h)) is not None:
                add_cells(cells, part.cells.values(), buckets=False)
        found = spread(filter(None, map(series.moments, hours)), cells.values(), GROUPS)
        self._spreads[series.number] = series.changes, hour, found
        return found

    def _view(self, series: Series, minute: int, effect: float) -> dict[str, View]:
        cached = self._views.get(series.number)
        if cached is not None and cached[:3] == (series.changes, minute, effect):
            return cached[3]
        hour = minute // 60
        views = {}
        for window, parts in (
            ("5m", [p for m, p in series.minutes.items() if minute - 5 <= m <= minute]),
            ("1h", [p for m, p in series.minutes.items() if minute - 60 <= m <= minute]),
            ("24h", [p for h, p in series.hours.items() if hour - 24 <= h <= hour]),
        ):
            if parts:
                views[window] = view(parts, series, effect)
        self._views[series.number] = series.changes, minute, effect, views
        return views


def view(parts: Iterable[OpenPart], series: Series, effect: float) -> View:
    """The sums of `parts` as a view. A window is the running unit and those before it."""
    cells: Cells = {}
    turns, errors, freshness = 0, 0.0, 0.0
    for part in parts:
        add_cells(cells, part.cells.values(), buckets=bool(series.levels))
        freshness = max(freshness, part.freshness)
        for count in part.outcomes.values():
            if count.outcome == "scored":
                turns += count.n
            elif count.outcome == "error":
                errors += count.weight
    values = sum(cell.n * cell.weight for cell in cells.values())
    judged = sum(cell.judged * cell.weight for cell in cells.values())
    defects = sum(cell.defects * cell.weight for cell in cells.values())
    bounded = judged > 0 or (errors > 0 and series.key.kind != "info")
    return View(
        turns=turns,
        freshness=freshness,
        mean=sum(c.total * c.weight for c in cells.values()) / values if values else None,
        rate=interval(cells.values(), effect),
        if_errors_fail=(defects + errors) / (judged + errors) if bounded else None,
        if_errors_pass=defects / (judged + errors) if bounded else None,
        at_severity=_at_severity(cells, series, values),
    )


def _at_severity(cells: Cells, series: Series, values: float) -> dict[str, float]:
    """The weighted share of values at or above each level."""
    if not values:
        return {}
    shares = {}
    for level, lowest in series.levels.items():
        below = sum(1 for bound in series.bounds if bound < lowest)
        # Bucket i holds what is above bound i-1: whole levels, since severities are integers.
        at = sum(sum(cell.buckets[below:]) * cell.weight for cell in cells.values())
        shares[level] = at / values
    return shares
