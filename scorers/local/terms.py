"""A text as a linear model over hashed words and word pairs sees it.

A word stands for itself and for its parts of four letters, so that misspelt and inflected forms are
known too. All models share one hashing; what each adds is a table of small weights. Each different
word has a number, and what is known of words stands in columns by that number, so that a whole text
is looked up in a few steps.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from scorers.kept import LIMIT, LONGEST, Kept
from scorers.text import Text

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

_MASK = WORDS - 1
_PAIR = 0x9E3779B1
_TERM = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[!?:<>\[\]{}#*\"/\\=|`]")


class Vocabulary:
    """Words by number, and columns of what functions of a word gave."""

    def __init__(self) -> None:
        self.words: list[str] = [""]
        self.pieces = Kept(self._numbered)
        """By piece in lower case the numbers of its terms."""
        self._numbers: dict[str, int] = {"": NO_WORD}
        self._columns: dict[Callable[[str], Any], array[Any]] = {}

    def column(self, function: Callable[[str], float], kind: str) -> NDArray[Any]:
        """`function` of every word, by number; `kind` is the type code of `array`.

        The values are a view: take from it and let it go.
        """
        found = self._columns.setdefault(function, array(kind))
        if len(found) < len(self.words):
            found.extend(map(function, self.words[len(found) :]))
        return np.frombuffer(found, kind)

    def _numbered(self, piece: str) -> tuple[int, ...]:
        return tuple([self._number(term[:LONGEST]) for term in _TERM.findall(piece)])

    def _number(self, word: str) -> int:
        number = self._numbers.setdefault(word, len(self.words))
        if number == len(self.words):
            self.words.append(word)
        return number


class Terms(NamedTuple):
    """The terms of a text, sentence after sentence; a sentence without one is left out."""

    vocabulary: Vocabulary
    """Which the numbers belong to."""
    words: NDArray[np.int32]
    """The numbers of the words; `NO_WORD` for one that stood before in its sentence."""
    pairs: NDArray[np.int32]
    """Of each word the place of the pair that it begins; `NOWHERE` at the end of a sentence, and
    for a pair that stood before in it."""
    starts: NDArray[np.intp]
    """Where each sentence begins."""
    sizes: NDArray[np.float32]
    """Different words and pairs of each sentence."""
    spans: list[tuple[int, int]]
    """The pieces of each sentence, as of `Text.spans`."""


def terms(text: Text) -> Terms | None:
    """The terms of the text; none when it has no words. Use it as `text.of(terms)`."""
    vocabulary = _vocabulary()
    found = list(map(vocabulary.pieces.__getitem__, [piece.low for piece in text.pieces]))
    words = np.fromiter(chain.from_iterable(found), np.int32)
    if not len(words):
        return None
    spans = text.spans
    if any(end - start > MOST for start, end in spans):
        spans = [
            (place, min(place + MOST, end))
            for start, end in spans
            for place in range(start, end, MOST)
        ]
    before = np.fromiter(map(len, found), np.intp, len(found)).cumsum()
    edges = np.zeros(len(spans) + 1, np.intp)
    edges[1:] = before[[end - 1 for _, end in spans]]
    starts, counts = edges[:-1], edges[1:] - edges[:-1]
    if not counts.all():
        kept = counts > 0
        spans = [span for span, keep in zip(spans, kept.tolist(), strict=True) if keep]
        starts, counts = starts[kept], counts[kept]
    pairs = vocabulary.column(_first, "i")[words]
    pairs[:-1] ^= vocabulary.column(_second, "i")[words[1:]]
    pairs[starts[1:] - 1] = NOWHERE
    pairs[-1] = NOWHERE
    sentence = np.repeat(np.arange(len(starts)), counts)
    words = _once(words, sentence, NO_WORD)
    pairs = _once(pairs, sentence, NOWHERE)
    present = (words != NO_WORD).astype(np.float32)
    present += pairs != NOWHERE
    return Terms(vocabulary, words, pairs, starts, np.add.reduceat(present, starts), spans)


def _once(values: NDArray[np.int32], sentence: NDArray[np.intp], instead: int) -> NDArray[np.int32]:
    """The values, with `instead` for those that stood before in the same sentence."""
    keys = sentence << 32 | values
    order = keys.argsort(kind="stable")
    keys = keys[order]
    found = values.copy()
    found[order[1:][keys[1:] == keys[:-1]]] = instead
    return found


@lru_cache(maxsize=4096)
def word_places(word: str) -> tuple[int, tuple[int, ...]]:
    """The place of the word itself and those of its parts; a short word has no parts."""
    if len(word) < PART:
        return _hash(word) & _MASK, ()
    framed = f"<{word}>"
    parts = (crc32(f"#{framed[i : i + PART]}".encode()) for i in range(len(framed) - PART + 1))
    return _hash(word) & _MASK, tuple((part & _MASK) + WORDS for part in parts)


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


_current = Vocabulary()


def _vocabulary() -> Vocabulary:
    """The one in use; a new one when it is full. Texts that have the old one keep it."""
    global _current
    if len(_current.words) >= LIMIT:
        _current = Vocabulary()
    return _current
