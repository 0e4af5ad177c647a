"""How far sentences are carried by documents: the measurements that groundedness is made of.

Words that both have are weak evidence, because a wrong sentence often uses the right words. So what
counts most is whether words that stand side by side in the sentence also stand near each other in
the documents, and in the same order.

The sentences of all responses are measured together, on arrays: the different stems of each
response are numbered through, and its documents are the places of those numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorers.joined import Joined, member
from scorers.pieces import breaks, named_first, names, stem
from scorers.vocabulary import Numbers

Floats = NDArray[np.float64]

MOST_STEMS = 1_000
"""Stems of a response that are measured; of a longer one every n-th sentence is."""
NEAR = 4
"""Places at which two words still count as near each other."""
BLOCK, BLOCKS = 6, 8
"""Content words of a block, and blocks of a window: a power of two."""
APART = BLOCK * BLOCKS
"""Places between two documents, so that no window holds words of both."""
CELLS = 1 << 19
"""Blocks times stems that are looked at in one step."""

_PREFIX = 5
_RELATED = 0.6
"""What a word counts whose first letters alone stand in the text (consume, consumption)."""
_CHAT_WEIGHT = 0.25
_LEAST = 1e-6
"""A weight below which nothing is divided by it."""
_UNIT = 1 / 400
"""Weights are sums of it, so that sums of them in single precision are the same in any order."""

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
    """What each stem weighs by its rarity, in hundredths; small talk weighs less."""

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
    """Sentences of responses whose support is asked."""

    def __init__(
        self,
        responses: Joined,
        asked: Joined,
        sentences: Numbers,
        weigh: Callable[[str], float],
    ) -> None:
        """`sentences` of each response, none without content, in their order; `asked` are the
        questions: a number or a name that one gives is not the response's own claim. `weigh` gives
        the weight of a stem."""
        stems, pieces = responses.stems
        sentence = responses.sentence[pieces]
        sizes = np.bincount(sentence, minlength=responses.count)
        sentences = _measured(sentences, sizes, responses.sentence_bounds)
        number = np.zeros(len(sizes), np.intp)
        number[sentences] = np.arange(1, len(sentences) + 1)
        nth = np.arange(len(stems)) - np.repeat(sizes.cumsum() - sizes, sizes)
        kept = np.flatnonzero((number[sentence] > 0) & (nth < MOST_STEMS))
        known = responses.known.stems
        self.responses = responses
        self.asked = asked
        self.sentences = sentences
        """Those that are measured."""
        self.turn: Numbers = np.searchsorted(responses.sentence_bounds, sentences, "right") - 1
        """Of each of them its response."""
        self.bounds: Numbers = np.searchsorted(self.turn, np.arange(len(responses.texts) + 1))
        """Bounds of the responses among the sentences."""
        self.sentence = number[sentence[kept]] - 1
        """Of each stem its sentence among them."""
        self.counts = np.bincount(self.sentence, minlength=len(sentences))
        """Stems of each sentence."""
        own = stems[kept]
        different, self._column = _counted(own, len(known.known))
        self._width = len(different) + 1
        cells = self.turn[self.sentence] * self._width + self._column[own]
        distinct, self._numbers = _counted(cells, len(responses.texts) * self._width)
        self.stems = self._numbers[cells] - 1
        """The stems in their order: each response's different ones are numbered through."""
        self.owners = distinct // self._width
        """Of each number its response."""
        self.distinct = different[distinct % self._width - 1]
        """Of each number its stem in the vocabulary."""
        self.firsts: Numbers = np.searchsorted(self.owners, np.arange(len(responses.texts) + 1))
        """Bounds of the responses among the numbers."""
        self.weights = known.column(weigh, np.float64)[own]
        """Of each stem."""

    def numbered(self, turns: Numbers, stems: Numbers) -> Numbers:
        """The number of each stem in the response of its turn; -1 where that does not have it."""
        found: Numbers = self._numbers[turns * self._width + self._column[stems]] - 1
        return found

    def summed(self, values: Floats) -> Floats:
        """The sum over each sentence of a value for each stem."""
        return np.bincount(self.sentence, values, len(self.counts)).astype(float)


def _counted(numbers: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """The different `numbers`, ascending, and of each number below `size` its place among them,
    from 1; 0 where it is none of them."""
    marked = np.zeros(size, np.bool_)
    marked[numbers] = True
    different = np.flatnonzero(marked)
    places = np.zeros(size, np.intp)
    places[different] = np.arange(1, len(different) + 1)
    return different, places


def _measured(sentences: Numbers, sizes: Numbers, bounds: Numbers) -> Numbers:
    """Of a response with more stems than `MOST_STEMS` every n-th sentence."""
    places = np.searchsorted(sentences, bounds)
    total = np.concatenate([[0], sizes[sentences].cumsum()])
    if (np.diff(total[places]) <= MOST_STEMS).all():
        return sentences
    found = []
    for first, last in pairwise(places.tolist()):
        step = max(1, -(-int(total[last] - total[first]) // MOST_STEMS))
        own = sentences[first:last:step]
        # A response made so that every n-th sentence is a long one must not escape the bound.
        reached = np.minimum(sizes[own], MOST_STEMS).cumsum()
        found.append(own[: max(1, int(np.searchsorted(reached, MOST_STEMS, "right")))])
    return np.concatenate(found)


class Places:
    """Where the stems of some claims stand in documents."""

    def __init__(self, claims: Claims, documents: Joined, turns: Numbers) -> None:
        """`turns` are the documents' own, ascending."""
        stems, pieces = documents.stems
        document = documents.text[pieces]
        number = claims.numbered(turns[document], stems)
        place = np.arange(len(stems)) + APART * document
        first = np.searchsorted(turns, np.arange(len(claims.responses.texts) + 1))
        start = np.searchsorted(pieces, documents.bounds[first]) + APART * first
        self.claims = claims
        self.documents = documents
        self.turns = turns
        self.stems = turns[document], stems
        """Of each content word its turn and its stem."""
        self.lengths = np.diff(start)
        """Places of each turn."""
        kept = np.flatnonzero(number >= 0)
        self.numbers = number[kept]
        """Of each word of the sentences its number in `claims`, in order."""
        self.pieces = pieces[kept]
        """Of each its piece."""
        self.places = place[kept]
        """Of each its place among the content words of all turns."""
        self.owners = turns[document[kept]]
        """Of each its turn."""
        self.within = self.places - start[self.owners]
        """Of each its place in its turn."""


def support(places: Places) -> Support:
    """The support of each sentence by its turn's documents together."""
    claims = places.claims
    known = claims.responses.known.stems
    held = _held(places)
    numeric = known.column(_numeric, np.bool_)[claims.distinct]
    asked, owners = claims.asked.stems
    given = member((claims.owners, claims.distinct), (claims.asked.text[owners], asked))
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
        names=_unknown_names(places),
    )


def _numeric(word: str) -> bool:
    return word[:1].isdigit()


def _prefix(word: str) -> str:
    return word[:_PREFIX] if len(word) >= _PREFIX and not _numeric(word) else ""


def _held(places: Places) -> Floats:
    """By number how far each stem stands in the documents, 0 to 1."""
    claims = places.claims
    held = np.zeros(len(claims.distinct))
    held[places.numbers] = 1.0
    known = claims.responses.known.stems
    prefixes = known.numbers(_prefix, known)
    own = prefixes[claims.distinct]
    absent = np.flatnonzero((held == 0.0) & (own > 0))
    turns, stems = places.stems
    related = member((claims.owners[absent], own[absent]), (turns, prefixes[stems]))
    held[absent[related]] = _RELATED
    return held


def _neighbours(places: Places, otherwise: Floats) -> tuple[Floats, Floats]:
    """`adjacent` and `weakest`; `otherwise` for a sentence of one word."""
    claims = places.claims
    # A square of cells for each response, by first and second number.
    sides = np.diff(claims.firsts)
    starts = (sides * sides).cumsum() - sides * sides - claims.firsts[:-1]
    row = (
        starts[claims.owners]
        + (np.arange(len(claims.owners)) - claims.firsts[claims.owners]) * (sides[claims.owners])
    )
    distance = np.zeros(int((sides * sides).sum()), np.uint8)
    apart = [places.places[step:] - places.places[:-step] for step in range(1, NEAR + 1)]
    for near in range(NEAR, 0, -1):
        for step in range(1, near + 1):
            first = np.flatnonzero(apart[step - 1] == near)
            distance[row[places.numbers[first]] + places.numbers[first + step]] = near
    inside = claims.sentence[1:] == claims.sentence[:-1]
    sentence = claims.sentence[1:][inside]
    found = _NEARNESS[distance[(row[claims.stems[:-1]] + claims.stems[1:])[inside]]]
    pairs = claims.counts - 1
    adjacent = np.bincount(sentence, found == 1.0, len(pairs)) / np.maximum(pairs, 1)
    several = pairs > 0
    weakest = otherwise.copy()
    if several.any():
        weakest[several] = np.minimum.reduceat(found, (pairs.cumsum() - pairs)[several])
    return np.where(several, adjacent, otherwise), weakest


_NEARNESS = np.array([0.0, *(1 / distance for distance in range(1, NEAR + 1))])


def _window(places: Places) -> Floats:
    """`window`; windows begin at every block of a turn."""
    claims = places.claims
    sides = np.maximum(np.diff(claims.firsts), 1)
    firsts = claims.bounds
    blocks = places.lengths // BLOCK
    block = places.within // BLOCK
    number = places.numbers - claims.firsts[places.owners]
    most, all_of = np.zeros((2, len(claims.counts)))
    for start, end in _groups(np.maximum(blocks + BLOCKS, np.diff(firsts)), sides):
        here = slice(*np.searchsorted(places.owners, (start, end)))
        own = block[here], places.owners[here] - start, number[here]
        count, side = end - start, int(sides[start:end].max())
        sentences = slice(firsts[start], firsts[end])
        turn = claims.turn[sentences] - start
        nth = np.arange(firsts[start], firsts[end]) - firsts[start:end][turn]
        stems = slice(*np.searchsorted(claims.sentence, (firsts[start], firsts[end])))
        owner = claims.turn[claims.sentence[stems]]
        share = np.zeros((count, side, int(np.diff(firsts[start : end + 1]).max())), np.float32)
        share[
            owner - start,
            claims.stems[stems] - claims.firsts[owner],
            claims.sentence[stems] - firsts[owner],
        ] = np.round(claims.weights[stems] / _UNIT)
        best = np.zeros((count, share.shape[2]), np.float32)
        windows = int(blocks[start:end].max())
        step = max(1, min(windows, CELLS // (count * side)))
        for top in range(0, windows, step):
            np.maximum(best, (_seen(own, top, step, count, side) @ share).max(1), out=best)
        most[sentences] = best[turn, nth]
        all_of[sentences] = share.sum(1)[turn, nth]
    return most / np.maximum(all_of, 1.0)


def _groups(heights: Numbers, sides: Numbers) -> Iterator[tuple[int, int]]:
    """Bounds of turns whose cells, were all as many as the most, are at most `CELLS`."""
    start = height = side = 0
    for turn, (own_height, own_side) in enumerate(
        zip(heights.tolist(), sides.tolist(), strict=True)
    ):
        height, side = max(height, own_height), max(side, own_side)
        if turn > start and (turn + 1 - start) * height * side > CELLS:
            yield start, turn
            start, height, side = turn, own_height, own_side
    yield start, len(sides)


def _seen(
    places: tuple[Numbers, Numbers, Numbers], top: int, step: int, turns: int, side: int
) -> NDArray[np.float32]:
    """By turn, window from `top` on, and number: 1 where the window has the number, otherwise 0."""
    block, turn, number = places
    height = step + BLOCKS - 1
    here = np.flatnonzero((block >= top) & (block < top + height))
    seen = np.zeros((turns, height, side), np.bool_)
    seen[turn[here], block[here] - top, number[here]] = True
    width = 1
    while width < BLOCKS:
        seen = seen[:, :-width] | seen[:, width:]
        width *= 2
    return seen.astype(np.float32)


def _unknown_names(places: Places) -> Floats:
    claims, responses = places.claims, places.claims.responses
    named, pieces = responses.known.pieces.rows(names, responses.known.stems).of(responses.pieces)
    number = np.full(responses.count, -1)
    number[claims.sentences] = np.arange(len(claims.sentences))
    sentence = responses.sentence[pieces]
    kept = number[sentence] >= 0
    # A capital where a sentence begins says nothing.
    flags = responses.known.pieces
    begins = np.zeros(len(responses.pieces), np.bool_)
    begins[1:] = flags.column(breaks, np.bool_)[responses.pieces[:-1]]
    begins[responses.sentences[:-1]] = True
    begins &= flags.column(named_first, np.bool_)[responses.pieces]
    kept[1:] &= ~begins[pieces[1:]] | (pieces[1:] == pieces[:-1])
    kept[:1] &= ~begins[pieces[:1]]
    turn = responses.text[pieces[kept]]
    own = turn, named[kept]
    asked, owners = claims.asked.stems
    unknown = ~member(own, places.stems) & ~member(own, (claims.asked.text[owners], asked))
    found = np.bincount(number[sentence[kept]], unknown, len(claims.sentences))
    return found.astype(float)
