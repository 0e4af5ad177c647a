"""A text as all engines see it: `prepared` reads it once, and each engine takes what it needs.

What is not asked for is not made. The texts read last are remembered, because all engines of a turn
read the same ones and retrieved documents come again and again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, compress, pairwise
from typing import Any, Generic, TypeVar

from scorers.pieces import PIECES, Piece, lowered, normal, stems_of

REMEMBERED = 2_000_000
"""Characters of the texts that are remembered, together."""

_STOP = re.compile("([。！？｡।])")
"""Ends a sentence without a blank after it."""

V = TypeVar("V")


class _Made(Generic[V]):
    """An attribute that is made when it is first read."""

    def __init__(self, make: Callable[[Any], V]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, text: Text, owner: type) -> V:
        made = text.__dict__[self._name] = self._make(text)
        return made


class Text:
    """One text. Nothing of it changes."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.pieces: list[Piece]
        """What stands between blanks, in order."""
        self._lines: list[int] = []
        """Where lines end, as numbers of pieces."""
        self.results: dict[Callable[..., Any], Any] = {}
        """What functions made of the text, as long as it is remembered."""
        cut = raw if raw.isascii() else _STOP.sub("\\1\n", raw)
        if "\n" not in cut:
            self.pieces = list(map(PIECES.__getitem__, cut.split()))
            return
        self.pieces = []
        for line in cut.split("\n"):
            self.pieces += map(PIECES.__getitem__, line.split())
            self._lines.append(len(self.pieces))

    def of(self, function: Callable[[Text], V]) -> V:
        """`function(self)`, a pure function, kept as long as the text is remembered."""
        if function not in self.results:
            self.results[function] = function(self)
        return self.results[function]  # type: ignore[no-any-return]

    @_Made
    def low(self) -> str:
        """The text in lower case, compatibility forms folded, with plain apostrophes."""
        return lowered(self.raw)

    @_Made
    def words(self) -> tuple[str, ...]:
        """The words in lower case; single letters where the script has no spaces.

        Where there is no word at all, the symbols stand for words: two equal emoji are equal.
        """
        found = tuple(chain.from_iterable([piece.words for piece in self.pieces]))
        return found or tuple(c for c in self.low if unicodedata.category(c)[0] == "S")

    @_Made
    def word_set(self) -> frozenset[str]:
        """The different `words`."""
        return frozenset(self.words)

    @_Made
    def content(self) -> tuple[str, ...]:
        """The stems of the words that carry meaning, in order: no English function words."""
        found = tuple(chain.from_iterable([piece.stems for piece in self.pieces]))
        return found or stems_of(self.words)

    @_Made
    def before(self) -> list[int]:
        """Of each piece how many stems of `content` stand before it; last, how many there are."""
        return [0, *accumulate([piece.count for piece in self.pieces])]

    @_Made
    def content_set(self) -> frozenset[str]:
        """The different stems of `content`."""
        return frozenset(self.content)

    @_Made
    def spans(self) -> list[tuple[int, int]]:
        """Of each sentence or line the number of its first piece and of the one after its last."""
        count = len(self.pieces)
        ends = [*compress(range(1, count + 1), [piece.ends for piece in self.pieces]), count]
        if self._lines:
            ends += self._lines
            ends.sort()
        return [(start, end) for start, end in pairwise([0, *ends]) if start < end]

    @_Made
    def sentences(self) -> tuple[str, ...]:
        """The sentences and lines, each with single blanks, none empty."""
        return tuple([self.sentence(*span) for span in self.spans])

    def words_of(self, start: int, end: int) -> tuple[str, ...]:
        """The words of the pieces from `start` to before `end`."""
        return tuple(chain.from_iterable([piece.words for piece in self.pieces[start:end]]))

    def sentence(self, start: int, end: int) -> str:
        """The pieces from `start` to before `end`, with single blanks."""
        return " ".join([piece.text for piece in self.pieces[start:end]])

    @_Made
    def latin_share(self) -> float:
        """The share of Latin letters among the letters, 0 to 1; 1 when there are none."""
        if self.raw.isascii():
            return 1.0
        letters = [character for character in normal(self.raw) if character.isalpha()]
        latin = sum(c < "\u0250" or "\u1e00" <= c < "\u1f00" for c in letters)
        return latin / len(letters) if letters else 1.0


class _Texts(dict[str, Text]):
    """The texts read last, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self._size = 0

    def __call__(self, raw: str) -> Text:
        found = self.pop(raw, None)
        if found is None:
            found = Text(raw)
            self._size += len(raw)
            while self._size > REMEMBERED and self:
                oldest = next(iter(self))
                self._size -= len(oldest)
                del self[oldest]
        self[raw] = found
        return found

    def forget(self) -> None:
        """Remember nothing."""
        self.clear()
        self._size = 0


prepared = _Texts()
"""`prepared(raw)` is the Text of `raw`."""


def of_each(texts: Sequence[Text], function: Callable[[Sequence[Text]], Sequence[V]]) -> list[V]:
    """`function(texts)`, a pure function with a result a text, kept as those of `Text.of` are.

    It is called once, with those of the texts that it was not called with before.
    """
    new = list(dict.fromkeys(text for text in texts if function not in text.results))
    if new:
        for text, result in zip(new, function(new), strict=True):
            text.results[function] = result
    return [text.results[function] for text in texts]


def words(raw: str) -> tuple[str, ...]:
    """`Text.words` of `raw`."""
    return prepared(raw).words


def word_set(raw: str) -> frozenset[str]:
    """`Text.word_set` of `raw`."""
    return prepared(raw).word_set


def sentences(raw: str) -> tuple[str, ...]:
    """`Text.sentences` of `raw`."""
    return prepared(raw).sentences


def content(raw: str) -> tuple[str, ...]:
    """`Text.content` of `raw`."""
    return prepared(raw).content


def content_set(raw: str) -> frozenset[str]:
    """`Text.content_set` of `raw`."""
    return prepared(raw).content_set


def latin_share(raw: str) -> float:
    """`Text.latin_share` of `raw`."""
    return prepared(raw).latin_share
