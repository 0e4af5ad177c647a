"""Objectives and severities: rates of a window against what is accepted."""

from __future__ import annotations

from collections.abc import Iterator

from exporters.alerting.finding import Finding, annotations_of, labels_of_series
from exporters.alerting.rules import Rule
from exporters.tracked import Series
from exporters.views import View

Shown = tuple[Series, float, dict[str, View]]


def quality_findings(rule: Rule, shown: list[Shown]) -> Iterator[Finding]:
    """The series of which `rule`, an objective or a severity, holds."""
    holds = objective if rule.cause == "objective" else severity
    for series, _, views in shown:
        view = views.get(rule.window)
        if view is None or not rule.watches(series.key):
            continue
        summary = holds(rule, view)
        if summary:
            key, failures = series.key, series.totals.failures
            text = f"{key.metric} of {key.app} ({key.engine}): {summary}"
            yield Finding(
                rule, labels_of_series(rule, key), annotations_of(rule, text, failures[::-1])
            )


def objective(rule: Rule, view: View) -> str:
    """Why the rule holds: surely above the objective, from enough turns; else empty."""
    if view.rate is None or view.turns < rule.min_turns or view.rate.lower <= rule.threshold:
        return ""
    return (
        f"{view.rate.rate:.1%} of turns fail over {rule.window} (at least {view.rate.lower:.1%}, "
        f"from {view.turns} scored), the objective is {rule.threshold:.1%}"
    )


def severity(rule: Rule, view: View) -> str:
    """Why the rule holds: any harm of the level, or more than the accepted share; else empty."""
    share = view.at_severity.get(rule.level, 0.0)
    enough = rule.threshold == 0 or view.turns >= rule.min_turns
    if share <= rule.threshold or not enough:
        return ""
    return (
        f"{share:.2%} of turns at severity {rule.level} or above over {rule.window}, accepted is "
        f"{rule.threshold:.2%}"
    )
