"""Scores the stretches of texts by a hashed model: sentences, pairs of sentences, and the whole.

An attack is often one sentence among many that are harmless.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorers.joined import Joined
from scorers.local.attack_signs import SIGNS
from scorers.local.hashed import Hashed, Odds, Signs
from scorers.local.terms import joined_terms


class Worst(NamedTuple):
    """Of each text the stretch with the highest log odds."""

    odds: Odds
    """Minus infinity for a text without words."""
    signs: Signs


def signs_of(texts: Joined) -> Signs:
    """The signs of each text. Use it as `texts.of(signs_of)`."""
    signs = np.zeros(len(texts.texts), np.int64)
    np.bitwise_or.at(signs, texts.of(joined_terms).owner, texts.of(SIGNS.found))
    return signs


def whole(model: Hashed, texts: Joined) -> Odds:
    """The log odds of all of each text; the bias for one without words."""
    seen, signs = texts.of(joined_terms), texts.of(signs_of)
    owner, count = seen.owner, len(texts.texts)
    weights = np.bincount(owner, model.sentences(seen), count)
    sizes = np.maximum(np.bincount(owner, seen.sizes, count), 1)
    odds: Odds = model.bias + weights / np.sqrt(sizes) + model.weight(signs, SIGNS.names)
    return odds


def worst(model: Hashed, texts: Joined) -> Worst:
    """The sentence or pair of neighbours with the highest log odds; of equal ones the first."""
    seen = texts.of(joined_terms)
    weights, sizes, signs, owner = (
        model.sentences(seen),
        seen.sizes,
        texts.of(SIGNS.found),
        seen.owner,
    )
    first = np.flatnonzero(owner[:-1] == owner[1:])
    second = first + 1
    weights = np.concatenate([weights, weights[first] + weights[second]])
    sizes = np.concatenate([sizes, sizes[first] + sizes[second]])
    signs = np.concatenate([signs, signs[first] | signs[second]])
    owner = np.concatenate([owner, owner[first]])
    odds = model.bias + weights / np.sqrt(sizes) + model.weight(signs, SIGNS.names)
    highest = np.full(len(texts.texts), -np.inf)
    np.maximum.at(highest, owner, odds)
    there = np.flatnonzero(odds == highest[owner])[::-1]
    shown = np.zeros(len(texts.texts), np.int64)
    shown[owner[there]] = signs[there]
    return Worst(highest, shown)
