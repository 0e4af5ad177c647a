"""The rows of the embedded log: what a transaction writes, and the statements that write it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from assay.bus import codec
from assay.bus.contract import StateChange, Topic
from assay.bus.database import OFFSET_BITS
from assay.bus.progress import Progress
from assay.errors import Permanent


class Partition:
    """A partition of a topic: the offsets kept are `first` up to `next`, not included."""

    __slots__ = ("base", "first", "id", "next", "number", "timestamp", "topic")

    def __init__(
        self, id: int, topic: Topic, number: int, first: int, next_offset: int, timestamp: int
    ) -> None:
        self.id = id
        self.base = id << OFFSET_BITS
        self.topic = topic
        self.number = number
        self.first = first
        self.next = next_offset
        self.timestamp = timestamp
        """Of the newest record, in milliseconds."""


class Append(NamedTuple):
    """A record to append, encoded but for its value."""

    partition: Partition
    key: bytes | None
    headers: bytes | None
    value: bytes


class Advance(NamedTuple):
    """Offsets of a partition that a group is done with."""

    group: str
    partition: Partition
    offsets: Sequence[int]


class Keep(NamedTuple):
    """A state value to keep until `expires` (ms; none: for ever); without a value, to delete."""

    group: str
    partition: int
    key: str
    value: bytes | None
    expires: int | None
    crc: int


def keep(group: str, change: StateChange, expires: int | None) -> Keep:
    """The row of a change. Raises `Permanent` for a key that has no UTF-8 form."""
    try:
        crc = codec.text_crc(group, *change, expires)
    except UnicodeEncodeError as error:
        raise Permanent(f"a state key cannot be written: {error}") from error
    return Keep(group, *change, expires, crc)


class Transaction(NamedTuple):
    """What takes effect together."""

    appends: Sequence[Append] = ()
    advances: Sequence[Advance] = ()
    keeps: Sequence[Keep] = ()


def write_partition(
    connection: sqlite3.Connection,
    partition: Partition,
    first: int,
    next_offset: int,
    timestamp: int,
) -> None:
    """Write the row of `partitions`; the caller updates `partition` after the commit."""
    row = (partition.id, partition.topic.name, partition.number, first, next_offset, timestamp)
    connection.execute(
        "UPDATE partitions SET first = ?, next = ?, timestamp = ?, crc = ? WHERE id = ?",
        (first, next_offset, timestamp, codec.text_crc(*row), partition.id),
    )


def write_progress(
    connection: sqlite3.Connection,
    progress: Mapping[tuple[str, int], Progress],
    seen: Mapping[tuple[str, int], int],
) -> None:
    """Write rows of `progress`; the caller puts them into memory after the commit."""
    rows = []
    for (group, id), value in progress.items():
        beyond = value.metadata()
        row = (group, id, value.next, beyond, seen[group, id])
        rows.append((*row, codec.text_crc(*row)))
    connection.executemany("INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?, ?, ?)", rows)


def write_state(connection: sqlite3.Connection, keeps: Iterable[Keep]) -> None:
    """Write or delete rows of `state`; of several for a key, the last holds."""
    last = {keep[:3]: keep for keep in keeps}
    connection.executemany(
        "INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?, ?, ?)",
        [keep for keep in last.values() if keep.value is not None],
    )
    connection.executemany(
        "DELETE FROM state WHERE name = ? AND partition = ? AND key = ?",
        [key for key, keep in last.items() if keep.value is None],
    )
