"""The embedded log: what the database holds, as partitions, groups and transactions.

One thread writes (`apply`, `join`, and the retention in `retention`); any thread reads. What other
threads see of it in memory changes only after the transaction that made it true.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from assay.bus import codec
from assay.bus.contract import Record, Topic
from assay.bus.database import (
    OFFSET_BITS,
    PAGE_SIZE,
    checkpoint,
    connect,
    damaged,
    mapped,
    open_database,
)
from assay.bus.progress import Progress
from assay.errors import Permanent

MAX_WAL = 256 * 2**20
"""Bytes that the write-ahead log may take on disk where readers kept it from being reused."""
READERS = 2


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


class Transaction(NamedTuple):
    """What takes effect together."""

    appends: Sequence[Append] = ()
    advances: Sequence[Advance] = ()
    keeps: Sequence[Keep] = ()


class Log:
    """The log in `folder`. Not open until `open`."""

    def __init__(self, folder: Path, topics: Sequence[Topic], wall: Callable[[], int]) -> None:
        self.path = folder / "bus.sqlite"
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.progress: dict[tuple[str, int], Progress] = {}
        """By group and partition id."""
        self.seen: dict[tuple[str, int], int] = {}
        """When a member of the group was last there, ms."""
        self.members: set[str] = set()
        self.lost: Counter[tuple[str, str]] = Counter()
        """Records that retention deleted before a group had done them, by topic and group."""
        self.used = 0
        """Bytes of the file that hold something."""
        self._topics = topics
        self._wall = wall
        self._stamped = threading.Lock()
        self._last = 0
        self._writing: int | None = None
        self._sequence = 0
        self._mark: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._readers: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()

    # Opening and closing

    def open(self) -> None:
        """Open or make the file. Raises `Permanent` when it is not ours or damaged."""
        self._connection = open_database(self.path)
        self.members.clear()
        try:
            with mapped(self.path):
                self._load_partitions()
                self._load_progress()
                self._check_ends()
                self._check_mark()
                self.settle()
                for _ in range(READERS):
                    self._readers.put(connect(self.path, read_only=True))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every file. Safe twice and without `open`."""
        while not self._readers.empty():
            self._readers.get().close()
        if self._connection is not None:
            with mapped(self.path):
                self._connection.close()
            self._connection = None
        if self._mark is not None:
            os.close(self._mark)
            self._mark = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The writing thread's connection."""
        if self._connection is None:
            raise Permanent("the log is not open")
        return self._connection

    def _load_partitions(self) -> None:
        rows = self.connection.execute("SELECT * FROM partitions").fetchall()
        for row in rows:
            if row[0] and row[6] != codec.text_crc(*row[:6]):
                raise damaged(self.path, "the list of partitions is not as written")
        known = {(row[1], row[2]): row for row in rows if row[0]}
        top = max(row[0] for row in rows)
        self._sequence = next(row[4] for row in rows if not row[0])
        self._last = max(row[5] for row in rows)
        for topic in self._topics:
            count = sum(name == topic.name for name, _ in known)
            if count not in (0, topic.partitions):
                raise Permanent(
                    f"{self.path}: topic {topic.name} has {count} partitions, and "
                    f"{topic.partitions} are configured: set another data_dir"
                )
            for number in range(topic.partitions):
                row = known.get((topic.name, number))
                if row is None:
                    top += 1
                    row = (top, topic.name, number, 0, 0, 0)
                    self.connection.execute(
                        "INSERT INTO partitions VALUES (?, ?, ?, ?, ?, ?, ?)",
                        (*row, codec.text_crc(*row)),
                    )
                self.partitions[topic.name, number] = Partition(
                    row[0], topic, number, row[3], row[4], row[5]
                )

    def _load_progress(self) -> None:
        for name, id, next_offset, beyond, seen, crc in self.connection.execute(
            "SELECT * FROM progress"
        ):
            if crc != codec.text_crc(name, id, next_offset, beyond):
                raise damaged(self.path, f"the progress of group {name} is not as written")
            self.progress[name, id] = Progress.restore(next_offset, beyond)
            self.seen[name, id] = seen

    def _check_ends(self) -> None:
        for partition in self.partitions.values():
            lowest, highest = self.connection.execute(
                "SELECT min(id), max(id) FROM records WHERE id BETWEEN ? AND ?",
                (partition.base, partition.base + (1 << OFFSET_BITS) - 1),
            ).fetchone()
            expected = (partition.base + partition.first, partition.base + partition.next - 1)
            if (lowest, highest) != (
                (None, None) if partition.first == partition.next else expected
            ):
                raise damaged(
                    self.path,
                    f"{partition.topic.name}/{partition.number} does not hold the offsets "
                    f"{partition.first} to {partition.next - 1}",
                )

    def _check_mark(self) -> None:
        # SQLite silently drops the end of a damaged write-ahead log, and a lost file is made anew.
        # The mark, written after each commit, is a lower bound of what was confirmed.
        mark = self.path.with_suffix(".mark")
        self._mark = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        data = os.pread(self._mark, 12, 0)
        if len(data) == 12:
            sequence, crc = struct.unpack("<qI", data)
            if zlib.crc32(data[:8]) == crc and sequence > self._sequence:
                raise damaged(
                    self.path,
                    f"{sequence} transactions were confirmed and {self._sequence} are there",
                )

    # Time

    def horizon(self) -> int:
        """A time, in ms: every record before it is visible, and none will be stamped before it."""
        with self._stamped:
            if self._writing is not None:
                return self._writing
            self._last = max(self._last, self._wall())
            return self._last

    # Writing

    @contextmanager
    def stamped(self) -> Iterator[int]:
        """The timestamp of what is written, and made visible, within the block."""
        with self._stamped:
            self._writing = self._last = max(self._last, self._wall())
        try:
            yield self._writing
        finally:
            with self._stamped:
                self._writing = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction of the writing thread: durable after the block, rolled back on error."""
        connection = self.connection
        with mapped(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute(
                    "UPDATE partitions SET next = ? WHERE id = 0", (self._sequence + 1,)
                )
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self._sequence += 1
        if self._mark is not None:
            data = struct.pack("<q", self._sequence)
            os.pwrite(self._mark, data + struct.pack("<I", zlib.crc32(data)), 0)

    def apply(self, transactions: Sequence[Transaction]) -> None:
        """Make all of them take effect in one durable step, or none."""
        ends: dict[Partition, int] = {}
        with self.stamped() as timestamp:
            records = list(self._rows(transactions, ends, timestamp))
            progress = self._advanced(transactions, timestamp)
            with self.transaction() as connection:
                connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", records)
                for partition, end in ends.items():
                    write_partition(connection, partition, partition.first, end, timestamp)
                self.write_progress(connection, progress)
                for transaction in transactions:
                    for keep in transaction.keeps:
                        _write_state(connection, keep)
            for partition, end in ends.items():
                partition.next = end
                partition.timestamp = timestamp
            self.progress.update(progress)
        self.settle()

    def join(self, group: str, partitions: Sequence[Partition]) -> None:
        """The one member of `group` comes. A new group begins at the oldest kept record."""
        if group in self.members:
            raise Permanent(f"group {group} already has a member in this process")
        progress = {
            (group, partition.id): self.progress.get(
                (group, partition.id), Progress(partition.first)
            )
            for partition in partitions
        }
        with self.stamped() as timestamp:
            self.seen.update(dict.fromkeys(progress, timestamp))
            with self.transaction() as connection:
                self.write_progress(connection, progress)
            self.progress.update(progress)
        self.members.add(group)

    def leave(self, group: str) -> None:
        """The member of `group` goes."""
        self.members.discard(group)

    def _rows(
        self, transactions: Sequence[Transaction], ends: dict[Partition, int], timestamp: int
    ) -> Iterator[tuple[Any, ...]]:
        for transaction in transactions:
            for partition, key, headers, value in transaction.appends:
                offset = ends.get(partition, partition.next)
                ends[partition] = offset + 1
                id = partition.base + offset
                kind, data = codec.pack(value)
                crc = codec.record_crc(id, timestamp, kind, key, headers, data)
                yield id, timestamp, kind, crc, key, headers, data

    def _advanced(
        self, transactions: Sequence[Transaction], timestamp: int
    ) -> dict[tuple[str, int], Progress]:
        changed: dict[tuple[str, int], Progress] = {}
        for transaction in transactions:
            for group, partition, offsets in transaction.advances:
                key = (group, partition.id)
                progress = changed.get(key)
                if progress is None:
                    progress = changed[key] = self.progress[key].copy()
                    self.seen[key] = timestamp
                for offset in offsets:
                    progress.mark(offset)
        return changed

    def write_progress(
        self, connection: sqlite3.Connection, progress: dict[tuple[str, int], Progress]
    ) -> None:
        """Write rows of `progress`; the caller puts them into memory after the commit."""
        rows = []
        for (group, id), value in progress.items():
            beyond = value.metadata()
            crc = codec.text_crc(group, id, value.next, beyond)
            rows.append((group, id, value.next, beyond, self.seen[group, id], crc))
        connection.executemany("INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?, ?, ?)", rows)

    def settle(self) -> None:
        """After a write: measure the file, and empty a write-ahead log that has grown long."""
        with mapped(self.path):
            self.used = (self.pragma("page_count") - self.pragma("freelist_count")) * PAGE_SIZE
            wal = self.path.with_name(self.path.name + "-wal")
            if wal.stat().st_size > MAX_WAL:
                checkpoint(self.connection)

    def file_bytes(self) -> int:
        """Bytes on disk, with the write-ahead log."""
        wal = self.path.with_name(self.path.name + "-wal")
        return sum(path.stat().st_size for path in (self.path, wal) if path.exists())

    def pragma(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    # Reading, by any thread

    def read(
        self, partition: Partition, start: int, *, max_records: int, max_bytes: int
    ) -> list[Record]:
        """Records from offset `start` on, in order: at most `max_records`, and no further one once
        their stored values hold `max_bytes`. Raises `Permanent` where one is missing or damaged."""
        records: list[Record] = []
        size = 0
        end = partition.next
        with self._reader() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(
                "SELECT * FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
                (partition.base + start, partition.base + end, max_records),
            )
            expected = start
            for row in cursor:
                offset = row[0] - partition.base
                if offset != expected:
                    self._check_deleted(connection, partition, expected, offset)
                expected = offset + 1
                records.append(self._record(partition, row))
                size += len(row[6])
                if size >= max_bytes:
                    break
            if not records and start < end:
                self._check_deleted(connection, partition, start, end)
        return records

    def seek(self, partition: Partition, since: int) -> int:
        """The first offset whose record is stamped `since` (ms) or later."""
        low, high = partition.first, partition.next
        while low < high:
            middle = (low + high) // 2
            stamp = self.timestamp(partition, middle)
            if stamp is None or stamp < since:
                low = middle + 1
            else:
                high = middle
        return low

    def timestamp(self, partition: Partition, offset: int) -> int | None:
        """The timestamp of a record before `next`; none where retention deleted it."""
        with self._reader() as connection:
            row = connection.execute(
                "SELECT timestamp FROM records WHERE id = ?", (partition.base + offset,)
            ).fetchone()
            if row is None:
                self._check_deleted(connection, partition, offset, offset + 1)
                return None
            return int(row[0])

    def oldest(self, partition: Partition) -> int | None:
        """The timestamp of the oldest record; none without one."""
        first = partition.first
        return self.timestamp(partition, first) if first < partition.next else None

    def _check_deleted(
        self, connection: sqlite3.Connection, partition: Partition, start: int, end: int
    ) -> None:
        """Raise `Permanent` unless retention deleted the offsets `start` up to `end`."""
        (first,) = connection.execute(
            "SELECT first FROM partitions WHERE id = ?", (partition.id,)
        ).fetchone()
        if first < end:
            raise damaged(self.path, f"{_place(partition, max(start, first))} is missing")

    def state(self, group: str, partition: int) -> dict[str, bytes]:
        """The values that the group keeps for the partition and that have not expired."""
        values: dict[str, bytes] = {}
        with self._reader() as connection:
            for key, value, expires, crc in connection.execute(
                "SELECT key, value, expires, crc FROM state WHERE name = ? AND partition = ? "
                "AND (expires IS NULL OR expires > ?)",
                (group, partition, self._wall()),
            ):
                if crc != codec.text_crc(group, partition, key, value, expires):
                    raise damaged(self.path, f"the state of group {group} is not as written")
                values[key] = value
        return values

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        connection = self._readers.get()
        try:
            with mapped(self.path):
                yield connection
        finally:
            self._readers.put(connection)

    def _record(self, partition: Partition, row: tuple[Any, ...]) -> Record:
        id, timestamp, kind, crc, key, headers, data = row
        offset = id - partition.base
        try:
            if crc != codec.record_crc(id, timestamp, kind, key, headers, data):
                raise codec.Damaged("its checksum differs")
            value = codec.unpack(kind, data)
        except codec.Damaged as error:
            raise damaged(self.path, f"{_place(partition, offset)}: {error}") from error
        return Record(
            partition.topic.name,
            partition.number,
            offset,
            timestamp,
            key,
            value,
            codec.decode_headers(headers),
        )


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


def _place(partition: Partition, offset: int) -> str:
    return f"record {offset} of {partition.topic.name}/{partition.number}"


def _write_state(connection: sqlite3.Connection, keep: Keep) -> None:
    if keep.value is None:
        connection.execute(
            "DELETE FROM state WHERE name = ? AND partition = ? AND key = ?",
            (keep.group, keep.partition, keep.key),
        )
    else:
        crc = codec.text_crc(keep.group, keep.partition, keep.key, keep.value, keep.expires)
        connection.execute(
            "INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?, ?, ?)",
            (keep.group, keep.partition, keep.key, keep.value, keep.expires, crc),
        )
