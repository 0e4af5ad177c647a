"""The quality series as Prometheus reads them: a collector over the owner's windows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample

from assay import series as rows
from exporters.tracked import Series
from exporters.views import View, Views
from exporters.windows import Windows

Shown = tuple[Series, float, dict[str, View]]

_TYPES: dict[Any, str] = {Counter: "counter", Gauge: "gauge", Histogram: "histogram"}

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
    (rows.DEFECT_RATE, lambda view: view.rate and view.rate.rate),
    (rows.DEFECT_RATE_LOWER, lambda view: view.rate and view.rate.lower),
    (rows.DEFECT_RATE_UPPER, lambda view: view.rate and view.rate.upper),
    (rows.DEFECT_RATE_IF_ERRORS_FAIL, lambda view: view.if_errors_fail),
    (rows.DEFECT_RATE_IF_ERRORS_PASS, lambda view: view.if_errors_pass),
)


class QualitySeries(Collector):
    """Counters, gauges and histograms of `windows`; nothing while `windows` returns none.

    To be collected in the thread that changes the windows. Non-finite values give no sample.
    """

    def __init__(
        self, windows: Callable[[], Windows | None], clock: Callable[[], float] = time.time
    ) -> None:
        self._windows = windows
        self._clock = clock
        self._views: Views | None = None
        self._of: Windows | None = None

    def describe(self) -> Iterable[Metric]:
        """Registering collects nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        windows = self._windows()
        if windows is None:
            self._views = self._of = None
            return
        if self._views is None or self._of is not windows:
            self._views, self._of = Views(windows), windows
        shown = self._views.refresh(int(self._clock() // 60))
        yield _turns(windows)
        yield from _counters(shown)
        yield from _histograms(shown)
        yield from _gauges(shown)


class _Family:
    """A metric family that is being filled."""

    def __init__(self, row: rows.Row[Any]) -> None:
        self._row = row
        self._samples: list[Sample] = []

    def add(
        self,
        labels: dict[str, str],
        value: float | None,
        suffix: str = "",
        exemplar: Exemplar | None = None,
    ) -> None:
        """A sample, unless there is no value or it is not finite."""
        if value is not None and math.isfinite(value):
            self._samples.append(Sample(self._row.name + suffix, labels, value, None, exemplar))

    def metric(self) -> Metric:
        name = self._row.name.removesuffix("_total")
        metric = Metric(name, self._row.help, _TYPES[self._row.kind], self._row.unit)
        metric.samples = self._samples
        return metric


def _labels(series: Series) -> dict[str, str]:
    return msgspec.structs.asdict(series.key)


def _turns(windows: Windows) -> Metric:
    family = _Family(rows.TURNS)
    for (app, environment), counts in windows.turns.items():
        for decision, n in zip(("kept", "sampled_out"), counts, strict=True):
            family.add({"app": app, "environment": environment, "decision": decision}, n)
    return family.metric()


def _counters(shown: list[Shown]) -> Iterator[Metric]:
    evaluations, passed = _Family(rows.EVALUATIONS), _Family(rows.PASSED)
    families = [(_Family(row), value) for row, value in _COUNTERS]
    for series, _, _ in shown:
        labels = _labels(series)
        for count in series.outcomes.values():
            outcome = {"outcome": count.outcome, "reason": count.reason}
            evaluations.add(labels | outcome, count.n)
        if series.totals.weight:
            passed.add(labels | {"passed": "true"}, series.totals.passed)
            passed.add(labels | {"passed": "false"}, series.totals.failed)
            for family, value in families:
                family.add(labels, value(series))
    for family in (evaluations, passed, *(family for family, _ in families)):
        yield family.metric()


def _histograms(shown: list[Shown]) -> Iterator[Metric]:
    scores, latencies = _Family(rows.SCORE), _Family(rows.TURN_LATENCY)
    for series, _, _ in shown:
        labels = _labels(series)
        _histogram(scores, series, labels)
        if series.key.metric == "latency_seconds" and series.key.engine == "computed":
            _histogram(latencies, series, {name: labels[name] for name in rows.TURN_LATENCY.labels})
    yield scores.metric()
    yield latencies.metric()


def _histogram(family: _Family, series: Series, labels: dict[str, str]) -> None:
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
        family.add(
            labels | {"le": "+Inf" if bound == math.inf else str(float(bound))},
            count,
            "_bucket",
            exemplar,
        )
    family.add(labels, count, "_count")
    if series.bounds[0] >= 0:
        # A sum of values that may be negative can fall, which a counter must not.
        family.add(labels, totals.value_sum, "_sum")


def _gauges(shown: list[Shown]) -> Iterator[Metric]:
    families = [(_Family(row), value) for row, value in _GAUGES]
    severity, last = _Family(rows.DEFECT_RATE_AT_SEVERITY), _Family(rows.LAST_SCORED)
    effects = _Family(rows.DESIGN_EFFECT)
    for series, effect, views in shown:
        labels = _labels(series)
        if series.totals.last_scored:
            last.add(labels, series.totals.last_scored)
        if series.totals.weight:
            effects.add(labels, effect)
        for window, view in views.items():
            windowed = labels | {"window": window}
            for family, value in families:
                family.add(windowed, value(view))
            for level, rate in view.at_severity.items():
                severity.add(windowed | {"level": level}, rate)
    for family in (*(family for family, _ in families), severity, last, effects):
        yield family.metric()
