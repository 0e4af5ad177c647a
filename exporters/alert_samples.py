"""The alerts as Prometheus reads them: a collector over the owner's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from assay import series as rows
from exporters.alerting.alerts import Alerts
from exporters.families import Family, LabelSet


class AlertSeries(Collector):
    """Gauges of `alerts`; nothing while another process owns them."""

    def __init__(self, alerts: Callable[[], Alerts | None]) -> None:
        self._alerts = alerts

    def describe(self) -> Iterable[Metric]:
        """Registering collects nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        alerts = self._alerts()
        if alerts is None:
            return
        active, evidence = Family(rows.ALERT_ACTIVE), Family(rows.REGRESSION_EVIDENCE)
        baselines = Family(rows.BASELINE_RATE)
        seen: dict[tuple[str, ...], bool] = {}
        for alert in alerts.lifecycle.alerts.values():
            if alert.state != "pending":
                # Series split by model or version share the gauge of what they are part of.
                key = tuple(alert.labels.get(name, "") for name in rows.ALERT_ACTIVE.labels)
                seen[key] = seen.get(key, False) or alert.state == "firing"
        for values, fires in seen.items():
            labels = LabelSet(dict(zip(rows.ALERT_ACTIVE.labels, values, strict=True)))
            active.add(labels, 1.0 if fires else 0.0)
        for rule, watch, value in alerts.evidence():
            labels = LabelSet(msgspec.structs.asdict(watch.key) | {"alert": rule.alert})
            evidence.add(labels, value)
            baselines.add(labels, watch.null_rate)
        yield active
        yield evidence
        yield baselines
