"""Several texts one after another, as arrays: what is done with all of them takes as few steps as
with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scorers import vocabulary
from scorers.text import Made, Text, stops
from scorers.vocabulary import Numbers, Vocabulary

REMEMBERED = 8
"""Joined texts that are remembered: several engines read the same texts of the same turns."""

CELLS = 1 << 23
"""Owners times numbers up to which each has a place of its own, where sorting takes longer."""

K = TypeVar("K", np.intp, np.uint64)
V = TypeVar("V")
Pairs = tuple[Numbers, Numbers]
"""Owners, and a number of each."""

_ONE, _TWO, _HALF = np.uint64(1), np.uint64(2), np.uint64(32)
_OWNER, _SPACE = np.uint64(44), np.uint64(20)
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Joined:
    """Texts, all of whose pieces, sentences and words are counted through.

    Bounds are places: the first of each, and at last the end.
    """

    def __init__(self, texts: Sequence[Text], known: Vocabulary) -> None:
        self.texts = texts
        self.known = known
        own = [text.pieces(known) for text in texts]
        self.bounds: Numbers = np.array([0, *map(len, own)]).cumsum()
        """Of the texts among the pieces."""
        self.pieces: Numbers = np.concatenate([*own, np.zeros(0, np.intp)])
        """What stands between blanks, by number."""
        self._results: dict[Callable[..., Any], Any] = {}

    def of(self, function: Callable[[Joined], V]) -> V:
        """`function(self)`, a pure function, kept as long as the joined texts are remembered."""
        if function not in self._results:
            self._results[function] = function(self)
        return self._results[function]  # type: ignore[no-any-return]

    @Made
    def text(self) -> Numbers:
        """Of each piece its text."""
        return np.repeat(np.arange(len(self.texts)), np.diff(self.bounds))

    @Made
    def sentences(self) -> Numbers:
        """Bounds of the sentences and lines among the pieces; none is empty or of two texts."""
        lines = [
            start + np.array(text.lines)
            for text, start in zip(self.texts, self.bounds.tolist(), strict=False)
            if text.lines
        ]
        last = stops(self.known, self.pieces, np.concatenate([self.bounds, *lines]))
        return np.concatenate([[0], np.flatnonzero(last) + 1])

    @Made
    def sentence(self) -> Numbers:
        """Of each piece its sentence."""
        return np.repeat(np.arange(self.count), np.diff(self.sentences))

    @property
    def count(self) -> int:
        """Sentences of all texts."""
        return len(self.sentences) - 1

    @Made
    def sentence_bounds(self) -> Numbers:
        """Bounds of the texts among the sentences."""
        return np.searchsorted(self.sentences, self.bounds)

    @Made
    def words(self) -> Pairs:
        """The words by number, and of each the place of its piece."""
        return self.known.words_of(self.pieces)

    @Made
    def stems(self) -> Pairs:
        """The stems of the words that carry meaning, and of each the place of its piece."""
        return self.known.stems_of(*self.words)

    @Made
    def spoken(self) -> NDArray[np.uint64]:
        """Of each sentence a number that is the same for the same words in the same order."""
        words, pieces = self.words
        found = np.zeros(self.count, np.uint64)
        starts = np.searchsorted(pieces, self.sentences[:-1])
        sizes = np.diff(starts, append=len(words))
        place = np.arange(len(words)) - np.repeat(starts, sizes)
        mixed = mixture(words, place)
        spoken = sizes > 0
        if spoken.any():
            found[spoken] = np.add.reduceat(mixed, starts[spoken])
        return found

    def part(self, start: int, end: int) -> str:
        """The pieces from `start` to before `end`, with single blanks."""
        strings = self.known.pieces.known
        return " ".join([strings[piece] for piece in self.pieces[start:end].tolist()])

    def said(self, sentences: Numbers) -> list[str]:
        """The sentences, with single blanks."""
        sizes = np.diff(self.sentences)[sentences]
        ends = sizes.cumsum()
        places = np.repeat(self.sentences[sentences] - ends + sizes, sizes) + np.arange(sizes.sum())
        strings = list(map(self.known.pieces.known.__getitem__, self.pieces[places].tolist()))
        return [" ".join(strings[start:end]) for start, end in pairwise([0, *ends.tolist()])]


def mixture(numbers: Numbers, place: Numbers | int) -> NDArray[np.uint64]:
    """Of each number and its place what looks random; sums of it stand for sequences."""
    mixed = (numbers.astype(np.uint64) + _ONE) * _MIX
    mixed ^= mixed >> _HALF
    mixed *= np.asarray(place).astype(np.uint64) * _TWO + _MIX
    mixed ^= mixed >> _HALF
    return mixed


def distinct(keys: NDArray[K]) -> NDArray[K]:
    """The different keys, ascending."""
    keys = np.sort(keys)
    new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new]


def different(owners: Numbers, mixed: NDArray[np.uint64], count: int) -> Numbers:
    """Of each of `count` owners how many different ones of its `mixture`s it has."""
    keys = distinct(owners.astype(np.uint64) << _OWNER | mixed >> _SPACE)
    return np.bincount((keys >> _OWNER).astype(np.intp), minlength=count)


def joined(texts: Sequence[Text], known: Vocabulary | None = None) -> Joined:
    """The texts in their order, numbered by `known`; by default by the vocabulary in use."""
    return _joined(tuple(texts), known or vocabulary.current())


def member(own: Pairs, others: Pairs) -> NDArray[np.bool_]:
    """Of each (owner, number) of `own` whether it is among the `others`."""
    owners, numbers = own
    if not len(numbers):
        return np.zeros(0, np.bool_)
    # Only the numbers that are asked for have a column.
    column = np.zeros(1 + max(int(numbers.max()), int(others[1].max(initial=0))), np.intp)
    column[numbers] = 1
    asked = np.flatnonzero(column)
    column[asked] = np.arange(1, len(asked) + 1)
    width = len(asked) + 1
    cells, others_cells = owners * width + column[numbers], others[0] * width + column[others[1]]
    size = 1 + max(int(cells.max()), int(others_cells.max(initial=0)))
    if size > CELLS:
        return np.isin(cells, others_cells)
    held = np.zeros(size, np.bool_)
    held[others_cells] = True
    found: NDArray[np.bool_] = held[cells]
    return found


_joined = lru_cache(maxsize=REMEMBERED)(Joined)
