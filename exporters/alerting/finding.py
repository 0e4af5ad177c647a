"""What a condition found at one moment."""

from __future__ import annotations

import msgspec

from assay.records import SeriesKey
from exporters.alerting.rules import Rule

IDENTITY = ("alert", "cause", "severity", "app", "environment", "metric", "engine")
"""Labels that every alert has, in the order of `assay_alert_active`."""


class Finding(msgspec.Struct, frozen=True):
    """A condition that holds. `labels` tell which; `annotations` explain it to a person."""

    rule: Rule
    labels: dict[str, str]
    annotations: dict[str, str]


def labels_of(
    rule: Rule, *, app: str = "", environment: str = "", engine: str = "", **more: str
) -> dict[str, str]:
    """The labels of an alert of `rule`; the user's own cannot replace those that identify it."""
    identity = {
        "alert": rule.alert,
        "cause": rule.cause,
        "severity": rule.severity,
        "app": app,
        "environment": environment,
        "metric": rule.metric,
        "engine": engine,
    }
    split = {name: value for name, value in more.items() if value}
    return rule.labels | identity | split


def labels_of_series(rule: Rule, key: SeriesKey) -> dict[str, str]:
    return labels_of(
        rule,
        app=key.app,
        environment=key.environment,
        engine=key.engine,
        subject=key.subject,
        model=key.model,
        version=key.version,
    )


def annotations_of(rule: Rule, summary: str, examples: list[str] | None = None) -> dict[str, str]:
    """The texts of an alert: what is so, three turns to look at, and what to do."""
    texts = {"summary": summary}
    if examples:
        texts["examples"] = ", ".join(examples)
    if rule.runbook:
        texts["runbook"] = rule.runbook
    return texts
