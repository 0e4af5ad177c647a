"""A part of a corpus on disk: its words as hashes, and where each fingerprint stands in it.

    words       4 bytes a word: the low half of its hash; 0 between two documents
    hashes      8 bytes a fingerprint, sorted
    places      4 bytes a fingerprint: the number of its first word
    starts      4 bytes a document: the number of its first word
    names       a line a document

Files are mapped, not read: a look-up touches a few pages of them, whatever their size. The text
itself is not kept.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorers.corpora.winnowing import Fingerprints, Hashes, fingerprints

MOST_WORDS = 8_000_000
"""Words of a segment: what building one takes in memory is bounded by it."""
MOST_PLACES = 16
"""Places of one fingerprint that are looked at."""
DIFFERS = 3
"""Words in agreement that one word of difference costs: a repetition goes on over a changed word,
and ends where more than about one in four is another."""
_LOW = np.uint64(0xFFFFFFFF)
_FILES = ("words", "hashes", "places", "starts", "names")


class Repetition(NamedTuple):
    """A stretch of a text that a document has too."""

    document: str
    words: int
    """Words of the stretch that are the same."""
    start: int
    end: int
    """The stretch in the text: its first word, and the one after its last."""


class Builder:
    """Collects documents, then writes them as a segment."""

    def __init__(self) -> None:
        self._words: list[NDArray[np.uint32]] = []
        self._found: list[Fingerprints] = []
        self._starts: list[int] = []
        self._names: list[str] = []
        self.words = 0

    def add(self, name: str, words: Hashes) -> None:
        """Add a document, or a part of one."""
        self._starts.append(self.words)
        self._names.append(" ".join(name.split()) or "unnamed")
        found = fingerprints(words)
        self._found.append(Fingerprints(found.hashes, found.places + self.words))
        self._words += [_low(words), np.zeros(1, np.uint32)]
        self.words += len(words) + 1

    def write(self, folder: Path) -> None:
        """Write the segment into `folder`, which is made."""
        folder.mkdir()
        hashes = np.concatenate([found.hashes for found in self._found])
        places = np.concatenate([found.places for found in self._found]).astype(np.uint32)
        order = np.argsort(hashes, kind="stable")
        hashes[order].tofile(folder / "hashes")
        places[order].tofile(folder / "places")
        np.concatenate(self._words).tofile(folder / "words")
        np.array(self._starts, np.uint32).tofile(folder / "starts")
        (folder / "names").write_text("\n".join(self._names), encoding="utf-8")


def delete(folder: Path) -> None:
    """Remove a segment; one that is mapped can still be read by who has it."""
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


class Segment:
    """A segment, for looking up."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError or ValueError when it is not there, or not whole."""
        self._names = folder / "names"
        self._words = _mapped(folder / "words", np.uint32)
        self._hashes = _mapped(folder / "hashes", np.uint64)
        self._places = _mapped(folder / "places", np.uint32)
        self._starts = _mapped(folder / "starts", np.uint32)
        if len(self._hashes) != len(self._places):
            raise ValueError(f"{folder} is not whole")

    def longest(self, words: Hashes, found: Fingerprints) -> Repetition | None:
        """The stretch of a text with the most words that a document has in the same order."""
        if not len(self._hashes):
            return None
        low = _low(words)
        best: tuple[int, int, int, int] | None = None
        seen: set[int] = set()
        firsts = np.searchsorted(self._hashes, found.hashes)
        inside = np.minimum(firsts, len(self._hashes) - 1)
        for index in np.flatnonzero(self._hashes[inside] == found.hashes):
            first, own = int(firsts[index]), int(found.places[index])
            end = int(np.searchsorted(self._hashes, found.hashes[index], side="right"))
            for place in self._places[first : min(end, first + MOST_PLACES)].tolist():
                if place - own in seen:
                    continue
                seen.add(place - own)
                stretch = self._stretch(low, place - own, own)
                if best is None or stretch[0] > best[0]:
                    best = stretch
        if best is None:
            return None
        agreed, start, end, place = best
        document = int(np.searchsorted(self._starts, place, side="right")) - 1
        return Repetition(self._name(document), agreed, start, end)

    def _stretch(self, low: NDArray[np.uint32], shift: int, own: int) -> tuple[int, int, int, int]:
        """The best stretch around the word `own` of the text where it is laid over the words from
        `shift` on: how many words agree, where it starts and ends, and where that is here."""
        begin, stop = max(0, -shift), min(len(low), len(self._words) - shift)
        agree = low[begin:stop] == self._words[begin + shift : stop + shift]
        gains = np.where(agree, 1, -DIFFERS)
        middle = own - begin
        after = np.cumsum(gains[middle:])
        before = np.cumsum(gains[:middle][::-1])
        end = middle + int(np.argmax(after)) + 1
        start = middle
        if len(before) and before.max() > 0:
            start = middle - int(np.argmax(before)) - 1
        return int(agree[start:end].sum()), begin + start, begin + end, begin + start + shift

    def _name(self, document: int) -> str:
        with self._names.open(encoding="utf-8") as lines:
            return next(islice(lines, document, None), "").rstrip("\n")


def _low(words: Hashes) -> NDArray[np.uint32]:
    low = (words & _LOW).astype(np.uint32)
    return np.maximum(low, np.uint32(1))


def _mapped(path: Path, kind: type[np.generic]) -> NDArray[np.generic]:
    if path.stat().st_size == 0:
        return np.empty(0, kind)
    # As a plain array: every slice of a memmap object costs microseconds.
    return np.memmap(path, kind, mode="r").view(np.ndarray)
