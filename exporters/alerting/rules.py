"""The alerts of the settings, one Rule for each thing that can fire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from assay import catalogue
from assay.config import Alert, Config, HealthKind
from assay.records import SeriesKey

Cause = Literal["objective", "regression", "severity"] | HealthKind


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One condition. Fields that its cause does not use have their defaults."""

    alert: str
    """Name given by the user; several rules may share it."""
    cause: Cause
    metric: str = ""
    app: str | None = None
    environment: str | None = None
    engine: str | None = None
    """None: each by itself."""
    window: str = "1h"
    min_turns: int = 50
    threshold: float = 0.0
    """objective: the defect rate; regression: the relative change; severity: the accepted share."""
    level: str = ""
    hold_for: float = 0.0
    keep_for: float = 120.0
    severity: str = "warning"
    labels: dict[str, str] = {}
    runbook: str | None = None
    route: str | None = None

    def watches(self, key: SeriesKey) -> bool:
        """Whether the rule is about the series; attempts by users are no defects of the app."""
        return (
            key.metric == self.metric
            and key.kind != "attempt"
            and self.app in (None, key.app)
            and self.environment in (None, key.environment)
            and self.engine in (None, key.engine)
        )

    def about(self, app: str, environment: str) -> bool:
        """Whether the rule, of health, is about the app."""
        return self.app in (None, app) and self.environment in (None, environment)


def rules_of(config: Config) -> list[Rule]:
    """Every rule of the settings, in their order."""
    return [rule for alert in config.alerts for rule in _rules(alert)]


def _rules(alert: Alert) -> Iterator[Rule]:
    base = Rule(
        alert=alert.name,
        cause="objective",
        metric=(catalogue.canonical(alert.metric) or alert.metric) if alert.metric else "",
        app=alert.app,
        environment=alert.environment,
        engine=alert.engine,
        window=alert.window,
        min_turns=alert.min_turns,
        hold_for=alert.hold_for,
        keep_for=alert.keep_for,
        severity=alert.severity,
        labels=alert.labels,
        runbook=alert.runbook,
        route=alert.notify,
    )
    if alert.objective is not None:
        yield msgspec.structs.replace(base, threshold=alert.objective)
    if alert.regression:
        yield msgspec.structs.replace(base, cause="regression", threshold=alert.change)
    if alert.level is not None:
        yield msgspec.structs.replace(
            base, cause="severity", threshold=alert.level_rate, level=alert.level
        )
    for kind in alert.health:
        yield msgspec.structs.replace(base, cause=kind)
