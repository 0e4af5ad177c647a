"""The newest records of the log in memory: a group that keeps up reads nothing from the file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from assay.bus.contract import Record
from assay.bus.rows import Partition

MOST = 32 * 2**20
"""Bytes of values that are kept: about a second at the rate at which two cores are full."""


class Tail:
    """The latest records of every partition. One thread adds; any may read."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._size = 0
        self._records: dict[int, dict[int, Record]] = {}
        """By partition id and offset."""
        self._order: deque[tuple[dict[int, Record], Record]] = deque()

    def add(self, records: Iterable[tuple[Partition, Record]]) -> None:
        """Keep what is durable by now, in the order of its offsets; forget the oldest."""
        for partition, record in records:
            held = self._records.setdefault(partition.id, {})
            held[record.offset] = record
            self._order.append((held, record))
            self._size += len(record.value)
        while self._size > self._most:
            held, record = self._order.popleft()
            del held[record.offset]
            self._size -= len(record.value)

    def holds(self, partition: Partition, offset: int) -> bool:
        """Whether the record, and so all that follow it, are in memory."""
        return offset in self._records.get(partition.id, ())

    def read(
        self, partition: Partition, start: int, *, max_records: int, max_bytes: int
    ) -> Sequence[Record]:
        """Records from offset `start` on, as `Reader.read` gives them; none when `start` is not in
        memory."""
        held = self._records.get(partition.id, {})
        records: list[Record] = []
        size = 0
        for offset in range(start, min(partition.next, start + max_records)):
            record = held.get(offset)
            if record is None:
                break
            records.append(record)
            size += len(record.value)
            if size >= max_bytes:
                break
        return records
