"""A text as a linear model over hashed words and word pairs sees it.

A word stands for itself and for its parts of four letters, so that misspelt and inflected forms are
known too. All models share one hashing; what each adds is a table of small weights.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from operator import xor
from typing import NamedTuple
from zlib import crc32

from scorers.kept import Kept
from scorers.pieces import lowered

WORDS = 1 << 17
"""Places of whole words; those of pairs and parts follow, so that they never share one."""
SIZE = 2 * WORDS
PARTS_WEIGHT = 0.5
PART = 4
LONGEST = 400
"""Terms of a sentence that are looked at."""

_MASK = WORDS - 1
_PAIR = 0x9E3779B1
_TERM = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[!?:<>\[\]{}#*\"/\\=|`]")


class Terms(NamedTuple):
    """The different words of a sentence and the places of its different word pairs."""

    words: tuple[str, ...]
    pairs: tuple[int, ...]
    size: int
    """How many both are."""


def terms(sentence: str) -> Terms:
    """The terms of `sentence`; words in the order of their first occurrence."""
    pieces = lowered(sentence).split()
    found = list(chain.from_iterable(map(_TERMS.__getitem__, pieces)))
    del found[LONGEST:]
    words = tuple(dict.fromkeys(found))
    firsts = map(_FIRST.__getitem__, found)
    seconds = map(_SECOND.__getitem__, islice(found, 1, None))
    pairs = tuple(set(map(xor, firsts, seconds)))
    return Terms(words, pairs, len(words) + len(pairs))


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


_TERMS = Kept(lambda piece: tuple(_TERM.findall(piece)))
# The place of a pair is (first * _PAIR ^ second), folded. Folding is linear over exclusive or, so
# each word's part of it is kept, and a pair costs one exclusive or.
_FIRST = Kept(lambda word: _folded(_hash(word) * _PAIR & 0xFFFFFFFF))
_SECOND = Kept(lambda word: _folded(_hash(word)) + WORDS)
