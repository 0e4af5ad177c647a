"""Named patterns, searched only in sentences that have words without which they cannot match.

Which words a sentence has is looked up for all sentences and patterns of many texts at once, so
that a text without any of them costs next to nothing. Patterns see a sentence in lower case with
compatibility forms folded and single blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scorers.joined import Joined
from scorers.local.hashed import Signs
from scorers.local.literals import literals
from scorers.local.terms import SIZE, Terms, joined_terms, pair_place
from scorers.pieces import lowered

LONGEST = 1_000
"""Characters of a sentence that are searched."""


class Sign(NamedTuple):
    """A regular expression and the words that it needs."""

    regex: str
    triggers: str
    """Words, or pairs of words as in "you+are", one of which stands in every match."""
    also: str = ""
    """Further words, one of which stands in every match; empty: none is needed."""


_ABOVE = 31

_Searched = tuple[int, tuple[str, ...], re.Pattern[str]]
"""The bit of a sign, strings of which a match has one, and the pattern."""


class Patterns:
    """Named signs of one thing; at most 31."""

    def __init__(self, signs: Mapping[str, Sign]) -> None:
        self.names = tuple(signs)
        # Bits of the signs that a word triggers; above them, of those that need it beside.
        self._bits: dict[str, int] = {}
        self._pairs = np.zeros(SIZE + 1, np.int32)
        self._free = 0
        searched: list[_Searched] = []
        for number, sign in enumerate(signs.values()):
            bit = 1 << number
            for trigger in sign.triggers.split():
                if "+" in trigger:
                    self._pairs[pair_place(*trigger.split("+"))] |= bit
                else:
                    self._bits[trigger] = self._bits.get(trigger, 0) | bit
            for word in sign.also.split():
                self._bits[word] = self._bits.get(word, 0) | bit << _ABOVE
            if not sign.also:
                self._free |= bit
            known = frozenset(f"{sign.triggers} {sign.also}".split())
            searched.append((bit, literals(sign.regex, known=known), re.compile(sign.regex)))

        @lru_cache(maxsize=1024)
        def behind(possible: int) -> list[_Searched]:
            return [each for each in searched if possible & each[0]]

        self._behind = behind

    def found(self, texts: Joined) -> Signs:
        """The signs in each part of `joined_terms`, the n-th bit being the n-th of the `names`.

        Use it as `texts.of(found)`.
        """
        seen = texts.of(joined_terms)
        found = self._possible(seen)
        parts = found.nonzero()[0]
        found[parts] = [
            self._search(possible, texts.part(start, end))
            for possible, (start, end) in zip(
                found[parts].tolist(), seen.spans[parts].tolist(), strict=True
            )
        ]
        return found

    def bits(self, names: Iterable[str]) -> int:
        """The bits of the named signs."""
        return sum({1 << self.names.index(name) for name in names})

    def named(self, signs: int) -> list[str]:
        """The names of signs."""
        return [name for place, name in enumerate(self.names) if signs >> place & 1]

    def _possible(self, seen: Terms) -> Signs:
        """Of each sentence the signs that it may hold."""
        bits = seen.vocabulary.column(self._bits_of, np.int64)[seen.words]
        bits |= self._pairs[seen.pairs]
        if len(bits):
            bits = np.bitwise_or.reduceat(bits, seen.starts)
        possible: Signs = bits & (bits >> _ABOVE | self._free)
        return possible

    def _bits_of(self, word: str) -> int:
        return self._bits.get(word, 0)

    def _search(self, possible: int, sentence: str) -> int:
        low = lowered(sentence[:LONGEST])
        found = 0
        for bit, gate, regex in self._behind(possible):
            if (not gate or any(map(low.__contains__, gate))) and regex.search(low):
                found |= bit
        return found
