"""Linear models over the terms of a text, whose weights stand beside the code as bytes."""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Collection, Mapping
from functools import cache
from math import sqrt

from scorers.kept import Kept
from scorers.local.terms import PARTS_WEIGHT, SIZE, Terms, word_places
from scorers.local.weights import read, sigmoid


class Hashed:
    """One linear model: a weight for each place of the hash table, for each sign, and a bias."""

    def __init__(
        self,
        table: bytes,
        *,
        unit: float,
        bias: float,
        signs: Mapping[str, float],
        scale: float = 1.0,
        shift: float = 0.0,
        threshold: float = 0.0,
    ) -> None:
        """`table` holds signed bytes, each a number of `unit`s."""
        self._table = array("b", table)
        if len(self._table) != SIZE:
            raise ValueError(f"a table of {len(self._table)} weights instead of {SIZE}")
        self._unit = unit
        self._bias = bias
        self._signs = dict(signs)
        self._scale = scale
        self._shift = shift
        self.threshold = threshold
        """The log odds from which the answer is yes."""
        self._words = Kept(self._weigh)

    def sentence(self, terms: Terms) -> float:
        """What a sentence's words and word pairs weigh together."""
        words = sum(map(self._words.__getitem__, terms.words))
        return words + sum(map(self._table.__getitem__, terms.pairs))

    def odds(self, weight: float, count: int, signs: Collection[str]) -> float:
        """The log odds of a stretch of text.

        `weight` and `count` are its sentences' sums of `sentence` and of `Terms.size`; `signs` the
        names of the signs in it, each once.
        """
        odds = self._bias
        if signs:
            weighed = self._signs
            odds += sum([weighed[name] for name in signs if name in weighed])
        return odds + weight * self._unit / sqrt(count or 1)

    def probability(self, odds: float) -> float:
        """The calibrated probability of log odds."""
        return sigmoid(self._scale * odds + self._shift)

    def _weigh(self, word: str) -> float:
        place, parts = word_places(word)
        weight = float(self._table[place])
        if parts:
            weight += PARTS_WEIGHT * sum(self._table[p] for p in parts) / sqrt(len(parts))
        return weight


@cache
def hashed(name: str) -> Hashed:
    """The model in `data/<name>.z`: a line of JSON with the settings, then the table."""
    head, _, table = zlib.decompress(read(f"{name}.z")).partition(b"\n")
    settings = json.loads(head)
    return Hashed(table, **settings)
