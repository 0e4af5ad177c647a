"""The levels of a harm: from which value on a score counts as low, medium or high."""

from __future__ import annotations

from assay.metric import Metric

LEVELS = ("low", "medium", "high")


def severities(metric: Metric | None) -> dict[str, float]:
    """The lowest value of each level; empty unless the metric's scale names all three."""
    if metric is None:
        return {}
    found = {
        level: float(min(value for value, name in metric.levels.items() if name == level))
        for level in LEVELS
        if level in metric.levels.values()
    }
    return found if len(found) == len(LEVELS) else {}
