"""Named patterns, searched only in sentences that have words without which they cannot match.

Which words a sentence has is looked up for all sentences and patterns of a text at once, so that a
text without any of them costs a few steps. Patterns see a sentence in lower case with compatibility
forms folded and single blanks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scorers.local.literals import literals
from scorers.local.terms import Terms, terms
from scorers.pieces import lowered
from scorers.text import Text

LONGEST = 1_000
"""Characters of a sentence that are searched."""


class Sign(NamedTuple):
    """A regular expression and the words that it needs."""

    regex: str
    triggers: str
    """Words, one of which stands in every match."""
    also: str = ""
    """Further words, one of which stands in every match; empty: none is needed."""


NONE: frozenset[str] = frozenset()

_ABOVE = 31

_Searched = tuple[str, tuple[str, ...], re.Pattern[str]]
"""The name of a sign, strings of which a match has one, and the pattern."""


class Patterns:
    """Named signs of one thing; at most 31."""

    def __init__(self, signs: Mapping[str, Sign]) -> None:
        self.names = tuple(signs)
        # Bits of the signs that a word triggers; above them, of those that need it beside.
        self._bits: dict[str, int] = {}
        self._free = 0
        searched: list[tuple[int, _Searched]] = []
        for number, (name, sign) in enumerate(signs.items()):
            bit = 1 << number
            for word in sign.triggers.split():
                self._bits[word] = self._bits.get(word, 0) | bit
            for word in sign.also.split():
                self._bits[word] = self._bits.get(word, 0) | bit << _ABOVE
            if not sign.also:
                self._free |= bit
            known = frozenset(f"{sign.triggers} {sign.also}".split())
            gate = literals(sign.regex, known=known)
            searched.append((bit, (name, gate, re.compile(sign.regex))))

        @lru_cache(maxsize=1024)
        def behind(possible: int) -> list[_Searched]:
            return [each for bit, each in searched if possible & bit]

        self._behind = behind

    def found(self, text: Text) -> tuple[frozenset[str], ...]:
        """The names of the signs in each sentence of `terms`. Use it as `text.of(found)`."""
        seen = text.of(terms)
        if seen is None:
            return ()
        return tuple(
            [
                self._search(possible, text.sentence(*span)) if possible else NONE
                for possible, span in zip(self._possible(seen), seen.spans, strict=True)
            ]
        )

    def _possible(self, seen: Terms) -> list[int]:
        """Of each sentence the bits of the signs that it may hold."""
        bits = seen.vocabulary.column(self._bits_of, "q")[seen.words]
        if not bits.any():
            return [0] * len(seen.spans)
        bits = np.bitwise_or.reduceat(bits, seen.starts)
        found: list[int] = (bits & (bits >> _ABOVE | self._free)).tolist()
        return found

    def _bits_of(self, word: str) -> int:
        return self._bits.get(word, 0)

    def _search(self, possible: int, sentence: str) -> frozenset[str]:
        low = lowered(sentence[:LONGEST])
        return frozenset(
            [
                name
                for name, gate, regex in self._behind(possible)
                if (not gate or any(map(low.__contains__, gate))) and regex.search(low)
            ]
        )
