"""Retrieval by coverage: at which rank stands the first document that covers the query's words."""

from __future__ import annotations

from assay.records import Turn
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import content_set, latin_share

COVERS = 0.5
"""Share of the query's content words from which a document counts as relevant."""
CHANCE = 0.5
"""Confidence: words tell little of which document answers (docs/quality.md)."""
IRRELEVANT, BADLY_RANKED, BOTTOM, MIDDLE, TOP = 1, 2, 3, 4, 5


@scorer("retrieval", engine="local", version="2")
def retrieval(turn: Turn) -> Verdict:
    query = turn.query or ""
    asked = content_set(query)
    if not asked:
        return skipped("query without content words")
    if all((latin_share(query) >= 0.5) != (latin_share(d.content) >= 0.5) for d in turn.documents):
        return skipped("language")
    covered = [len(asked & content_set(d.content)) / len(asked) for d in turn.documents]
    relevant = [rank for rank, share in enumerate(covered) if share >= COVERS]
    if not relevant:
        return scored(BADLY_RANKED if any(covered) else IRRELEVANT, confidence=CHANCE)
    first, count = relevant[0], len(covered)
    if first == 0:
        return scored(TOP, confidence=CHANCE)
    value = MIDDLE if first < count / 2 else BOTTOM
    return scored(value, confidence=CHANCE, first_relevant_rank=first + 1)
