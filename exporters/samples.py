"""The quality series as Prometheus reads them: a collector over the owner's windows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import msgspec
from prometheus_client import Counter, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from assay import series as rows
from assay.records import SeriesKey
from exporters.families import Family, LabelSet
from exporters.severity import LEVELS
from exporters.tracked import Series
from exporters.views import WINDOWS, View, Views
from exporters.windows import Windows

Shown = tuple[Series, float, dict[str, View]]

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
)
_PASSED, _FAILED = LabelSet({"passed": "true"}), LabelSet({"passed": "false"})
_WINDOW = {window: LabelSet({"window": window}) for window in WINDOWS}
_WINDOW_LEVEL = {
    (window, level): LabelSet({"window": window, "level": level})
    for window in WINDOWS
    for level in LEVELS
}


class QualitySeries(Collector):
    """Counters, gauges and histograms of `windows`; nothing while there are none.

    To be collected in the thread that changes the windows.
    """

    def __init__(
        self, windows: Callable[[], Windows | None], clock: Callable[[], float] = time.time
    ) -> None:
        self._windows = windows
        self._clock = clock
        self._views: Views | None = None
        self._labels: dict[SeriesKey, LabelSet] = {}

    def describe(self) -> Iterable[Metric]:
        """Registering collects nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        windows = self._windows()
        if windows is None:
            self._views = None
            return
        shown = self.shown(windows)
        yield _turns(windows)
        yield from self._counters(shown)
        yield from self._histograms(shown)
        yield from self._gauges(shown)

    def shown(self, windows: Windows) -> list[Shown]:
        """Every series with its design effect and its windows, as of now."""
        if self._views is None or self._views.windows is not windows:
            self._views = Views(windows)
            self._labels = {}
        return self._views.refresh(int(self._clock() // 60))

    def _labels_of(self, series: Series) -> LabelSet:
        labels = self._labels.get(series.key)
        if labels is None:
            labels = self._labels[series.key] = LabelSet(msgspec.structs.asdict(series.key))
        return labels

    def _counters(self, shown: list[Shown]) -> Iterator[Metric]:
        evaluations, passed = Family(rows.EVALUATIONS), Family(rows.PASSED)
        families = [(Family(row), value) for row, value in _COUNTERS]
        for series, _, _ in shown:
            labels = self._labels_of(series)
            for count in series.outcomes.values():
                evaluations.add(labels, count.n, _outcome(count.outcome, count.reason))
            if series.totals.weight:
                passed.add(labels, series.totals.passed, _PASSED)
                passed.add(labels, series.totals.failed, _FAILED)
                for family, value in families:
                    family.add(labels, value(series))
        yield evaluations
        yield passed
        yield from (family for family, _ in families)

    def _histograms(self, shown: list[Shown]) -> Iterator[Metric]:
        scores, latencies = Family(rows.SCORE), Family(rows.TURN_LATENCY)
        for series, _, _ in shown:
            labels, key = self._labels_of(series), series.key
            _histogram(scores, series, labels)
            if key.metric == "latency_seconds" and key.engine == "computed":
                of_turns = {name: labels.values[name] for name in rows.TURN_LATENCY.labels}
                _histogram(latencies, series, LabelSet(of_turns))
        yield scores
        yield latencies

    def _gauges(self, shown: list[Shown]) -> Iterator[Metric]:
        families = [(Family(row), value) for row, value in _GAUGES]
        severity, last = Family(rows.DEFECT_RATE_AT_SEVERITY), Family(rows.LAST_SCORED)
        effects, scorers = Family(rows.DESIGN_EFFECT), Family(rows.SCORER_INFO)
        for series, effect, views in shown:
            labels = self._labels_of(series)
            if series.totals.last_scored:
                last.add(labels, series.totals.last_scored)
            if series.totals.weight:
                effects.add(labels, effect)
            if series.totals.scorers:
                newest = next(reversed(series.totals.scorers))
                scorers.add(labels, 1.0, LabelSet({"scorer": newest}))
            for window, view in views.items():
                for family, value in families:
                    family.add(labels, value(view), _WINDOW[window])
                for level, rate in view.at_severity.items():
                    severity.add(labels, rate, _WINDOW_LEVEL[window, level])
        yield from (family for family, _ in families)
        yield severity
        yield last
        yield effects
        yield scorers


def _turns(windows: Windows) -> Metric:
    family = Family(rows.TURNS)
    for (app, environment), counts in windows.turns.items():
        labels = LabelSet({"app": app, "environment": environment})
        for decision, n in zip(("kept", "sampled_out"), counts, strict=True):
            family.add(labels, n, LabelSet({"decision": decision}))
    return family


def _histogram(family: Family, series: Series, labels: LabelSet) -> None:
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
        family.add(labels, count, _le(bound), "_bucket", exemplar)
    if series.bounds[0] >= 0:
        # A sum of values that may be negative can fall, which a counter must not; without a sum
        # OpenMetrics forbids the count too, and the +Inf bucket tells it.
        family.add(labels, count, suffix="_count")
        family.add(labels, totals.value_sum, suffix="_sum")


@lru_cache(4096)
def _le(bound: float) -> LabelSet:
    return LabelSet({"le": "+Inf" if bound == math.inf else str(float(bound))})


@lru_cache(4096)
def _outcome(outcome: str, reason: str) -> LabelSet:
    return LabelSet({"outcome": outcome, "reason": reason})
