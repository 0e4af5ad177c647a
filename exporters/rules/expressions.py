"""The alerts' conditions in PromQL.

The statistics are Assay's own: a rule only compares what the exporter shows with a threshold. Only
the health of the pipeline is worked out here, from counters, because it must be told of when the
exporter itself is gone.
"""

from __future__ import annotations

from exporters.alerting import pipeline
from exporters.alerting.rules import Rule

NOT_JUDGES = "|".join(pipeline.UNJUDGED)
CONTENT = "|".join(pipeline.CONTENT)
BY_APP = "app, environment"
BY_ENGINE = "app, environment, engine"


def quoted(value: str) -> str:
    """`value` as a string of PromQL."""
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


def selector(*more: str, **labels: str | None) -> str:
    """Matchers of the labels that are given, and `more`; nothing where there are none."""
    found = [f"{name}={quoted(value)}" for name, value in labels.items() if value is not None]
    joined = ", ".join([*found, *more])
    return f"{{{joined}}}" if joined else ""


def expression(rule: Rule) -> str:
    """What holds while the alert should fire."""
    match rule.cause:
        case "objective":
            return _objective(rule)
        case "severity":
            return _severity(rule)
        case "regression":
            chosen = _of_metric(rule, alert=rule.alert)
            return f"assay_regression_evidence{chosen} >= 1"
        case "no_turns":
            return _no_turns(rule)
        case "no_scores":
            return _no_scores(rule)
        case "judge_errors":
            return _share(rule, 'outcome="error"', pipeline.MOST_JUDGE_ERRORS, judged=True)
        case "budget":
            return _share(rule, 'outcome="budget"', pipeline.MOST_BUDGET)
        case "content_missing":
            missing = f'outcome="skipped", reason=~"{CONTENT}"'
            return _share(rule, missing, pipeline.MOST_WITHOUT_CONTENT)
        case "late_spans":
            return _late_spans()
        case "lag":
            return _lag()


def _of_metric(rule: Rule, **more: str) -> str:
    return selector(
        'kind!="attempt"',  # attempts by users are no defects of the app
        metric=rule.metric,
        app=rule.app,
        environment=rule.environment,
        engine=rule.engine,
        **more,
    )


def _objective(rule: Rule) -> str:
    chosen = _of_metric(rule, window=rule.window)
    return (
        f"assay_defect_rate_lower{chosen} > {rule.threshold:g}"
        f" and assay_window_turns{chosen} >= {rule.min_turns}"
    )


def _severity(rule: Rule) -> str:
    chosen = _of_metric(rule, window=rule.window)
    level = _of_metric(rule, window=rule.window, level=rule.level)
    found = f"assay_defect_rate_at_severity{level} > {rule.threshold:g}"
    if rule.threshold == 0:
        return found
    return f"{found} and ignoring(level) assay_window_turns{chosen} >= {rule.min_turns}"


def _no_turns(rule: Rule) -> str:
    # Every hour of the past day was busy, and all of them are known; now there is nothing.
    app = selector(app=rule.app, environment=rule.environment)
    hourly = f"sum by ({BY_APP}) (increase(assay_turns_total{app}[1h]))"
    recent = f"sum by ({BY_APP}) (increase(assay_turns_total{app}[{pipeline.MINUTES}m]))"
    day = f"{hourly}[23h:10m] offset 1h"
    return (
        f"{recent} == 0 and min_over_time({day}) >= {pipeline.BUSY}"
        f" and count_over_time({day}) >= {23 * 6 - 1}"
    )


def _no_scores(rule: Rule) -> str:
    kept = selector('decision="kept"', app=rule.app, environment=rule.environment)
    ran = selector('outcome!="sampled_out"', app=rule.app, environment=rule.environment)
    minutes = f"[{pipeline.SILENCE}m]"
    return (
        f"sum by ({BY_ENGINE}) (increase(assay_evaluations_total{ran}{minutes})) == 0"
        f" and on ({BY_APP}) sum by ({BY_APP}) (increase(assay_turns_total{kept}{minutes}))"
        f" >= {pipeline.SILENCE}"
    )


def _share(rule: Rule, outcomes: str, most: float, *, judged: bool = False) -> str:
    engines = [f'engine!~"{NOT_JUDGES}"'] if judged else []

    def count(which: str) -> str:
        chosen = selector(*engines, which, app=rule.app, environment=rule.environment)
        series = f"assay_evaluations_total{chosen}[{pipeline.MINUTES}m]"
        return f"sum by ({BY_ENGINE}) (increase({series}))"

    ran = count('outcome!~"sampled_out|filtered|not_applicable"')
    return f"{count(outcomes)} / {ran} > {most:g} and {ran} >= {pipeline.ENOUGH}"


def _late_spans() -> str:
    minutes = f"[{pipeline.MINUTES}m]"
    late = f"sum(increase(assay_late_spans_total{minutes}))"
    read = f"sum(increase(assay_assembled_items_total{minutes}))"
    return f"{late} / {read} > {pipeline.MOST_LATE:g} and {read} >= 100"


def _lag() -> str:
    return (
        "(min_over_time(assay_bus_lag_records[10m]) > 1000"
        " and deriv(assay_bus_lag_records[10m]) >= 0)"
    )
