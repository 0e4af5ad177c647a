"""The samples of one series, family by family, and their text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from prometheus_client import Counter, Gauge
from prometheus_client.samples import Exemplar

from assay import series as rows
from assay.catalogue import CASCADE
from exporters.families import NO_LABELS, LabelSet, Point, line
from exporters.severity import LEVELS
from exporters.tracked import Series
from exporters.views import WINDOWS, View

_PASSED, _FAILED = LabelSet({"passed": "true"}), LabelSet({"passed": "false"})
_WINDOW = {window: LabelSet({"window": window}) for window in WINDOWS}
_WINDOW_LEVEL = {
    (window, level): LabelSet({"window": window, "level": level})
    for window in WINDOWS
    for level in LEVELS
}


class Entry:
    """One series as it is shown."""

    __slots__ = ("_plain", "_rich", "changes", "effect", "labels", "series", "views")

    def __init__(self, series: Series, labels: LabelSet) -> None:
        self.series = series
        self.labels = labels
        self.effect = 1.0
        self.views: dict[str, View] = {}
        self.changes = -1
        self._plain: list[str] = []
        self._rich: dict[int, str] = {}
        """Where the text of OpenMetrics is another: with exemplars."""

    def renew(self, effect: float, views: dict[str, View]) -> None:
        """Something in the series changed: what was rendered is no longer right."""
        self.effect, self.views, self.changes = effect, views, self.series.changes
        self._plain, self._rich = [], {}

    def render(self) -> None:
        """Make the texts, in the thread that changes the windows."""
        plain: list[str] = []
        rich: dict[int, str] = {}
        for index, (row, points) in enumerate(FAMILIES):
            bare, full, exemplars = [], [], False
            for suffix, labels, extra, value, exemplar in points(self):
                text = line(row.name + suffix, labels, extra, value)
                bare.append(text)
                if exemplar is not None:
                    exemplars = True
                    text = line(row.name + suffix, labels, extra, value, exemplar)
                full.append(text)
            plain.append("".join(bare))
            if exemplars:
                rich[index] = "".join(full)
        self._plain, self._rich = plain, rich

    def text(self, index: int, *, openmetrics: bool) -> str:
        """The lines of the family at `index`."""
        if not self._plain:
            self.render()
        return (self._rich.get(index) if openmetrics else None) or self._plain[index]


Points = Callable[[Entry], Iterator[Point]]


def _point(
    labels: LabelSet,
    value: float | None,
    extra: LabelSet = NO_LABELS,
    suffix: str = "",
    exemplar: Exemplar | None = None,
) -> Iterator[Point]:
    """None without a finite value."""
    if value is not None and math.isfinite(value):
        yield suffix, labels, extra, value, exemplar


def _evaluations(entry: Entry) -> Iterator[Point]:
    for count in entry.series.outcomes.values():
        yield from _point(entry.labels, count.n, _outcome(count.outcome, count.reason))


def _passed(entry: Entry) -> Iterator[Point]:
    totals = entry.series.totals
    if totals.weight:
        yield from _point(entry.labels, totals.passed, _PASSED)
        yield from _point(entry.labels, totals.failed, _FAILED)


def _counter(value: Callable[[Series], float]) -> Points:
    def points(entry: Entry) -> Iterator[Point]:
        if entry.series.totals.weight:
            yield from _point(entry.labels, value(entry.series))

    return points


def _gauge(value: Callable[[View], float | None]) -> Points:
    def points(entry: Entry) -> Iterator[Point]:
        for window, view in entry.views.items():
            yield from _point(entry.labels, value(view), _WINDOW[window])

    return points


def _at_severity(entry: Entry) -> Iterator[Point]:
    for window, view in entry.views.items():
        for level, rate in view.at_severity.items():
            yield from _point(entry.labels, rate, _WINDOW_LEVEL[window, level])


def _last_scored(entry: Entry) -> Iterator[Point]:
    if entry.series.totals.last_scored:
        yield from _point(entry.labels, entry.series.totals.last_scored)


def _effect(entry: Entry) -> Iterator[Point]:
    if entry.series.totals.weight or entry.series.key.engine == CASCADE:
        yield from _point(entry.labels, entry.effect)


def _scorer(entry: Entry) -> Iterator[Point]:
    if entry.series.totals.scorers:
        newest = next(reversed(entry.series.totals.scorers))
        yield from _point(entry.labels, 1.0, LabelSet({"scorer": newest}))


def _scores(entry: Entry) -> Iterator[Point]:
    return _histogram(entry.series, entry.labels)


def _latencies(entry: Entry) -> Iterator[Point]:
    key = entry.series.key
    if key.metric == "latency_seconds" and key.engine == "computed":
        of_turns = {name: entry.labels.values[name] for name in rows.TURN_LATENCY.labels}
        yield from _histogram(entry.series, LabelSet(of_turns))


def _histogram(series: Series, labels: LabelSet) -> Iterator[Point]:
    totals = series.totals
    if not any(totals.buckets):
        return
    count = 0.0
    for index, bound in enumerate((*series.bounds, math.inf)):
        count += totals.buckets[index]
        exemplar = None
        if (found := totals.exemplars.get(index)) is not None:
            trace_id, value, at = found
            exemplar = Exemplar({"trace_id": trace_id}, value, at)
        yield from _point(labels, count, _le(bound), "_bucket", exemplar)
    if series.bounds[0] >= 0:
        # A sum of values that may be negative can fall, which a counter must not; without a sum
        # OpenMetrics forbids the count too, and the +Inf bucket tells it.
        yield from _point(labels, count, suffix="_count")
        yield from _point(labels, totals.value_sum, suffix="_sum")


@lru_cache(4096)
def _le(bound: float) -> LabelSet:
    return LabelSet({"le": "+Inf" if bound == math.inf else str(float(bound))})


@lru_cache(4096)
def _outcome(outcome: str, reason: str) -> LabelSet:
    return LabelSet({"outcome": outcome, "reason": reason})


_COUNTERS: tuple[tuple[rows.Row[Counter], Callable[[Series], float]], ...] = (
    (rows.WEIGHT, lambda series: series.totals.weight),
    (rows.WEIGHT_SQUARED, lambda series: series.totals.weight_squared),
    (rows.DEFECT_WEIGHT, lambda series: series.totals.defect_weight),
    (rows.DEFECT_WEIGHT_SQUARED, lambda series: series.totals.defect_weight_squared),
)
_GAUGES: tuple[tuple[rows.Row[Gauge], Callable[[View], float | None]], ...] = (
    (rows.WINDOW_TURNS, lambda view: view.turns),
    (rows.FRESHNESS, lambda view: view.freshness if view.turns else None),
    (rows.SCORE_MEAN, lambda view: view.mean),
    (rows.DEFECT_RATE, lambda view: view.rate.rate if view.rate else None),
    (rows.DEFECT_RATE_LOWER, lambda view: view.rate.lower if view.rate else None),
    (rows.DEFECT_RATE_UPPER, lambda view: view.rate.upper if view.rate else None),
    (rows.DEFECT_RATE_IF_ERRORS_FAIL, lambda view: view.if_errors_fail),
    (rows.DEFECT_RATE_IF_ERRORS_PASS, lambda view: view.if_errors_pass),
    (rows.CASCADE_JUDGED, lambda view: view.judged),
    (rows.JUDGE_CALLS_SAVED, lambda view: view.saved),
)

FAMILIES: tuple[tuple[rows.Row[Any], Points], ...] = (
    (rows.EVALUATIONS, _evaluations),
    (rows.PASSED, _passed),
    *((row, _counter(value)) for row, value in _COUNTERS),
    (rows.SCORE, _scores),
    (rows.TURN_LATENCY, _latencies),
    *((row, _gauge(value)) for row, value in _GAUGES),
    (rows.DEFECT_RATE_AT_SEVERITY, _at_severity),
    (rows.LAST_SCORED, _last_scored),
    (rows.DESIGN_EFFECT, _effect),
    (rows.SCORER_INFO, _scorer),
)
"""Every family of a series, in the order of the page."""
