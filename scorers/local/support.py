"""How far sentences are carried by documents: the measurements that groundedness is made of.

Words that both have are weak evidence, because a wrong sentence often uses the right words. So what
counts most is whether words that stand side by side in the sentence also stand near each other in
the documents, and in the same order.

All sentences are measured together, on arrays: the stems of the sentences are numbered, and the
documents are the sequence of those numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from itertools import accumulate, chain, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorers.pieces import stem
from scorers.text import Text

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]
Span = tuple[int, int]

MOST_STEMS = 1_000
"""Stems of the sentences that are measured; of a longer response every n-th sentence is."""
NEAR = 4
"""Places at which two words still count as near each other."""
BLOCK, BLOCKS = 6, 8
"""Content words of a block, and blocks of a window: a power of two."""
APART = BLOCK * BLOCKS
"""Places between two documents, so that no window holds words of both."""
CELLS = 1 << 18
"""Blocks times stems that are looked at in one step."""

_PREFIX = 5
_RELATED = 0.6
"""What a word counts whose first letters alone stand in the text (consume, consumption)."""
_CHAT_WEIGHT = 0.25
_LEAST = 1e-6
"""A weight below which nothing is divided by it."""

CHAT = frozenset(
    map(
        stem,
        """
        sure know think heard hear love like favorite wonder hope feel enjoy wow cool great nice
        interesting agree yes yeah hi hello really maybe ever believe guess probably actually
        definitely also well lot thing good
        """.split(),  # noqa: SIM905 - a list literal would be a page long
    )
)
"""Stems of small talk: they claim nothing that a document could hold."""


class Weights(dict[str, float]):
    """What each stem weighs by its rarity; small talk weighs less."""

    def __init__(self, rarity: Mapping[str, float], rarest: float) -> None:
        """`rarity` gives the weight of a stem, `rarest` that of one which it does not know."""
        super().__init__(rarity)
        self._rarest = rarest
        self.update({word: rarity.get(word, rarest) * _CHAT_WEIGHT for word in CHAT})

    def __missing__(self, word: str) -> float:
        return self._rarest


class Support(NamedTuple):
    """What was measured, a number a sentence in each array."""

    words: Floats
    """Content words."""
    coverage: Floats
    """Share of the content, weighted by rarity, that stands in the documents; 0 to 1."""
    adjacent: Floats
    """Share of neighbouring content words that are neighbours in a document; 0 to 1."""
    weakest: Floats
    """The least 1/distance of two neighbouring content words; 0 beyond `NEAR`, at most 1."""
    window: Floats
    """The most content, weighted by rarity, that one window of a document covers; 0 to 1."""
    numbers: Floats
    """Numbers that neither a document nor the question has."""
    names: Floats
    """Capitalised words within the sentence that neither a document nor the question has."""


class Claims:
    """Sentences of a response whose support is asked."""

    def __init__(
        self,
        response: Text,
        spans: Sequence[Span],
        weights: Weights,
        asked: Set[str] = frozenset(),
    ) -> None:
        """The sentences at `spans`, at least one, none without content; `asked` are the stems of
        the question: a number or a name that it gives is not the response's own claim."""
        content, before = response.content, response.before
        own = [content[before[start] : before[end]] for start, end in spans]
        step = -(-sum(map(len, own)) // MOST_STEMS)
        own = [stems[:MOST_STEMS] for stems in own[::step]]
        # A response made so that every n-th sentence is a long one must not escape the bound.
        count = max(1, bisect_right(list(accumulate(map(len, own))), MOST_STEMS))
        stems = list(chain.from_iterable(own[:count]))
        self.response = response
        self.asked = asked
        self.spans = spans[::step][:count]
        """Of the sentences that are measured."""
        self.numbers = {word: number for number, word in enumerate(dict.fromkeys(stems))}
        """Of each different stem its number."""
        self.distinct = list(self.numbers)
        self.stems: Numbers = np.array(list(map(self.numbers.__getitem__, stems)), np.intp)
        """The numbers of all stems in their order."""
        self.counts: Numbers = np.array(list(map(len, own[:count])), np.intp)
        """Stems of each sentence."""
        self.sentence: Numbers = np.repeat(np.arange(count), self.counts)
        """Of each stem its sentence."""
        self.weights = np.array(list(map(weights.__getitem__, self.distinct)))[self.stems]
        """Of each stem."""

    def summed(self, values: Floats) -> Floats:
        """The sum over each sentence of a value for each stem."""
        return np.bincount(self.sentence, values, len(self.counts)).astype(float)


class Places:
    """Where the stems of some claims stand in documents."""

    def __init__(self, claims: Claims, documents: Sequence[Text]) -> None:
        self.claims = claims
        self.documents = documents
        self.count = len(claims.distinct)
        """The number that stands for the words of no sentence."""
        number = chain(
            *(
                chain(map(claims.numbers.get, text.content, repeat(self.count)), apart)
                for text, apart in zip(documents, repeat([self.count] * APART))
            )
        )
        size = sum(len(text.content) + APART for text in documents)
        self.numbers: Numbers = np.fromiter(number, np.intp, size)
        """Of each content word its number in `claims`; between documents a window of no words."""
        self.hits: Numbers = np.flatnonzero(self.numbers < self.count)
        """The places of words of the sentences."""
        self.found = self.numbers[self.hits]
        """Their numbers."""


def support(places: Places) -> Support:
    """The support of each sentence by the documents together."""
    claims = places.claims
    held = _held(places)
    numeric = np.array([word[0].isdigit() for word in claims.distinct])
    given = np.array([word in claims.asked for word in claims.distinct])
    unknown = (numeric & ~given & (held == 0.0)).astype(float)
    weights = np.where((numeric & given)[claims.stems], 0.0, claims.weights)
    total = claims.summed(weights)
    covered = claims.summed(weights * held[claims.stems])
    coverage = np.where(total < _LEAST, 1.0, covered / np.maximum(total, _LEAST))
    adjacent, weakest = _neighbours(places, coverage)
    return Support(
        words=claims.counts.astype(float),
        coverage=coverage,
        adjacent=adjacent,
        weakest=weakest,
        window=_window(places),
        numbers=claims.summed(unknown[claims.stems]),
        names=_unknown_names(claims, places.documents),
    )


def _held(places: Places) -> Floats:
    """By number how far each stem stands in the documents, 0 to 1."""
    held = np.zeros(places.count)
    held[places.found] = 1.0
    absent = np.flatnonzero(held == 0.0).tolist()
    if not absent:
        return held
    prefixes = {word[:_PREFIX] for text in places.documents for word in text.content_set}
    for number in absent:
        word = places.claims.distinct[number]
        if len(word) >= _PREFIX and word[:_PREFIX] in prefixes and not word[0].isdigit():
            held[number] = _RELATED
    return held


def _neighbours(places: Places, otherwise: Floats) -> tuple[Floats, Floats]:
    """`adjacent` and `weakest`; `otherwise` for a sentence of one word."""
    claims, numbers = places.claims, places.numbers
    # One more, so that pairs with a word of no sentence have cells of their own.
    side = places.count + 1
    first = numbers * side
    nearness = np.zeros(side * side)
    for distance in range(NEAR, 0, -1):
        nearness[first[:-distance] + numbers[distance:]] = 1 / distance
    inside = claims.sentence[1:] == claims.sentence[:-1]
    sentence = claims.sentence[1:][inside]
    found = nearness[(claims.stems[:-1] * side + claims.stems[1:])[inside]]
    pairs = claims.counts - 1
    adjacent = np.bincount(sentence, found == 1.0, len(pairs)) / np.maximum(pairs, 1)
    several = pairs > 0
    weakest = otherwise.copy()
    if several.any():
        starts = (pairs.cumsum() - pairs)[several]
        weakest[several] = np.minimum.reduceat(found, starts)
    return np.where(several, adjacent, otherwise), weakest


def _window(places: Places) -> Floats:
    """`window`; windows begin at every block."""
    claims, count = places.claims, places.count
    share = np.zeros((count, len(claims.counts)), np.float32)
    share[claims.stems, claims.sentence] = claims.weights
    share /= np.maximum(share.sum(0), _LEAST)
    block = places.hits // BLOCK
    blocks = len(places.numbers) // BLOCK
    step = max(1, CELLS // count)
    most = np.zeros(len(claims.counts), np.float32)
    for start in range(0, blocks, step):
        size = min(step, blocks - start) + BLOCKS - 1
        here = slice(*np.searchsorted(block, (start, start + size)))
        seen = np.zeros((size, count), np.bool_)
        seen[block[here] - start, places.found[here]] = True
        width = 1
        while width < BLOCKS:
            seen = seen[:-width] | seen[width:]
            width *= 2
        np.maximum(most, (seen.astype(np.float32) @ share).max(0), out=most)
    return most.astype(float)


def _unknown_names(claims: Claims, documents: Sequence[Text]) -> Floats:
    known = [claims.asked, *(text.content_set for text in documents)]
    found = np.zeros(len(claims.spans))
    pieces = claims.response.pieces
    for number, (start, end) in enumerate(claims.spans):
        for place in range(start, end):
            names = pieces[place].names
            if not names:
                continue
            if pieces[place].named_first and (place == start or pieces[place - 1].breaks):
                names = names[1:]
            found[number] += sum(not any(name in own for own in known) for name in names)
    return found
