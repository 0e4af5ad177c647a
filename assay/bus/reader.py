"""Reading the embedded log, from any thread."""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from assay.bus import codec
from assay.bus.contract import Record
from assay.bus.database import connect, damaged, mapped
from assay.bus.rows import Partition

CONNECTIONS = 2


class Reader:
    """Read-only connections to the log at `path`. A call waits for a free one.

    Every call raises `Permanent` where it meets damage: a record that is neither there nor deleted
    by the retention, or a row that is not as written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._free: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()

    def open(self) -> None:
        """Open the connections to a file that is there."""
        for _ in range(CONNECTIONS):
            self._free.put(connect(self._path, read_only=True))

    def close(self) -> None:
        """Close them; nobody may be reading."""
        while not self._free.empty():
            self._free.get().close()

    def read(
        self, partition: Partition, start: int, *, max_records: int, max_bytes: int
    ) -> list[Record]:
        """Records from offset `start` on, in order: at most `max_records`, and no further one once
        their stored values hold `max_bytes`."""
        records: list[Record] = []
        size = 0
        end = partition.next
        with self._connection() as connection, closing(connection.cursor()) as cursor:
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
        with self._connection() as connection:
            row = connection.execute(
                "SELECT timestamp FROM records WHERE id = ?", (partition.base + offset,)
            ).fetchone()
            if row is None:
                self._check_deleted(connection, partition, offset, offset + 1)
                return None
            if not isinstance(row[0], int):
                raise damaged(self._path, f"{_place(partition, offset)} has no time")
            return row[0]

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
            raise damaged(self._path, f"{_place(partition, max(start, first))} is missing")

    def state(self, group: str, partition: int, now: int) -> dict[str, bytes]:
        """The values that the group keeps for the partition and that `now` (ms) finds unexpired."""
        values: dict[str, bytes] = {}
        with self._connection() as connection:
            for key, value, expires, crc in connection.execute(
                "SELECT key, value, expires, crc FROM state WHERE name = ? AND partition = ? "
                "AND (expires IS NULL OR expires > ?)",
                (group, partition, now),
            ):
                if crc != codec.text_crc(group, partition, key, value, expires):
                    raise damaged(self._path, f"the state of group {group} is not as written")
                values[key] = value
        return values

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = self._free.get()
        try:
            with mapped(self._path):
                yield connection
        finally:
            self._free.put(connection)

    def _record(self, partition: Partition, row: tuple[Any, ...]) -> Record:
        id, timestamp, kind, crc, key, headers, data = row
        offset = id - partition.base
        try:
            if crc != codec.record_crc(id, timestamp, kind, key, headers, data):
                raise codec.Damaged("its checksum differs")
            value = codec.unpack(kind, data)
        except codec.Damaged as error:
            raise damaged(self._path, f"{_place(partition, offset)}: {error}") from error
        return Record(
            partition.topic.name,
            partition.number,
            offset,
            timestamp,
            key,
            value,
            codec.decode_headers(headers),
        )


def _place(partition: Partition, offset: int) -> str:
    return f"record {offset} of {partition.topic.name}/{partition.number}"
