"""A text as a linear model over hashed words and word pairs sees it.

A word stands for itself and for its parts of four letters, so that misspelt and inflected forms are
known too. All models share one hashing; what each adds is a table of small weights.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

from scorers.text import normal

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
    found = _TERM.findall(normal(sentence).lower().replace("’", "'"))[:LONGEST]
    words = tuple(dict.fromkeys(found))
    pairs = tuple({_pair(one, other) for one, other in pairwise(map(_hash, found))})
    return Terms(words, pairs, len(words) + len(pairs))


def word_places(word: str) -> tuple[int, tuple[int, ...]]:
    """The place of the word itself and those of its parts; a short word has no parts."""
    if len(word) < PART:
        return _hash(word) & _MASK, ()
    framed = f"<{word}>"
    parts = (crc32(f"#{framed[i : i + PART]}".encode()) for i in range(len(framed) - PART + 1))
    return _hash(word) & _MASK, tuple((part & _MASK) + WORDS for part in parts)


@lru_cache(maxsize=50_000)
def _hash(word: str) -> int:
    return crc32(word.encode())


def _pair(first: int, second: int) -> int:
    mixed = (first * _PAIR ^ second) & 0xFFFFFFFF
    return ((mixed >> 7 ^ mixed) & _MASK) + WORDS
