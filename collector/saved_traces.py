"""Open traces kept in the partition's state, so that the records they came in can be done.

A bus remembers what is done only so far beyond the first record that is not. A trace that stays
open while very many records pass would stop the partition: it is saved, and its records let go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from assay.bus.contract import Record
from assay.bus.topics import SPANS
from collector.grouping import Fragment, Piece, by_trace, join

PREFIX = "open/"


class _Saved(msgspec.Struct, array_like=True):
    """One save of a trace: what had come since the one before."""

    cut: bool
    """Items were left out at a bound."""
    pieces: list[tuple[int, bool, bytes]]
    """When it came, whether it holds log records, and the export request."""


class Restored(NamedTuple):
    """A trace as it was saved."""

    trace_id: bytes
    saves: int
    """How many values of the state hold it."""
    cut: bool
    pieces: list[tuple[int, bool, Fragment]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Saved).decode


def key(trace_id: bytes, save: int) -> str:
    """Where the trace's `save`-th save is kept."""
    return f"{PREFIX}{trace_id.hex()}/{save:06d}"


def encode(pieces: list[Piece], cut: bool) -> bytes:
    """The value of one save."""
    return _encode(_Saved(cut, [(piece.now, piece.logs, join([piece])) for piece in pieces]))


def restore(state: Mapping[str, bytes]) -> Iterator[Restored]:
    """The saved traces, those that began first in front."""
    values: dict[str, list[_Saved]] = {}
    for name in sorted(name for name in state if name.startswith(PREFIX)):
        values.setdefault(name.split("/")[1], []).append(_decode(state[name]))
    for trace_id, saves in sorted(values.items(), key=lambda item: item[1][0].pieces[0][0]):
        yield Restored(
            bytes.fromhex(trace_id),
            len(saves),
            any(saved.cut for saved in saves),
            [
                (now, logs, fragment)
                for saved in saves
                for now, logs, request in saved.pieces
                for fragment in by_trace(_record(now, logs, request))
            ],
        )


def _record(now: int, logs: bool, request: bytes) -> Record:
    return Record(SPANS, 0, -1, now, None, request, {"signal": "logs"} if logs else {})
