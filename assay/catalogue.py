"""The catalogue: every metric's contract, the sets they are selected by, and their other names.

It lives in the core and not in the scorers' room because config, exporters and boards need a
metric's scale, kind and threshold without being able to score.

Names are case-sensitive; blanks around them are not part of them. A metric also answers to
`builtin.<name>` and to the names that other SDKs give it (`aliases`). `safety` names both a metric
and a set: where both may stand the bare word is the set, `builtin.safety` the metric.
"""

from __future__ import annotations

import msgspec

from assay.catalogue_rows import ROWS
from assay.metric import PROBABILITY, Metric
from assay.records import Subject

__all__ = [
    "ALIASES",
    "CASCADE",
    "HARMS",
    "METRICS",
    "SETS",
    "Metric",
    "canonical",
    "cascaded",
    "contract",
    "forms",
]

METRICS: dict[str, Metric] = {row.name: row for row in ROWS}
"""By name, in the order of the catalogue. Of a harm this is the form asked of the response."""

ALIASES: dict[str, str] = {alias: row.name for row in ROWS for alias in row.aliases}

CASCADE = "cascade"
"""The engine that asks the judge where the local engine is unsure."""

ESTIMATING = ("local", "embed", "nli", "moderation")
"""The engines that give a calibrated number instead of a level."""

HARMS = ("hate_unfairness", "sexual", "violence", "self_harm")

CATEGORIES = ("quality", "nlp", "safety", "tools", "operational")

SETS: dict[str, tuple[str, ...]] = {
    "qa": ("groundedness", "relevance", "coherence", "fluency", "similarity", "f1_score"),
    "default": (
        *(row.name for row in ROWS if "operational" in row.categories),
        "groundedness",
        "relevance",
        "coherence",
        "fluency",
        "content_safety",
        "direct_attack_attempt",
        "indirect_attack_attempt",
        "pii_leakage",
        "refusal",
        "tool_call_valid",
        "tool_call_schema_valid",
        "tool_call_success",
        "repeated_tool_call",
    ),
    **{
        category: tuple(row.name for row in ROWS if category in row.categories)
        for category in CATEGORIES
    },
}
"""Names that select several metrics. A set adds no score of its own."""


def canonical(name: str) -> str | None:
    """The catalogue's name for `name` or one of its aliases; none when there is no such metric."""
    name = name.strip().removeprefix("builtin.")
    return name if name in METRICS else ALIASES.get(name)


def forms(name: str) -> tuple[Metric, ...]:
    """The contracts that selecting the metric `name` selects: one for each subject it is asked of.

    A harm is asked of the response, where it is a defect of the app, and of the query, where it is
    an attempt by the user.
    """
    metric = METRICS[name]
    if name not in HARMS:
        return (metric,)
    query = msgspec.structs.replace(
        metric, kind="attempt", subject="query", needs=("query",), uses=()
    )
    return metric, query


def cascaded(metric: Metric) -> Metric:
    """The contract of `metric` as the cascade answers it."""
    return msgspec.structs.replace(
        metric,
        direction="lower",
        threshold=0.5,
        low=None,
        high=None,
        levels={},
        buckets=(),
        unit="",
    )


def contract(name: str, engine: str, subject: Subject | None = None) -> Metric | None:
    """The contract of `name` as `engine` answers it; none when the metric is unknown.

    The engines that estimate give numbers between the levels, so they have none; for a harm they
    give a probability and no severity, so the scale is 0 to 1. The cascade gives a turn's part in
    the defect rate, which has no bounds and is above one half where the verdict is a defect.
    """
    if name not in METRICS:
        return None
    candidates = [form for form in forms(name) if subject in (None, form.subject)]
    if not candidates:
        return None
    metric = candidates[0]
    if engine == CASCADE:
        return cascaded(metric)
    if engine not in ESTIMATING:
        return metric
    metric = msgspec.structs.replace(metric, levels={})
    if name in HARMS or name == "content_safety":
        metric = msgspec.structs.replace(
            metric, low=0.0, high=1.0, threshold=0.5, buckets=PROBABILITY
        )
    return metric
