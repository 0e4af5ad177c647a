"""A text as all engines see it: `prepared` reads it once, and each engine takes what it needs.

What is not asked for is not made. The texts read last are remembered, because all engines of a turn
read the same ones and retrieved documents come again and again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from scorers import vocabulary
from scorers.pieces import ends, lowered, normal, stems_of
from scorers.vocabulary import Numbers, Vocabulary

REMEMBERED = 2_000_000
"""Characters of the texts that are remembered, together."""

_STOP = re.compile("([。！？｡।])")
"""Ends a sentence without a blank after it."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())

V = TypeVar("V")


class Made(Generic[V]):
    """An attribute that is made when it is first read."""

    def __init__(self, make: Callable[[Any], V]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, having: object, owner: type) -> V:
        made = having.__dict__[self._name] = self._make(having)
        return made


class Text:
    """One text. Nothing of it changes."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.lines: list[int] = []
        """Where lines end, as numbers of pieces."""
        self.results: dict[Callable[..., Any], Any] = {}
        """What functions made of the text, as long as it is remembered."""
        cut = self._cut()
        if "\n" in cut:
            self.lines = list(accumulate([len(line.split()) for line in cut.split("\n")]))
        known = vocabulary.renewed()
        self._numbered = known, self._numbers(known)

    def of(self, function: Callable[[Text], V]) -> V:
        """`function(self)`, a pure function, kept as long as the text is remembered."""
        if function not in self.results:
            self.results[function] = function(self)
        return self.results[function]  # type: ignore[no-any-return]

    def pieces(self, known: Vocabulary) -> Numbers:
        """What stands between blanks, in order, by its number in `known`."""
        own, numbers = self._numbered
        if own is not known:
            numbers = self._numbers(known)
            self._numbered = known, numbers
        return numbers

    def _cut(self) -> str:
        return self.raw if self.raw.isascii() else _STOP.sub("\\1\n", self.raw)

    def _numbers(self, known: Vocabulary) -> Numbers:
        pieces = self._cut().split()
        return np.fromiter(map(known.pieces.__getitem__, pieces), np.intp, len(pieces))

    @Made
    def low(self) -> str:
        """The text in lower case, compatibility forms folded, with plain apostrophes."""
        return lowered(self.raw)

    @Made
    def words(self) -> tuple[str, ...]:
        """The words in lower case; single letters where the script has no spaces.

        Where there is no word at all, the symbols stand for words: two equal emoji are equal.
        """
        known, pieces = self._numbered
        strings = known.words.known
        found = tuple([strings[word] for word in known.words_of(pieces)[0].tolist()])
        return found or tuple(c for c in self.low if unicodedata.category(c)[0] == "S")

    @Made
    def word_set(self) -> frozenset[str]:
        """The different `words`."""
        return frozenset(self.words)

    @Made
    def content(self) -> tuple[str, ...]:
        """The stems of the words that carry meaning, in order: no English function words."""
        return stems_of(self.words)

    @Made
    def content_set(self) -> frozenset[str]:
        """The different stems of `content`."""
        return frozenset(self.content)

    @Made
    def spans(self) -> list[tuple[int, int]]:
        """Of each sentence or line the place of its first piece and of the one after its last."""
        known, pieces = self._numbered
        last = np.flatnonzero(stops(known, pieces, self.lines)) + 1
        return list(pairwise([0, *last.tolist()]))

    @Made
    def sentences(self) -> tuple[str, ...]:
        """The sentences and lines, each with single blanks, none empty."""
        return tuple([self.sentence(*span) for span in self.spans])

    def sentence(self, start: int, end: int) -> str:
        """The pieces from `start` to before `end`, with single blanks."""
        known, pieces = self._numbered
        strings = known.pieces.known
        return " ".join([strings[piece] for piece in pieces[start:end].tolist()])

    @Made
    def latin_share(self) -> float:
        """The share of Latin letters among the letters, 0 to 1; 1 when there are none."""
        if self.raw.isascii():
            return 1.0
        folded = normal(self.raw)
        others = [c for part in _NOT_ASCII.findall(folded) for c in part if c.isalpha()]
        plain = len(folded.encode("ascii", "ignore").translate(None, _NO_LETTERS))
        latin = plain + sum(c < "\u0250" or "\u1e00" <= c < "\u1f00" for c in others)
        return latin / (plain + len(others)) if plain + len(others) else 1.0


def stops(known: Vocabulary, pieces: Numbers, lines: Sequence[int] | Numbers) -> NDArray[np.bool_]:
    """Of each piece whether a sentence or a line, of which some end after `lines`, ends with it."""
    last = known.pieces.column(ends, np.bool_)[pieces]
    last[-1:] = True
    if len(lines):
        after = np.asarray(lines)
        last[after[after > 0] - 1] = True
    return last


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
