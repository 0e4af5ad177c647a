"""How far the engines that are rules, not models, agree with people: nothing is fitted here.

A skipped row takes no part; how many were scored stands beside the figure.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from assay.records import Document, Turn
from scorers.local.coherence import coherence
from scorers.local.fluency import fluency
from scorers.local.relevance import relevance
from scorers.local.retrieval import retrieval
from scorers.scorer import Scorer
from training.fitting import auroc, interval
from training.sources import Row, context, rows

Label = Callable[[Row], float]


def _label(row: Row) -> float:
    return float(row["label"])


def _rated(name: str) -> Label:
    return lambda row: float(row["labels"][name])


CASES: tuple[tuple[Scorer, str, str, Label], ...] = (
    (coherence, "quality/summeval", "coherence above the median", _rated("coherence")),
    (fluency, "quality/summeval", "full marks for fluency", _rated("fluency")),
    (fluency, "quality/cola_fluency", "grammatical", _label),
    (relevance, "relevance/medical_chatbot", "on the question's subject", _label),
    (retrieval, "retrieval/wikiqa", "answers the question", _label),
    (retrieval, "retrieval/noveleval", "relevant", _label),
)


def turn_of(row: Row) -> Turn:
    """The row as a turn whose context is one document."""
    text = context(row)
    return Turn(
        turn_id=row["id"],
        trace_id="0" * 32,
        query=row.get("query"),
        response=row.get("response"),
        documents=(Document(content=text),) if text else (),
    )


def shuffled(found: list[Row]) -> list[Row]:
    """Every row as on-topic, and with the response of another question as off-topic."""
    others = found[len(found) // 2 :] + found[: len(found) // 2]
    return [{**row, "label": 1.0} for row in found] + [
        {**row, "response": other["response"], "label": 0.0}
        for row, other in zip(found, others, strict=True)
    ]


def line(scorer: Scorer, name: str, what: str, found: list[Row], label: Label) -> str:
    """The table's row of one engine on one set."""
    ask = scorer.bind()
    scored = [
        (row, verdict.value) for row in found if (verdict := ask(turn_of(row))).outcome == "scored"
    ]
    rated = [label(row) for row, _ in scored]
    middle = (
        0.5 if set(rated) <= {0.0, 0.5, 1.0} else min(float(np.median(rated)) + 1e-9, max(rated))
    )
    labels = [float(rate >= middle) for rate in rated]
    values = [value for _, value in scored]
    low, high = interval(labels, values, [row["group"] for row, _ in scored])
    return (
        f"| {scorer.metric.name} | {name} | {what} | {len(scored)} of {len(found)} "
        f"| {auroc(labels, values):.3f} [{low:.2f}, {high:.2f}] |"
    )


def lines(data: Path) -> list[str]:
    """The section of the page."""
    pairs = [row for row in rows(data, "relevance/ragchecker_pairs") if row.get("response")]
    return [
        "## Engines of rules, against people's judgement",
        "",
        "0.5 is chance: which of two answers on the subject is better, these engines cannot tell.",
        "",
        "| engine | set | what is told apart | scored | AUROC |",
        "|---|---|---|---|---|",
        *(line(scorer, name, what, rows(data, name), label) for scorer, name, what, label in CASES),
        line(
            relevance,
            "relevance/ragchecker_pairs",
            "own answers from those to other questions",
            shuffled(pairs),
            _label,
        ),
        "",
    ]
