"""Fluency by faults: doubled words, words without vowels, missing capitals and stops, no grammar.

English only; each kind of fault takes from the value by its share.
"""

# ruff: noqa: E501 - patterns read better unbroken

from __future__ import annotations

import re

from assay.records import Turn
from scorers.local.patterns import reads
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import STOPWORDS, sentences, words

_DOUBLED = re.compile(
    r"\b(?!(?:that|had|very|so|no|bye|ha|really|well|now|there) )([a-z]+) \1\b", re.IGNORECASE
)
_ODD = re.compile(r"(?![aeiouy])[b-df-hj-np-tv-xz]{5,}|(.)\1{3,}")
_LOWER_START = re.compile(r"[a-z]")
_AGREEMENT = re.compile(
    r"\b(?:he|she|it) (?:have|do|go|say|want|need|like|make|are|were)\b"
    r"|\b(?:they|we|you) (?:has|does|goes|says|is|was|wants|needs)\b"
    r"|\bi (?:is|has|are|were|does|goes)\b|\ba (?:[aeio][a-z]+s?)\b|\ban (?:[bcdfgjklmnpqrstvwz][a-z]+)\b"
    r"|\b(?:did|does|do|didn't|doesn't|don't) \w+(?:ed) \b|\bmore (?:better|worse|easier)\b"
    r"|\b(?:could|should|would|must) of\b",
    re.IGNORECASE,
)
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
    letters = [word for word in found if word.isalpha()]
    faults = {
        "doubled": len(_DOUBLED.findall(response)) / count * 8,
        "odd words": sum(map(bool, map(_ODD.search, letters))) / max(1, len(letters)) * 3,
        "agreement": len(_AGREEMENT.findall(response)) / lines * 0.6,
        "capitals": sum(map(bool, map(_LOWER_START.match, parts))) / lines * 0.25,
        "long sentences": max(0.0, count / lines - 40) / 100,
    }
    if count >= 8:
        share = sum(word in STOPWORDS for word in found) / count
        faults["function words"] = max(0.0, _EXPECTED_FUNCTION_WORDS - share) * 2
    named = {name: round(min(weight, 1.0), 3) for name, weight in faults.items() if weight > 0.01}
    value = 5 - 4 * min(1.0, 0.1 + sum(faults.values()))
    return scored(value, faults=named)
