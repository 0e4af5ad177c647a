"""A text as a linear model over hashed words and word pairs sees it.

A word stands for itself and for its parts of four letters, so that misspelt and inflected forms are
known too. All models share one hashing; what each adds is a table of small weights.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from scorers.joined import Joined
from scorers.kept import LONGEST
from scorers.pieces import lowered
from scorers.vocabulary import Strings

WORDS = 1 << 17
"""Places of whole words; those of pairs and parts follow, so that they never share one."""
SIZE = 2 * WORDS
NOWHERE = SIZE
"""The place of no pair: its weight is 0."""
NO_WORD = 0
"""The number of the empty word, which weighs nothing."""
PARTS_WEIGHT = 0.5
PART = 4
MOST = 64
"""Pieces of a sentence; a longer one is cut, so that a text without stops has parts too."""

N = TypeVar("N", np.intp, np.int32)

_MASK = WORDS - 1
_PAIR = 0x9E3779B1
_APART = crc32(b"#")
"""Sets the hashes of parts apart from those of words."""
_TERM = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[!?:<>\[\]{}#*\"/\\=|`]")


class Terms(NamedTuple):
    """The terms of texts, part after part: a part is a sentence or a piece of a long one, and one
    without a term is left out."""

    vocabulary: Strings
    """Which the numbers belong to."""
    words: NDArray[np.intp]
    """The numbers of the words; `NO_WORD` for one that stood before in its part."""
    pairs: NDArray[np.int32]
    """Of each word the place of the pair that it begins; `NOWHERE` at the end of a part, and for a
    pair that stood before in it."""
    starts: NDArray[np.intp]
    """Where each part begins."""
    sizes: NDArray[np.float32]
    """Different words and pairs of each part."""
    spans: NDArray[np.intp]
    """Of each part its first piece and the one after its last, as of `Joined.part`."""
    bounds: NDArray[np.intp]
    """Bounds of the texts among the parts."""

    @property
    def owner(self) -> NDArray[np.intp]:
        """Of each part its text."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    @property
    def nth(self) -> NDArray[np.intp]:
        """Of each part which one of its text it is, from 0."""
        return np.arange(len(self.starts)) - self.bounds[:-1][self.owner]


def joined_terms(texts: Joined) -> Terms:
    """The terms of several texts. Use it as `texts.of(joined_terms)`."""
    known = texts.known.words
    words, pieces = texts.known.pieces.rows(_terms_of, known).of(texts.pieces)
    edges = texts.sentences
    lengths = np.diff(edges)
    if (lengths > MOST).any():
        cuts = -(-lengths // MOST)
        nth = np.arange(cuts.sum()) - np.repeat(cuts.cumsum() - cuts, cuts)
        edges = np.append(np.repeat(edges[:-1], cuts) + nth * MOST, edges[-1])
    places = np.searchsorted(pieces, edges)
    counts = np.diff(places)
    kept = np.flatnonzero(counts)
    starts, counts, first, last = places[kept], counts[kept], edges[kept], edges[kept + 1]
    pairs = known.column(_first, np.int32)[words]
    pairs[:-1] ^= known.column(_second, np.int32)[words[1:]]
    pairs[starts[1:] - 1] = NOWHERE
    pairs[-1:] = NOWHERE
    part = np.repeat(np.arange(len(starts)), counts)
    words = _once(words, part, NO_WORD)
    pairs = _once(pairs, part, NOWHERE)
    present = (words != NO_WORD).astype(np.float32)
    present += pairs != NOWHERE
    sizes = np.add.reduceat(present, starts) if len(starts) else present
    spans = np.stack([first, last], 1)
    bounds = np.searchsorted(first, texts.bounds)
    return Terms(known, words, pairs, starts, sizes, spans, bounds)


def _terms_of(piece: str) -> list[str]:
    return [term[:LONGEST] for term in _TERM.findall(lowered(piece))]


def _once(values: NDArray[N], part: NDArray[np.intp], instead: int) -> NDArray[N]:
    """The values, with `instead` for those that stood before in the same part."""
    # The value above its place: equal values follow one another in the order of their places.
    keys = values.astype(np.int64) << 32 | np.arange(len(values))
    keys.sort()
    places = keys & 0xFFFFFFFF
    parts = part[places]
    again = (keys[1:] >> 32 == keys[:-1] >> 32) & (parts[1:] == parts[:-1])
    found = values.copy()
    found[places[1:][again]] = instead
    return found


@lru_cache(maxsize=4096)
def word_places(word: str) -> tuple[int, tuple[int, ...]]:
    """The place of the word itself and those of its parts; a short word has no parts."""
    if len(word) < PART:
        return _hash(word) & _MASK, ()
    framed = f"<{word}>"
    grams = [framed[start : start + PART].encode() for start in range(len(framed) - PART + 1)]
    return _hash(word) & _MASK, tuple([(crc32(gram, _APART) & _MASK) + WORDS for gram in grams])


def pair_place(first: str, second: str) -> int:
    """The place of a pair of words."""
    return _first(first) ^ _second(second)


def _hash(word: str) -> int:
    return crc32(word.encode())


def _folded(number: int) -> int:
    return (number >> 7 ^ number) & _MASK


# The place of a pair is (first * _PAIR ^ second), folded. Folding is linear over exclusive or, so
# each word's part of it is kept, and a pair costs one exclusive or.
def _first(word: str) -> int:
    return _folded(_hash(word) * _PAIR & 0xFFFFFFFF)


def _second(word: str) -> int:
    return _folded(_hash(word)) + WORDS
