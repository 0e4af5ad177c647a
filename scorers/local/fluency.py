"""Fluency by faults: doubled words, words without vowels, missing capitals and stops, no grammar.

English only; each kind of fault takes from the value by its share.
"""

from __future__ import annotations

import re
from itertools import pairwise
from operator import eq

from assay.records import Turn
from scorers.kept import Kept
from scorers.language import reads
from scorers.pieces import STOPWORDS
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import prepared

_MAY_DOUBLE = frozenset({"that", "had", "very", "so", "no", "bye", "ha", "really", "well", "now"})
_ODD = re.compile(r"[b-df-hj-np-tv-xz]{5,}|(.)\1{3,}")
_THIRD_PERSON = ("have", "do", "go", "say", "want", "need", "like", "make", "are", "were")
_OTHER_PERSONS = ("has", "does", "goes", "says", "is", "was", "wants", "needs")
_DISAGREEING = frozenset(
    [(subject, verb) for subject in ("he", "she", "it") for verb in _THIRD_PERSON]
    + [(subject, verb) for subject in ("they", "we", "you") for verb in _OTHER_PERSONS]
    + [("i", verb) for verb in ("is", "has", "are", "were", "does", "goes")]
    + [("more", word) for word in ("better", "worse", "easier")]
    + [(verb, "of") for verb in ("could", "should", "would", "must")]
)
_ARTICLE_FAULT = {"a": frozenset("aeio"), "an": frozenset("bcdfgjklmnpqrstvwz")}
_EXPECTED_FUNCTION_WORDS = 0.2
CHANCE = 0.5
"""Confidence: rules agree with people hardly more often than chance (docs/quality.md)."""
_IS_ODD = Kept(lambda word: word.isalpha() and _ODD.search(word) is not None)


@scorer("fluency", engine="local", version="2")
def fluency(turn: Turn) -> Verdict:
    response = turn.response or ""
    if not reads(response):
        return skipped("language")
    text = prepared(response)
    found = text.words
    if not found:
        return scored(1, confidence=CHANCE)
    count, lines = len(found), len(text.spans)
    doubled = 0
    if any(map(eq, found, found[1:])):
        doubled = sum(a == b and a.isalpha() and a not in _MAY_DOUBLE for a, b in pairwise(found))
    disagreeing = sum(map(_DISAGREEING.__contains__, pairwise(found))) + sum(
        [
            b[0] in _ARTICLE_FAULT[a] and len(b) > 1
            for a, b in pairwise(found)
            if a in _ARTICLE_FAULT
        ]
    )
    letters = sum(map(str.isalpha, text.word_set))
    lower = sum(text.pieces[start].text[0].islower() for start, _ in text.spans)
    faults = {
        "doubled": doubled / count * 8,
        "odd words": sum(map(_IS_ODD.__getitem__, text.word_set)) / max(1, letters) * 3,
        "agreement": disagreeing / lines * 0.6,
        "capitals": lower / lines * 0.25,
        "long sentences": max(0.0, count / lines - 40) / 100,
    }
    if count >= 8:
        share = sum(map(STOPWORDS.__contains__, found)) / count
        faults["function words"] = max(0.0, _EXPECTED_FUNCTION_WORDS - share) * 2
    named = {name: round(min(weight, 1.0), 3) for name, weight in faults.items() if weight > 0.01}
    value = 5 - 4 * min(1.0, 0.1 + sum(faults.values()))
    return scored(value, confidence=CHANCE, faults=named)
