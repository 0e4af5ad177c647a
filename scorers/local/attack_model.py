"""Scores the stretches of a text by a hashed model: sentences, pairs of sentences, and the whole.

An attack is often one sentence among many that are harmless.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from scorers.local.attack_signs import SIGNS
from scorers.local.hashed import Hashed
from scorers.local.terms import Terms, terms
from scorers.text import sentences


class Sentence(NamedTuple):
    """A sentence as the attack models see it."""

    terms: Terms
    signs: frozenset[str]


@lru_cache(maxsize=256)
def parts(text: str) -> tuple[Sentence, ...]:
    """The sentences of `text`; none when it has no words."""
    seen = [(terms(sentence), sentence) for sentence in sentences(text)]
    seen = [(each, sentence) for each, sentence in seen if each.size]
    signs = SIGNS.each([(each.words, sentence) for each, sentence in seen])
    return tuple(
        Sentence(each, frozenset(found)) for (each, _), found in zip(seen, signs, strict=True)
    )


def whole(model: Hashed, text: tuple[Sentence, ...]) -> float:
    """The log odds of all of the text."""
    weight = sum(model.sentence(sentence.terms) for sentence in text)
    count = sum(sentence.terms.size for sentence in text)
    return model.odds(weight, count, frozenset().union(*(sentence.signs for sentence in text)))


def worst(model: Hashed, text: tuple[Sentence, ...]) -> tuple[float, frozenset[str]]:
    """The highest log odds among the sentences and pairs of neighbours, and the signs there.

    `text` is not empty.
    """
    weighed = [(model.sentence(s.terms), s.terms.size, s.signs) for s in text]
    spans = weighed + [
        (one + other, count + more, signs | others if others else signs)
        for (one, count, signs), (other, more, others) in pairwise(weighed)
    ]
    odds = [model.odds(*span) for span in spans]
    highest = max(odds)
    return highest, spans[odds.index(highest)][2]
