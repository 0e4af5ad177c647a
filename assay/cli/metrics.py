"""`assay metrics`: the catalogue, with the engines that answer each metric."""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import Any

import msgspec
from rich.text import Text

from assay.catalogue import METRICS, SETS, Metric, canonical
from assay.cli.show import console, print_lines, table
from assay.errors import Permanent


def list_metrics(as_json: bool) -> None:
    """Every metric of the catalogue; one without an engine needs a judge."""
    offered = engines()
    if as_json:
        print_lines(_row(metric, offered[metric.name]) for metric in METRICS.values())
        return
    table(
        ("metric", "kind", "subject", "engines", "scale", "passes", "sets"),
        (
            (
                metric.name,
                metric.kind,
                metric.subject,
                ", ".join(offered[metric.name]) or Text("judge", "dim"),
                scale(metric),
                passes(metric),
                ", ".join(name for name, members in SETS.items() if metric.name in members),
            )
            for metric in METRICS.values()
        ),
    )


def show_metric(name: str, as_json: bool) -> None:
    """One metric's contract. Raises Permanent for an unknown name."""
    known = canonical(name)
    if known is None:
        raise Permanent(f"no metric {name!r}: `assay metrics list` shows them all")
    metric, offered = METRICS[known], engines()[known]
    if as_json:
        print_lines([_row(metric, offered)])
        return
    out = console()
    out.print(Text(metric.name, "bold"))
    out.print(Text(metric.summary))
    facts = {
        "kind": metric.kind,
        "subject": metric.subject,
        "engines": ", ".join(offered) or "judge",
        "needs": ", ".join(need.replace("|", " or ") for need in metric.needs),
        "uses": ", ".join(metric.uses),
        "scale": scale(metric),
        "passes": passes(metric),
        "levels": "; ".join(f"{value} {level}" for value, level in metric.levels.items()),
        "unit": metric.unit,
        "also scores": ", ".join(metric.parts),
        "aliases": ", ".join(metric.aliases),
        "source": metric.source,
    }
    for title, text in facts.items():
        if text:
            out.print(Text(f"{title:>12}  ", "dim") + Text(text))


def print_report() -> None:
    """What the local engines reached when the release was made: the page docs/quality.md."""
    sys.stdout.write(files("scorers").joinpath("data", "quality.md").read_text(encoding="utf-8"))


def scale(metric: Metric) -> str:
    """The range of the value."""
    if metric.labels:
        return " / ".join(metric.labels)
    if metric.direction == "true_is_bad":
        return "true / false"
    if metric.low is None and metric.high is None:
        return metric.unit or "number"
    low = "" if metric.low is None else f"{metric.low:g}"
    high = "" if metric.high is None else f"{metric.high:g}"
    return (
        f"{low} to {high}" if high else f"from {low}" + (f" {metric.unit}" if metric.unit else "")
    )


def passes(metric: Metric) -> str:
    """When `passed` is true, in a few signs; empty without a verdict."""
    if metric.direction == "true_is_bad":
        return "false"
    if metric.threshold is None:
        return ""
    sign = {"higher": ">=", "lower": "<=", "within": "within +-"}[metric.direction]
    return f"{sign} {metric.threshold:g}"


def engines() -> dict[str, list[str]]:
    """The engines that answer each metric, in order of preference; none where only a judge does."""
    from scorers.registry import registered

    found: dict[str, list[str]] = {name: [] for name in METRICS}
    for name, _, engine in registered():
        offered = found.setdefault(name, [])
        if engine not in offered:
            offered.append(engine)
    return found


def _row(metric: Metric, offered: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(metric)
    return row | {"engines": offered}
