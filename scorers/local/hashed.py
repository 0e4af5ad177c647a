"""Linear models over the terms of texts, whose weights stand beside the code as bytes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from scorers.local.terms import PARTS_WEIGHT, SIZE, Terms, word_places
from scorers.local.weights import read, sigmoid

Odds = NDArray[np.float64]
Signs = NDArray[np.int64]
"""Of each sentence or text the signs that it has, a bit each."""


class Hashed:
    """One linear model: a weight for each place of the hash table, for each sign, and a bias.

    Log odds of a stretch are the bias, the weights of its signs, each once, and the sum of the
    weights of its words and pairs over the square root of how many they are.
    """

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
        if len(table) != SIZE:
            raise ValueError(f"a table of {len(table)} weights instead of {SIZE}")
        self._table = np.frombuffer(table + b"\0", np.int8)
        self._single = memoryview(table).cast("b")
        self._unit = unit
        self.bias = bias
        self._signs = dict(signs)
        self._scale = scale
        self._shift = shift
        self.threshold = threshold
        """The log odds from which the answer is yes."""

    def sentences(self, terms: Terms) -> Odds:
        """What each sentence's words and word pairs weigh together."""
        weights = terms.vocabulary.column(self._weigh, np.float64)[terms.words]
        weights += self._table[terms.pairs]
        return self._unit * np.add.reduceat(weights, terms.starts) if len(weights) else weights

    def weight(self, signs: Signs, names: Sequence[str]) -> Odds:
        """What the signs weigh, the n-th bit being the n-th of the `names`."""
        each = np.array([self._signs.get(name, 0.0) for name in names])
        weights = np.zeros(len(signs))
        some = np.flatnonzero(signs)
        weights[some] = ((signs[some, None] >> np.arange(len(names)) & 1) * each).sum(1)
        return weights

    def probability(self, odds: float) -> float:
        """The calibrated probability of log odds."""
        return sigmoid(self._scale * odds + self._shift)

    def probabilities(self, odds: Odds) -> Odds:
        """`probability` of each."""
        likely: Odds = 1 / (1 + np.exp(-np.clip(self._scale * odds + self._shift, -60, 60)))
        return likely

    def _weigh(self, word: str) -> float:
        if not word:
            return 0.0
        place, parts = word_places(word)
        weight = float(self._single[place])
        if parts:
            weight += PARTS_WEIGHT * sum(map(self._single.__getitem__, parts)) / sqrt(len(parts))
        return weight


@cache
def hashed(name: str) -> Hashed:
    """The model in `data/<name>.z`: a line of JSON with the settings, then the table."""
    head, _, table = zlib.decompress(read(f"{name}.z")).partition(b"\n")
    settings = json.loads(head)
    return Hashed(table, **settings)
