"""Fingerprints of texts by winnowing (Schleimer, Wilkerson and Aiken 2003).

Of every `WINDOW` runs of `GRAM` words in a row the one with the least hash is kept, so two texts
that share `SHARED` words in a row share a fingerprint, wherever the words stand in them, and about
one run in four is kept. Hashes are the same in every process and version.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from scorers.kept import Kept

GRAM = 6
WINDOW = 7
SHARED = GRAM + WINDOW - 1
"""Words in a row that surely share a fingerprint."""

Hashes = NDArray[np.uint64]

_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


class Fingerprints(NamedTuple):
    """The kept runs of a text, in its order."""

    hashes: Hashes
    places: NDArray[np.int64]
    """The number of each run's first word."""


def _hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest())


_HASHES = Kept(_hash)


def word_hashes(words: Iterable[str]) -> Hashes:
    """A hash for each word."""
    return np.fromiter(map(_HASHES.__getitem__, words), np.uint64)


def fingerprints(words: Hashes) -> Fingerprints:
    """Of a text of these words; none of one with fewer than `GRAM`."""
    count = len(words) - GRAM + 1
    if count <= 0:
        return Fingerprints(np.empty(0, np.uint64), np.empty(0, np.int64))
    grams = np.zeros(count, np.uint64)
    for offset in range(GRAM):
        grams = grams * _BASE + words[offset : offset + count]
    grams = (grams ^ (grams >> _HALF)) * _MIX
    grams ^= grams >> _HALF
    windows = sliding_window_view(grams, min(WINDOW, count))
    places = np.unique(windows.argmin(axis=1) + np.arange(len(windows)))
    return Fingerprints(grams[places], places)
