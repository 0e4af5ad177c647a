"""`assay metrics`: the catalogue, with the engines that answer each metric."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import msgspec
from rich.text import Text

from assay.catalogue import METRICS, SETS, Metric, canonical, contract
from assay.cli.show import console, print_lines, table
from assay.errors import Permanent


def list_metrics(as_json: bool) -> None:
    """Every metric of the catalogue, with the engines that answer it."""
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
                ", ".join(offered[metric.name]),
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
        "engines": ", ".join(offered),
        "needs": ", ".join(need.replace("|", " or ") for need in metric.needs),
        "uses": ", ".join(metric.uses),
        "scale": scale(metric),
        "passes": passes(metric),
        "but by": exceptions(metric, offered),
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
    """The engines that answer each metric, in order of preference; the judge comes last."""
    from scorers.judge import ENGINE
    from scorers.judging.library import load_library
    from scorers.registry import registered

    found: dict[str, list[str]] = {name: [] for name in METRICS}
    for name, _, engine in registered():
        offered = found.setdefault(name, [])
        if engine not in offered:
            offered.append(engine)
    judged = {prompt.metric for prompt in load_library()} | {"content_safety"}
    for name, offered in found.items():
        if name in judged or not offered:
            offered.append(ENGINE)
    return found


def exceptions(metric: Metric, offered: Sequence[str]) -> str:
    """The engines that answer on another scale than the metric's own, with scale and verdict."""
    others: dict[str, list[str]] = {}
    for engine in offered:
        own = contract(metric.name, engine) or metric
        said = f"{scale(own)}, {passes(own)}"
        if said != f"{scale(metric)}, {passes(metric)}":
            others.setdefault(said, []).append(engine)
    return "; ".join(f"{', '.join(engines)}: {said}" for said, engines in others.items())


def _row(metric: Metric, offered: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(metric)
    return row | {"engines": offered}
