"""What the pattern engines share: named patterns behind a set of trigger words.

A text is only searched when it has one of the triggers as a whole word, so that a clean text costs
one set intersection. Patterns see the text in lower case with compatibility forms folded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from scorers.language import language_of
from scorers.text import latin_share, lowered, word_set


class Sign(NamedTuple):
    """A regular expression and how sure a match is."""

    probability: float
    regex: str
    triggers: str = ""
    """Words without one of which it cannot match; none: those of all the patterns."""


class Patterns:
    """Named signs of one thing."""

    def __init__(self, triggers: str, signs: Mapping[str, Sign]) -> None:
        self._triggers = frozenset(triggers.split())
        self._signs = [
            (name, sign.probability, frozenset(sign.triggers.split()), re.compile(sign.regex))
            for name, sign in signs.items()
        ]
        for _, _, own, _ in self._signs:
            self._triggers |= own

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the signs, in their order."""
        return tuple(name for name, *_ in self._signs)

    def matches(self, text: str) -> dict[str, float]:
        """The names of the signs that are there, with their probabilities."""
        return self.among(word_set(text), text)

    def among(self, words: Collection[str], text: str) -> dict[str, float]:
        """`matches` of a text whose words, and symbols that trigger signs, are known."""
        present = self._triggers.intersection(words)
        if not present:
            return {}
        low = lowered(text)
        return {
            name: probability
            for name, probability, own, regex in self._signs
            if (not own or not own.isdisjoint(present)) and regex.search(low)
        }


def combined(probabilities: Mapping[str, float]) -> float:
    """The probability that at least one of independent signs is right."""
    wrong = 1.0
    for probability in probabilities.values():
        wrong *= 1.0 - probability
    return 1.0 - wrong


def reads(text: str) -> bool:
    """Whether patterns written for English can say anything about `text`."""
    return latin_share(text) >= 0.5 and language_of(text) in (None, "en")
