"""What the pattern engines share: named patterns behind a set of trigger words.

A text is only searched when it has one of the triggers as a whole word, so that a clean text costs
one set intersection. Patterns see the text in lower case with compatibility forms folded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from scorers.language import language_of
from scorers.text import latin_share, normal, word_set


class Patterns:
    """Named regular expressions, each with the probability that a match means what it says."""

    def __init__(self, triggers: str, patterns: Mapping[str, tuple[float, str]]) -> None:
        self._triggers = frozenset(triggers.split())
        self._patterns = [
            (name, probability, re.compile(pattern))
            for name, (probability, pattern) in patterns.items()
        ]

    def matches(self, text: str) -> dict[str, float]:
        """The names of the patterns that match, with their probabilities."""
        if self._triggers.isdisjoint(word_set(text)):
            return {}
        lowered = normal(text).lower().replace("’", "'")
        return {name: p for name, p, pattern in self._patterns if pattern.search(lowered)}


def combined(probabilities: Mapping[str, float]) -> float:
    """The probability that at least one of independent signs is right."""
    wrong = 1.0
    for probability in probabilities.values():
        wrong *= 1.0 - probability
    return 1.0 - wrong


def reads(text: str) -> bool:
    """Whether patterns written for English can say anything about `text`."""
    return latin_share(text) >= 0.5 and language_of(text) in (None, "en")
