"""Relevance by overlap: how much of what the query asks for comes back in the response.

An answer may speak of the query's subject in other words, so what overlaps with a document that
covers the query counts as well, and one shared word is enough for a pass. A reply that only repeats
the question passes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from assay.records import Turn
from scorers.local.overlap import overlaps
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import latin_share

LOWEST, RANGE = 1.5, 3.5
PASS = 3.0
OFF_TOPIC, ON_TOPIC = 0.92, 0.5
"""How sure a value below `PASS`, and one from it on, is: of the answers found off the subject 92 %
answered other questions (docs/quality.md); that one on the subject is a bad one is not seen."""


@scorer("relevance", engine="local", version="2", batched=True)
def relevance(turns: Sequence[Turn]) -> list[Verdict]:
    return list(map(_verdict, turns, *overlaps(turns)))


def _verdict(
    turn: Turn, asked: int, said: int, answered: int, of_asked: list[int], of_said: list[int]
) -> Verdict:
    if (latin_share(turn.query or "") >= 0.5) != (latin_share(turn.response or "") >= 0.5):
        return skipped("language")
    if not asked:
        return skipped("query without content words")
    if not said:
        return scored(LOWEST, confidence=OFF_TOPIC)
    through = (a / asked * s / said for a, s in zip(of_asked, of_said, strict=True))
    recall = max(answered / asked, *through, 0.0)
    value = min(5.0, LOWEST + RANGE * sqrt(recall))
    confidence = OFF_TOPIC if value < PASS else ON_TOPIC
    return scored(value, confidence=confidence, recall=round(recall, 4))
