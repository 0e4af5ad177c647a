"""Strings by number, and what functions of a string gave, in columns by that number.

A text is then an array of numbers, and a fact about its words is one look-up for all of them. A
string that was seen before costs a dictionary look-up; a function is asked once for each string.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scorers.pieces import stem_of, words_of

Numbers = NDArray[np.intp]

LIMIT = 60_000
"""Strings of each kind beyond which a new vocabulary is begun."""
SIZE = 4_000_000
"""Characters of them all beyond which one is begun."""


class _Column:
    """An array that grows."""

    __slots__ = ("filled", "values")

    def __init__(self, kind: DTypeLike) -> None:
        self.values: NDArray[Any] = np.empty(1024, kind)
        self.filled = 0

    def extend(self, more: Iterable[Any], count: int) -> None:
        end = self.filled + count
        if end > len(self.values):
            grown = np.empty(max(end, 2 * len(self.values)), self.values.dtype)
            grown[: self.filled] = self.values[: self.filled]
            self.values = grown
        self.values[self.filled : end] = np.fromiter(more, self.values.dtype, count)
        self.filled = end


class Rows(NamedTuple):
    """Of each string the numbers of several others."""

    starts: Numbers
    counts: Numbers
    values: Numbers

    def of(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """What the strings have, in order; and of each the position in `numbers` that it is of."""
        counts = self.counts[numbers]
        owners = np.repeat(np.arange(len(numbers)), counts)
        shift = self.starts[numbers] - (counts.cumsum() - counts)
        return self.values[shift[owners] + np.arange(len(owners))], owners


class Strings(dict[str, int]):
    """The number of each string: `strings[string]` gives one to a new string, from 1; 0 is "".

    What `column`, `numbers` and `rows` give is by number. Their functions are pure.
    """

    __slots__ = ("_columns", "_lock", "known", "size")

    def __init__(self) -> None:
        super().__init__({"": 0})
        self.known = [""]
        """The strings by number."""
        self.size = 0
        """Characters of them all."""
        self._columns: dict[Callable[[str], Any], list[_Column]] = {}
        self._lock = threading.RLock()

    def __missing__(self, string: str) -> int:
        with self._lock:
            number = self.setdefault(string, len(self.known))
            if number == len(self.known):
                self.known.append(string)
                self.size += len(string)
            return number

    def column(self, function: Callable[[str], Any], kind: DTypeLike) -> NDArray[Any]:
        """`function` of each string."""
        (column,) = self._columns.get(function) or self._begun(function, kind)
        if column.filled < len(self.known):
            with self._lock:
                new = self.known[column.filled :]
                column.extend(map(function, new), len(new))
        return column.values

    def numbers(self, function: Callable[[str], str], strings: Strings) -> Numbers:
        """The number in `strings` of the one that `function` makes of each."""

        def number(string: str) -> int:
            return strings[function(string)]

        (column,) = self._columns.get(function) or self._begun(function, np.intp)
        if column.filled < len(self.known):
            with self._lock:
                new = self.known[column.filled :]
                column.extend(map(number, new), len(new))
        return column.values

    def rows(self, function: Callable[[str], Iterable[str]], strings: Strings) -> Rows:
        """The numbers in `strings` of those that `function` makes of each."""
        kinds = (np.intp, np.intp, np.intp)
        starts, counts, values = self._columns.get(function) or self._begun(function, *kinds)
        if counts.filled < len(self.known):
            with self._lock:
                new = self.known[counts.filled :]
                made = [[strings[each] for each in function(string)] for string in new]
                ends = list(accumulate(map(len, made), initial=values.filled))
                values.extend(chain.from_iterable(made), ends[-1] - ends[0])
                starts.extend(ends[:-1], len(new))
                counts.extend(map(len, made), len(new))
        return Rows(starts.values, counts.values, values.values)

    def _begun(self, function: Callable[[str], Any], *kinds: DTypeLike) -> list[_Column]:
        with self._lock:
            return self._columns.setdefault(function, [_Column(kind) for kind in kinds])


class Vocabulary:
    """The strings of some texts."""

    def __init__(self) -> None:
        self.pieces = Strings()
        """What stands between blanks."""
        self.words = Strings()
        """What pieces consist of."""
        self.stems = Strings()
        """What is the same for the forms of a word."""

    @property
    def full(self) -> bool:
        return (
            max(len(self.pieces), len(self.words)) > LIMIT
            or self.pieces.size + self.words.size > SIZE
        )

    def words_of(self, pieces: Numbers) -> tuple[Numbers, Numbers]:
        """The words of pieces, and of each word the position of its piece."""
        return self.pieces.rows(words_of, self.words).of(pieces)

    def stems_of(self, words: Numbers, owners: Numbers) -> tuple[Numbers, Numbers]:
        """The stems of those words that carry meaning, and their owners."""
        stems = self.words.numbers(stem_of, self.stems)[words]
        kept = np.flatnonzero(stems)
        return stems[kept], owners[kept]


_current = Vocabulary()


def current() -> Vocabulary:
    """The vocabulary in use."""
    return _current


def renewed() -> Vocabulary:
    """The vocabulary in use, a new one when that is full. What has the old one may keep it."""
    global _current
    if _current.full:
        _current = Vocabulary()
    return _current
