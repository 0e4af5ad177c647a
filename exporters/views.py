"""What a series shows over a window: estimates, limits, shares."""

from __future__ import annotations

from itertools import chain

import msgspec

from assay.catalogue import CASCADE
from assay.records import JUDGED
from exporters.intervals import (
    MIN_CONVERSATIONS,
    Interval,
    Spread,
    estimated,
    interval,
    judged_alike,
    pool,
    spread,
)
from exporters.rollup import GROUPS
from exporters.sums import Cells
from exporters.tracked import OpenPart, Series
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
    judged: int | None = None
    """Of the cascade: turns of which the judge was asked."""
    saved: float | None = None
    """Of the cascade: the share saved of the calls that verdicts on evenly drawn turns would need
    for an interval as wide; below 0 where they would need fewer."""


class Views:
    """Views of the series of `windows`, computed again only where something changed."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._closed: dict[int, tuple[tuple[int, int], dict[str, OpenPart]]] = {}
        self._views: dict[int, tuple[tuple[int, int, float], dict[str, View]]] = {}
        self._spreads: dict[int, tuple[tuple[int, int], Spread]] = {}

    def refresh(self, minute: int) -> list[tuple[Series, float, dict[str, View]]]:
        """Every series with its design effect and its windows, seen in `minute`."""
        effects = self.effects(minute)
        return [
            (series, effects[series.number], self.views(series, minute, effects[series.number]))
            for series in self.windows.series.values()
        ]

    def effects(self, minute: int) -> dict[int, float]:
        """The design effect in force for each series, by its number, seen in `minute`; to 0.01,
        so that a turn of one series does not change every view of its app."""
        every = self.windows.series.values()
        apps: dict[tuple[str, str], list[Spread]] = {}
        for series in every:
            app = series.key.app, series.key.environment
            if series.key.engine != CASCADE:
                apps.setdefault(app, []).append(self.spread(series, minute))
        pooled = {app: pool(members).design_effect for app, members in apps.items()}
        found = {}
        for series in every:
            own = self.spread(series, minute)
            if own.conversations >= MIN_CONVERSATIONS:
                found[series.number] = round(own.design_effect, 2)
            else:
                app = series.key.app, series.key.environment
                effect = pooled.get(app, 1.0)
                if series.key.engine == CASCADE:
                    # The app's is of verdicts; the estimates may well agree more.
                    effect = max(effect, own.design_effect)
                found[series.number] = round(effect, 2)
        return found

    def spread(self, series: Series, minute: int) -> Spread:
        """What the design effect of a series rests on."""
        state = series.changes, minute
        cached = self._spreads.get(series.number)
        if cached is not None and cached[0] == state:
            return cached[1]
        hour = minute // 60
        hours = [m for h in range(hour - 24, hour + 1) if (m := series.moments(h)) is not None]
        cells = self._closed_parts(series, minute)["24h"].cells.values()
        running = series.hours.get(hour)
        found = spread(
            hours,
            chain(cells, running.cells.values() if running else ()),
            GROUPS,
            estimates=series.key.engine == CASCADE,
        )
        self._spreads[series.number] = state, found
        return found

    def views(self, series: Series, minute: int, effect: float) -> dict[str, View]:
        """The windows of a series; the same object while nothing in it changed."""
        state = series.changes, minute, effect
        cached = self._views.get(series.number)
        if cached is not None and cached[0] == state:
            return cached[1]
        views = {}
        for window, closed in self._closed_parts(series, minute).items():
            running = series.hours if window == "24h" else series.minutes
            now = running.get(minute // 60 if window == "24h" else minute)
            if now is not None or closed.outcomes:
                views[window] = view(series, closed, now, effect)
        self._views[series.number] = state, views
        return views

    def _closed_parts(self, series: Series, minute: int) -> dict[str, OpenPart]:
        """The sums of each window without its running minute or hour."""
        state = series.late, minute
        cached = self._closed.get(series.number)
        if cached is not None and cached[0] == state:
            return cached[1]
        hour, buckets = minute // 60, bool(series.levels)
        parts = {window: OpenPart() for window in WINDOWS}
        # In order of time, not of arrival: sums round alike before and after a restart.
        for m, part in sorted(series.minutes.items(), key=_time):
            if minute - 60 <= m < minute:
                parts["1h"].merge(part, buckets=buckets)
                if minute - 5 <= m:
                    parts["5m"].merge(part, buckets=buckets)
        if cached is not None and (cached[0][0], cached[0][1] // 60) == (series.late, hour):
            parts["24h"] = cached[1]["24h"]
        else:
            for h, part in sorted(series.hours.items(), key=_time):
                if hour - 24 <= h < hour:
                    parts["24h"].merge(part, buckets=buckets)
        self._closed[series.number] = state, parts
        return parts


def _time(item: tuple[int, OpenPart]) -> int:
    return item[0]


def view(series: Series, closed: OpenPart, running: OpenPart | None, effect: float) -> View:
    """A window's sums as a view."""
    total = OpenPart()
    total.merge(closed, buckets=bool(series.levels))
    if running is not None:
        total.merge(running, buckets=bool(series.levels))
    turns, asked, errors, highest, lowest = 0, 0, 0.0, 0.0, 0.0
    for count in total.outcomes.values():
        if count.reason == JUDGED or count.lost:
            asked += count.n
        if count.outcome == "scored":
            turns += count.n
        elif count.outcome == "error":
            errors += count.weight
            highest += count.weight - count.lost + count.highest
            lowest += count.lowest
        else:
            errors += count.lost
            highest += count.highest
            lowest += count.lowest
    values = judged = defects = sum_of_values = 0.0
    for cell in total.cells.values():
        values += cell.n * cell.weight
        judged += cell.judged * cell.weight
        defects += cell.defects * cell.weight
        sum_of_values += cell.total * cell.weight
    cascade = series.key.engine == CASCADE
    if cascade:
        judged, defects = values, sum_of_values
    bounded = judged > 0 or (errors > 0 and series.key.kind != "info")
    rate_of = estimated if cascade else interval
    alike = judged_alike(total.cells.values()) if cascade else None
    return View(
        turns=turns,
        freshness=total.freshness,
        mean=sum_of_values / values if values else None,
        rate=rate_of(total.cells.values(), effect),
        if_errors_fail=(defects + highest) / (judged + errors) if bounded else None,
        if_errors_pass=(defects + lowest) / (judged + errors) if bounded else None,
        at_severity=_at_severity(total.cells, series, values),
        judged=asked if cascade else None,
        saved=1 - asked / alike if alike else None,
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
