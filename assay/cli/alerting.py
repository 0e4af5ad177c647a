"""Alerts and events as the settings want them, for the processes that export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from prometheus_client import CollectorRegistry

from assay import series
from assay.api import guard
from assay.bus.contract import Bus
from assay.config import Config
from assay.health import Check
from assay.records import SeriesKey
from exporters.alerting.alerts import Alerts
from exporters.alerting.api import alerts_router
from exporters.alerting.explainer import Explainer
from exporters.alerting.pipeline import Process
from exporters.alerting.rules import rules_of
from exporters.notify.notifier import Notifier
from exporters.otlp_events import OtlpEvents
from exporters.owner import Owner
from exporters.stage import StageSeries

if TYPE_CHECKING:
    from scorers.plan import Plan


def make_alerts(
    config: Config,
    plans: Sequence[Plan],
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    explainer: Explainer | None,
) -> Alerts:
    """The alerts of the settings; `explainer` is told of each that begins."""
    return Alerts(
        rules_of(config),
        budgets={name: route.false_alarms / 60 for name, route in config.notify.items()},
        process=lambda: _process(registry, checks),
        largest_weight=lambda key: _largest_weight(config, plans, key),
        board=config.exporters.grafana.url,
        began=explainer.begin if explainer is not None else lambda alert: None,
    )


def make_notifier(config: Config, owner: Owner, registry: CollectorRegistry) -> Notifier:
    """Delivers the alerts of `owner` by the routes of the settings."""
    return Notifier(config.notify, owner.alerts, registry)


def make_events(
    config: Config, bus: Bus, shared: StageSeries, registry: CollectorRegistry
) -> OtlpEvents | None:
    """The sink of OTLP events; none when the settings name no receiver."""
    events = config.exporters.otlp_events
    if events.endpoint is None:
        return None
    headers = {name: value.get_secret_value() for name, value in events.headers.items()}
    return OtlpEvents(bus, shared, registry, endpoint=events.endpoint, headers=headers)


def add_alerts_api(app: FastAPI, config: Config, owner: Owner) -> None:
    """Add /api/alerts and what goes with it, for who may read conversations."""
    authorised = Depends(guard(config.exporters.prometheus.bearer))
    app.include_router(alerts_router(owner.alerts, [authorised]))


def _process(registry: CollectorRegistry, checks: Mapping[str, Check]) -> Process:
    rows = series.ASSEMBLED_ITEMS, series.LATE_SPANS
    totals = dict.fromkeys((row.name for row in rows), 0.0)
    for family in registry.restricted_registry(list(totals)).collect():
        for sample in family.samples:
            if sample.name in totals:
                totals[sample.name] += sample.value
    stages = {name: check() for name, check in checks.items()}
    return Process(stages, *(totals[row.name] for row in rows))


def _largest_weight(config: Config, plans: Sequence[Plan], key: SeriesKey) -> float | None:
    """1 / the smallest probability that the settings give a scored turn; none where the program
    chooses it itself."""
    entry = next(
        (
            entry
            for plan in plans
            for entry in plan.entries(key.app)
            if (entry.metric.name, entry.engine) == (key.metric, key.engine)
        ),
        None,
    )
    if entry is None or entry.waits:
        return None
    smallest = config.sampling.head_ratio * config.sampling.ratio * entry.ratio
    return 1 / smallest if smallest > 0 else None
