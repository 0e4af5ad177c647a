"""The embedded log: what the database holds, as partitions, groups and transactions.

One thread writes: it alone calls `apply` and `join`, and the functions of `retention`. What other
threads see of the log in memory changes only after the transaction that made it true.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.bus import codec
from assay.bus.contract import Record, Topic
from assay.bus.database import OFFSET_BITS, PAGE_SIZE, checkpoint, damaged, mapped, open_database
from assay.bus.mark import Mark
from assay.bus.progress import Progress
from assay.bus.reader import Reader
from assay.bus.rows import Partition, Transaction, write_partition, write_progress, write_state
from assay.bus.tail import Tail
from assay.errors import Permanent, Retryable

GONE = 10.0
"""Seconds that senders are told to wait when the log's file is gone."""
MAX_WAL = 256 * 2**20
"""Bytes that the write-ahead log may take on disk where readers kept it from being reused."""


def _identity(path: Path) -> tuple[int, int]:
    """Device and number of the file; zeros where there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


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
        self.reader = Reader(self.path)
        self.tail = Tail()
        self._topics = topics
        self._wall = wall
        self._stamped = threading.Lock()
        self._last = 0
        self._writing: int | None = None
        self._sequence = 0
        self._mark: Mark | None = None
        self._file = (0, 0)
        self._connection: sqlite3.Connection | None = None

    # Opening and closing

    def open(self) -> None:
        """Open or make the file. Raises `Permanent` when it is not ours or damaged."""
        self._connection = open_database(self.path)
        self._file = _identity(self.path)
        for known in (self.partitions, self.progress, self.seen, self.members):
            known.clear()
        self.tail = Tail()
        try:
            with mapped(self.path):
                self._load_partitions()
                self._load_progress()
                self._check_ends()
                self._check_mark()
                self.settle()
                self.reader.open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every file. Safe twice and without `open`."""
        self.reader.close()
        if self._connection is not None:
            with mapped(self.path):
                self._connection.close()
            self._connection = None
        if self._mark is not None:
            self._mark.close()
            self._mark = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The writing thread's connection."""
        if self._connection is None:
            raise Permanent("the log is not open")
        return self._connection

    def _load_partitions(self) -> None:
        rows = self.connection.execute("SELECT * FROM partitions").fetchall()
        if any(row[6] != codec.text_crc(*row[:6]) for row in rows if row[0]) or not rows:
            raise damaged(self.path, "the list of partitions is not as written")
        known = {(row[1], row[2]): row for row in rows if row[0]}
        top = max(row[0] for row in rows)
        self._sequence = next((row[4] for row in rows if not row[0]), 0)
        self._last = max((row[5] for row in rows if row[0]), default=0)
        self.connection.execute("BEGIN")  # a topic has all of its partitions or none
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
        self.connection.execute("COMMIT")

    def _load_progress(self) -> None:
        for name, id, next_offset, beyond, seen, crc in self.connection.execute(
            "SELECT * FROM progress"
        ):
            if crc != codec.text_crc(name, id, next_offset, beyond, seen):
                raise damaged(self.path, f"the progress of group {name} is not as written")
            self.progress[name, id] = Progress.restore(next_offset, beyond)
            self.seen[name, id] = seen

    def _check_ends(self) -> None:
        for partition in self.partitions.values():
            row = self.connection.execute(
                "SELECT (SELECT min(id) FROM records WHERE id >= :low AND id < :high),"
                " (SELECT max(id) FROM records WHERE id >= :low AND id < :high)",
                {"low": partition.base, "high": partition.base + (1 << OFFSET_BITS)},
            ).fetchone()
            ends = (partition.base + partition.first, partition.base + partition.next - 1)
            if row != (ends if partition.first < partition.next else (None, None)):
                raise damaged(
                    self.path,
                    f"{partition.topic.name}/{partition.number} does not begin at offset "
                    f"{partition.first} and end before {partition.next}",
                )

    def _check_mark(self) -> None:
        self._mark = Mark(self.path.with_suffix(".mark"))
        confirmed = self._mark.read()
        if not isinstance(self._sequence, int) or confirmed > self._sequence:
            raise damaged(
                self.path,
                f"{confirmed} transactions were confirmed and {self._sequence} are there",
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
        """A transaction of the writing thread: durable after the block, rolled back on error.

        Raises `Retryable` where the file is no longer the one that was opened: what is written to a
        removed file is confirmed and gone with the process.
        """
        connection = self.connection
        if _identity(self.path) != self._file:
            raise Retryable(
                f"{self.path} was removed or replaced while Assay ran: start Assay again",
                retry_after=GONE,
            )
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
            self._mark.write(self._sequence)

    def apply(self, transactions: Sequence[Transaction]) -> None:
        """Make all of them take effect in one durable step, or none."""
        ends: dict[Partition, int] = {}
        with self.stamped() as timestamp:
            records = list(self._placed(transactions, ends, timestamp))
            progress = self._advanced(transactions, timestamp)
            with self.transaction() as connection:
                connection.executemany(
                    "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [row for _, _, row in records],
                )
                for partition, end in ends.items():
                    write_partition(connection, partition, partition.first, end, timestamp)
                write_progress(connection, progress, self.seen)
                write_state(connection, (keep for t in transactions for keep in t.keeps))
            self.tail.add((partition, record) for partition, record, _ in records)
            for partition, end in ends.items():
                partition.next = end
                partition.timestamp = timestamp
            self.progress.update(progress)

    def read(
        self, partition: Partition, start: int, *, max_records: int, max_bytes: int
    ) -> Sequence[Record]:
        """Records from offset `start` on, in order: at most `max_records`, and no further one once
        they hold `max_bytes`: in memory as they are, in the file as stored. Raises `Permanent`
        where the file is damaged."""
        return self.tail.read(
            partition, start, max_records=max_records, max_bytes=max_bytes
        ) or self.reader.read(partition, start, max_records=max_records, max_bytes=max_bytes)

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
                write_progress(connection, progress, self.seen)
            self.progress.update(progress)
        self.members.add(group)

    def leave(self, group: str) -> None:
        """The member of `group` goes."""
        self.members.discard(group)

    def _placed(
        self, transactions: Sequence[Transaction], ends: dict[Partition, int], timestamp: int
    ) -> Iterator[tuple[Partition, Record, tuple[Any, ...]]]:
        """Each record with its partition and its row; `ends` becomes the offsets after them."""
        for transaction in transactions:
            for partition, key, headers, value in transaction.appends:
                offset = ends.get(partition, partition.next)
                ends[partition] = offset + 1
                id = partition.base + offset
                kind, data = codec.pack(value)
                crc = codec.record_crc(id, timestamp, kind, key, headers, data)
                record = Record(
                    partition.topic.name,
                    partition.number,
                    offset,
                    timestamp,
                    key,
                    value,
                    codec.decode_headers(headers),
                )
                yield partition, record, (id, timestamp, kind, crc, key, headers, data)

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

    def settle(self) -> None:
        """Measure the file, and empty a write-ahead log that has grown long."""
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
