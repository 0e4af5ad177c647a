"""Scores the stretches of a text by a hashed model: sentences, pairs of sentences, and the whole.

An attack is often one sentence among many that are harmless.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scorers.local.attack_signs import SIGNS
from scorers.local.hashed import Hashed
from scorers.local.terms import Terms, terms
from scorers.text import Text

Found = tuple[frozenset[str], ...]


def whole(model: Hashed, text: Text) -> float:
    """The log odds of all of the text."""
    seen = text.of(terms)
    if seen is None:
        return model.bias
    signs = frozenset().union(*text.of(SIGNS.found))
    weight = model.sentences(seen).sum() / np.sqrt(seen.sizes.sum())
    return model.bias + float(weight) + model.weight(signs)


def worst(model: Hashed, text: Text) -> tuple[float, frozenset[str]] | None:
    """The highest log odds among the sentences and pairs of neighbours, and the signs there.

    None when the text has no words.
    """
    seen = text.of(terms)
    if seen is None:
        return None
    signs = text.of(SIGNS.found)
    odds, windows = stretches(model, seen, signs)
    highest = int(odds.argmax())
    return model.bias + float(odds[highest]), windows[highest]


def stretches(
    model: Hashed, seen: Terms, signs: Found
) -> tuple[NDArray[np.floating[Any]], list[frozenset[str]]]:
    """Of the sentences, then of the pairs of neighbours, the log odds without bias, and signs."""
    weights, sizes = model.sentences(seen), seen.sizes
    if len(weights) > 1:
        weights = np.concatenate([weights, weights[:-1] + weights[1:]])
        sizes = np.concatenate([sizes, sizes[:-1] + sizes[1:]])
    odds = weights / np.sqrt(sizes)
    windows = list(signs)
    windows += [one | other if other else one for one, other in pairwise(signs)]
    if any(signs):
        odds += np.fromiter(
            [model.weight(each) if each else 0.0 for each in windows], np.float32, len(windows)
        )
    return odds, windows
