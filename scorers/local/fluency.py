"""Fluency by faults: doubled words, words without vowels, missing capitals and stops, no grammar.

English only; each kind of fault takes from the value by its share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.records import Turn
from scorers.joined import distinct, joined
from scorers.language import reads_each
from scorers.pieces import STOPWORDS
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import Text, of_each, prepared
from scorers.vocabulary import Numbers

_MAY_DOUBLE = frozenset({"that", "had", "very", "so", "no", "bye", "ha", "really", "well", "now"})
_ODD = re.compile(r"[b-df-hj-np-tv-xz]{5,}|(.)\1{3,}")
_AFTER = {
    "he she it": "have do go say want need like make are were",
    "they we you": "has does goes says is was wants needs",
    "i": "is has are were does goes",
    "more": "better worse easier",
    "could should would must": "of",
}
"""Words, and those that do not follow them."""
_A, _AN = 1 << len(_AFTER), 2 << len(_AFTER)
_LEADS = {word: 1 << n for n, first in enumerate(_AFTER) for word in first.split()}
_LEADS |= {"a": _A, "an": _AN}
"""A word that clashes with some has a bit, and those have the same one."""
_CLASHES: dict[str, int] = {}
for _number, _second in enumerate(_AFTER.values()):
    for _word in _second.split():
        _CLASHES[_word] = _CLASHES.get(_word, 0) | 1 << _number
_EXPECTED_FUNCTION_WORDS = 0.2
_PSEUDONYM = re.compile(r"<[A-Z][A-Z0-9_]*_([0-9a-f]+)>")
"""What stands for redacted data: `email <EMAIL_7f3a>` is no doubled word."""
CHANCE = 0.5
"""Confidence: rules agree with people hardly more often than chance (docs/quality.md)."""


@scorer("fluency", engine="local", version="4", batched=True)
def fluency(turns: Sequence[Turn]) -> list[Verdict]:
    texts = [prepared(_PSEUDONYM.sub(r"\1", turn.response or "")) for turn in turns]
    found = zip(reads_each(texts), of_each(texts, _faults), strict=True)
    return [_verdict(faults) if readable else skipped("language") for readable, faults in found]


def _verdict(faults: dict[str, float] | None) -> Verdict:
    if faults is None:
        return scored(1, confidence=CHANCE)
    named = {name: round(min(weight, 1.0), 3) for name, weight in faults.items() if weight > 0.01}
    value = 5 - 4 * min(1.0, 0.1 + sum(faults.values()))
    return scored(value, confidence=CHANCE, faults=named)


def _faults(texts: Sequence[Text]) -> list[dict[str, float] | None]:
    """The share that each fault takes from a text's value; none of a text that says nothing."""
    said = joined(texts)
    known, (words, pieces) = said.known.words, said.words
    text = said.text[pieces]

    def count(flags: NDArray[np.bool_], owners: Numbers) -> Numbers:
        return np.bincount(owners[flags], minlength=len(texts))

    follows = text[1:] == text[:-1]
    doubled = (words[1:] == words[:-1]) & known.column(_odd_doubled, np.bool_)[words[1:]] & follows
    wrong = known.column(_leads, np.uint8)[words[:-1]] & known.column(_clashes, np.uint8)[words[1:]]
    owners, different = np.divmod(distinct(text * len(known) + words), len(known))
    lower = said.known.pieces.column(_begins_lower, np.bool_)[said.pieces[said.sentences[:-1]]]
    counts = (
        np.bincount(text, minlength=len(texts)),
        np.diff(said.sentence_bounds),
        count(doubled, text[1:]),
        count((wrong > 0) & follows, text[1:]),
        count(known.column(str.isalpha, np.bool_)[different], owners),
        count(known.column(_odd, np.bool_)[different], owners),
        count(lower, said.text[said.sentences[:-1]]),
        count(known.column(STOPWORDS.__contains__, np.bool_)[words], text),
    )
    each = zip(*(column.tolist() for column in counts), strict=True)
    # Symbols alone are no words, and no fault.
    return [
        _weighed(*own) if own[0] else {} if text.words else None
        for own, text in zip(each, texts, strict=True)
    ]


def _weighed(
    count: int,
    lines: int,
    doubled: int,
    disagreeing: int,
    letters: int,
    odd: int,
    lower: int,
    function_words: int,
) -> dict[str, float]:
    faults = {
        "doubled": doubled / count * 8,
        "odd words": odd / max(1, letters) * 3,
        "agreement": disagreeing / lines * 0.6,
        "capitals": lower / lines * 0.25,
        "long sentences": max(0.0, count / lines - 40) / 100,
    }
    if count >= 8:
        faults["function words"] = max(0.0, _EXPECTED_FUNCTION_WORDS - function_words / count) * 2
    return faults


def _odd_doubled(word: str) -> bool:
    return word.isalpha() and word not in _MAY_DOUBLE


def _odd(word: str) -> bool:
    return word.isalpha() and _ODD.search(word) is not None


def _begins_lower(piece: str) -> bool:
    return piece[:1].islower()


def _leads(word: str) -> int:
    return _LEADS.get(word, 0)


def _clashes(word: str) -> int:
    article = 0
    if len(word) > 1 and "a" <= word[0] <= "z" and word[0] not in "hxyu":
        article = _A if word[0] in "aeio" else _AN
    return _CLASHES.get(word, 0) | article
