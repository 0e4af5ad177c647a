"""Retrieval by coverage: at which rank stands the first document that covers the query's words."""

from __future__ import annotations

from collections.abc import Sequence

from assay.records import Turn
from scorers.local.overlap import overlaps
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import latin_share

COVERS = 0.5
"""Share of the query's content words from which a document counts as relevant."""
CHANCE = 0.5
"""Confidence: words tell little of which document answers (docs/quality.md)."""
IRRELEVANT, BADLY_RANKED, BOTTOM, MIDDLE, TOP = 1, 2, 3, 4, 5


@scorer("retrieval", engine="local", version="2", batched=True)
def retrieval(turns: Sequence[Turn]) -> list[Verdict]:
    found = overlaps(turns)
    return list(map(_verdict, turns, found.asked, found.of_asked))


def _verdict(turn: Turn, asked: int, shared: list[int]) -> Verdict:
    query = turn.query or ""
    if not asked:
        return skipped("query without content words")
    if all((latin_share(query) >= 0.5) != (latin_share(d.content) >= 0.5) for d in turn.documents):
        return skipped("language")
    relevant = [rank for rank, count in enumerate(shared) if count / asked >= COVERS]
    if not relevant:
        return scored(BADLY_RANKED if any(shared) else IRRELEVANT, confidence=CHANCE)
    first, count = relevant[0], len(shared)
    if first == 0:
        return scored(TOP, confidence=CHANCE)
    value = MIDDLE if first < count / 2 else BOTTOM
    return scored(value, confidence=CHANCE, first_relevant_rank=first + 1)
