"""What the pattern engines share: named patterns behind a set of trigger words.

A text is only searched when it has one of the triggers as a whole word, so that a clean text costs
one set intersection. Patterns see the text in lower case with compatibility forms folded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from scorers.language import reads as reads
from scorers.local.literals import literals
from scorers.pieces import lowered
from scorers.text import word_set


class Sign(NamedTuple):
    """A regular expression and how sure a match is."""

    probability: float
    regex: str
    triggers: str = ""
    """Words without one of which it cannot match; none: those of all the patterns."""


class Patterns:
    """Named signs of one thing."""

    def __init__(self, triggers: str, signs: Mapping[str, Sign]) -> None:
        common = frozenset(triggers.split())
        self._signs = []
        by_trigger: dict[str, set[int]] = {word: set() for word in common}
        for number, (name, sign) in enumerate(signs.items()):
            own = frozenset(sign.triggers.split())
            gate = literals(sign.regex, known=own)
            self._signs.append((name, sign.probability, gate, re.compile(sign.regex)))
            for word in own:
                by_trigger.setdefault(word, set()).add(number)
        always = {n for n, sign in enumerate(signs.values()) if not sign.triggers}
        self._triggers = frozenset(by_trigger)
        self._by_trigger = {word: frozenset(own | always) for word, own in by_trigger.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the signs, in their order."""
        return tuple(name for name, *_ in self._signs)

    def matches(self, text: str) -> dict[str, float]:
        """The names of the signs that are there, with their probabilities."""
        return self.among(word_set(text), text)

    def among(self, words: Collection[str], text: str) -> dict[str, float]:
        """`matches` of a text whose words, and symbols that trigger signs, are known."""
        return self.each([(words, text)])[0]

    def each(self, parts: Sequence[tuple[Collection[str], str]]) -> list[dict[str, float]]:
        """`among` of each part of one text: what no part can hold is ruled out once for all."""
        present = self._triggers.intersection(chain.from_iterable(words for words, _ in parts))
        if not present:
            return [{} for _ in parts]
        whole = "\n".join([lowered(text) for _, text in parts])
        possible = {number for number in self._behind(present) if self._gate(number, whole)}
        asked = frozenset(
            word for word in present if not possible.isdisjoint(self._by_trigger[word])
        )
        return [
            self._search(possible.intersection(self._behind(own)), text)
            if (own := asked.intersection(words))
            else {}
            for words, text in parts
        ]

    def _behind(self, present: Iterable[str]) -> set[int]:
        return set().union(*map(self._by_trigger.__getitem__, present))

    def _gate(self, number: int, low: str) -> bool:
        gate = self._signs[number][2]
        return not gate or any(map(low.__contains__, gate))

    def _search(self, numbers: Iterable[int], text: str) -> dict[str, float]:
        low = lowered(text)
        return {
            self._signs[number][0]: self._signs[number][1]
            for number in sorted(numbers)
            if self._gate(number, low) and self._signs[number][3].search(low)
        }


def combined(probabilities: Mapping[str, float]) -> float:
    """The probability that at least one of independent signs is right."""
    wrong = 1.0
    for probability in probabilities.values():
        wrong *= 1.0 - probability
    return 1.0 - wrong
