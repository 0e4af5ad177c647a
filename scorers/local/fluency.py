"""Fluency by faults: doubled words, words without vowels, missing capitals and stops, no grammar.

English only; each kind of fault takes from the value by its share.
"""

from __future__ import annotations

import re
from itertools import pairwise

from assay.records import Turn
from scorers.local.patterns import reads
from scorers.pieces import STOPWORDS
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import sentences, word_set, words

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


@scorer("fluency", engine="local", version="1")
def fluency(turn: Turn) -> Verdict:
    response = turn.response or ""
    if not reads(response):
        return skipped("language")
    found = words(response)
    parts = sentences(response)
    if not found:
        return scored(1)
    count, lines = len(found), len(parts)
    pairs = list(pairwise(found))
    doubled = sum(a == b and a.isalpha() and a not in _MAY_DOUBLE for a, b in pairs)
    disagreeing = sum(pair in _DISAGREEING for pair in pairs) + sum(
        b[0] in _ARTICLE_FAULT[a] and len(b) > 1 for a, b in pairs if a in _ARTICLE_FAULT
    )
    letters = [word for word in word_set(response) if word.isalpha()]
    faults = {
        "doubled": doubled / count * 8,
        "odd words": sum(map(bool, map(_ODD.search, letters))) / max(1, len(letters)) * 3,
        "agreement": disagreeing / lines * 0.6,
        "capitals": sum(part[0].islower() for part in parts) / lines * 0.25,
        "long sentences": max(0.0, count / lines - 40) / 100,
    }
    if count >= 8:
        share = sum(word in STOPWORDS for word in found) / count
        faults["function words"] = max(0.0, _EXPECTED_FUNCTION_WORDS - share) * 2
    named = {name: round(min(weight, 1.0), 3) for name, weight in faults.items() if weight > 0.01}
    value = 5 - 4 * min(1.0, 0.1 + sum(faults.values()))
    return scored(value, faults=named)
