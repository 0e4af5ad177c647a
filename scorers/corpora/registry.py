"""The registered corpora of a data folder: adding, listing, removing, and looking up in all.

A folder holds `corpora.json`, the list, and a folder for each segment. The list is replaced as a
whole once the segments are there, so a reader sees a corpus wholly or not at all.
"""

from __future__ import annotations

import fcntl
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from assay.errors import Permanent
from scorers.corpora.segment import MOST_WORDS, Builder, Repetition, Segment, delete
from scorers.corpora.winnowing import Hashes, fingerprints, word_hashes
from scorers.text import Text

FOLDER = "corpora"
"""Of the data folder."""
_LIST = "corpora.json"
PART = 1_000_000
"""Words of a document that are looked at together."""
OVERLAP = 1000
"""Words with which a part begins where the one before ends."""
RECHECK = 5.0
"""Seconds after which a change of the list is seen."""


class Corpus(msgspec.Struct, frozen=True):
    """A registered corpus."""

    name: str
    added_at: int
    """Seconds since the Unix epoch."""
    documents: int
    words: int
    segments: tuple[str, ...]


class Match(NamedTuple):
    """What of a text repeats a registered one."""

    corpus: str
    repetition: Repetition


def corpora(folder: Path) -> list[Corpus]:
    """What is registered, oldest first; nothing where the folder is not there."""
    try:
        return msgspec.json.decode((folder / _LIST).read_bytes(), type=list[Corpus])
    except FileNotFoundError:
        return []


def add(folder: Path, name: str, documents: Iterable[tuple[str, Iterable[str]]]) -> Corpus:
    """Register `documents`, each a name and its text in pieces that end between words.

    Raises Permanent when the name is taken, or there is no word.
    """
    folder.mkdir(parents=True, exist_ok=True)
    segments: list[str] = []
    with _alone(folder):
        if any(corpus.name == name for corpus in corpora(folder)):
            raise Permanent(f"a corpus {name!r} is registered: remove it first")
        try:
            count, words = _write(folder, documents, segments)
            if not words:
                raise Permanent("there is no word in it")
            added = Corpus(name, int(time.time()), count, words, tuple(segments))
            _replace(folder, [*corpora(folder), added])
        except BaseException:
            for segment in segments:
                delete(folder / segment)
            raise
    return added


def remove(folder: Path, name: str) -> Corpus:
    """Forget a corpus. Raises Permanent when there is none of the name."""
    if not folder.exists():
        raise Permanent(f"no corpus {name!r} is registered")
    with _alone(folder):
        known = corpora(folder)
        gone = [corpus for corpus in known if corpus.name == name]
        if not gone:
            raise Permanent(f"no corpus {name!r} is registered")
        _replace(folder, [corpus for corpus in known if corpus.name != name])
        for segment in gone[0].segments:
            delete(folder / segment)
    return gone[0]


class Lookup:
    """All corpora of a folder as they are registered at the moment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state: tuple[int, int] | None = None
        self._segments: list[tuple[str, Segment]] = []
        self._due = 0.0

    def __bool__(self) -> bool:
        """Whether anything is registered. Raises OSError when the index cannot be read."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + RECHECK
            self._reload()
        return bool(self._segments)

    def longest(self, text: Text) -> Match | None:
        """The longest repetition of a registered text; none where nothing of `SHARED` words in a
        row is the same."""
        words = word_hashes(text.words)
        found = fingerprints(words)
        best: Match | None = None
        for corpus, segment in self._segments:
            repetition = segment.longest(words, found)
            if repetition and (best is None or repetition.words > best.repetition.words):
                best = Match(corpus, repetition)
        return best

    def _reload(self) -> None:
        try:
            status = (self._folder / _LIST).stat()
        except FileNotFoundError:
            self._state, self._segments = None, []
            return
        state = status.st_mtime_ns, status.st_ino
        if state != self._state:
            known = corpora(self._folder)
            self._segments = [
                (corpus.name, Segment(self._folder / segment))
                for corpus in known
                for segment in corpus.segments
            ]
            self._state = state


def _write(
    folder: Path, documents: Iterable[tuple[str, Iterable[str]]], segments: list[str]
) -> tuple[int, int]:
    """Write the documents as segments, whose names are put into `segments` as they are made."""
    builder = Builder()
    count = words = 0

    def flush() -> None:
        nonlocal builder
        name = secrets.token_hex(8)
        builder.write(folder / name)
        segments.append(name)
        builder = Builder()

    for name, pieces in documents:
        count += 1
        for part, fresh in _parts(pieces):
            builder.add(name, part)
            words += fresh
            if builder.words >= MOST_WORDS:
                flush()
    if builder.words:
        flush()
    return count, words


def _parts(pieces: Iterable[str]) -> Iterator[tuple[Hashes, int]]:
    """The words of a document in parts, and how many of each are not of the part before: parts
    overlap, so that what stands across a border is found."""
    held, kept = np.empty(0, np.uint64), 0
    for piece in pieces:
        held = np.concatenate((held, word_hashes(Text(piece).words)))
        while len(held) >= PART:
            yield held[:PART], PART - kept
            held, kept = held[PART - OVERLAP :], OVERLAP
    if len(held) > kept:
        yield held, len(held) - kept


def _replace(folder: Path, known: list[Corpus]) -> None:
    new = folder / f"{_LIST}.new"
    new.write_bytes(msgspec.json.encode(known))
    new.replace(folder / _LIST)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """As the only one who changes the folder."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
