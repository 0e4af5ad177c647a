"""What was read ahead for a member and not delivered yet, and where delivery stands."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka import TopicPartition

from assay.bus.contract import Record
from assay.bus.kafka_pump import Claim, Found
from assay.bus.kafka_records import record_of
from assay.bus.progress import Progress

MOST_RECORDS, MOST_BYTES = 4000, 16 * 2**20
"""Read ahead of one partition of one topic; fetching goes on when half of it is delivered."""


class Shelf:
    """One partition of one topic."""

    __slots__ = (
        "_bytes", "_records", "claim", "clock", "held", "number", "place", "progress", "read",
    )  # fmt: skip

    def __init__(self, claim: Claim, place: TopicPartition, progress: Progress) -> None:
        self.claim = claim
        self.place = place
        self.number = place.partition
        self.progress = progress
        self.read = progress.next
        """Everything before it was handed over by the reader."""
        self.clock = 0
        self.held = False
        self._records: deque[Any] = deque()
        self._bytes = 0

    def put(self, found: Found) -> None:
        """Take in what was read. Offsets without a record count as done."""
        expected = found.start
        for record in found.records:
            if record.offset > expected:
                self.progress.gap(expected, record.offset)
            expected = record.offset + 1
            if not self.progress.done(record.offset):
                self._records.append(record)
                self._bytes += len(record.value or b"")
        if found.end > expected:
            self.progress.gap(expected, found.end)
        self.read = max(self.read, found.end)

    def take(self, topic: str, most: int) -> list[Record]:
        """The next records in order, named as `topic`."""
        taken: list[Record] = []
        while self._records and len(taken) < most:
            record = self._records.popleft()
            self._bytes -= len(record.value or b"")
            if record.timestamp > self.clock:
                self.clock = record.timestamp
            taken.append(record_of(topic, record))
        return taken

    @property
    def waiting(self) -> int:
        return len(self._records)

    def delivered_to(self, end: int) -> bool:
        """Whether all before the offset `end` was delivered."""
        return not self._records and self.read >= end

    def weigh(self) -> bool:
        """Whether fetching must wait."""
        share = 2 if self.held else 1
        self.held = len(self._records) * share >= MOST_RECORDS or self._bytes * share >= MOST_BYTES
        return self.held


class Shelves:
    """All that a member has."""

    def __init__(self, names: Mapping[str, str], hold: Callable[[Iterable[Any]], None]) -> None:
        """`names` are the topics as on the brokers and as delivered; `hold` stops fetching."""
        self._names = names
        self._hold = hold
        self._held: frozenset[TopicPartition] = frozenset()
        self._turn = 0
        self.by_place: dict[TopicPartition, Shelf] = {}

    def add(self, claim: Claim, progress: Mapping[TopicPartition, Progress]) -> None:
        for place, own in progress.items():
            self.by_place[place] = Shelf(claim, place, own)

    def remove(self, numbers: Iterable[int]) -> None:
        gone = set(numbers)
        self.by_place = {p: s for p, s in self.by_place.items() if s.number not in gone}

    def numbers(self) -> frozenset[int]:
        return frozenset(shelf.number for shelf in self.by_place.values())

    def claims(self) -> frozenset[Claim]:
        return frozenset(shelf.claim for shelf in self.by_place.values())

    def put(self, found: Found) -> None:
        shelf = self.by_place.get(found.place)
        if shelf is not None:
            shelf.put(found)
            self._weigh()

    def take(self, most: int, paused: frozenset[int]) -> list[Record]:
        """At most `most` records, the partitions by turns."""
        ready = [
            shelf
            for shelf in self.by_place.values()
            if shelf.waiting and shelf.number not in paused and not shelf.progress.full
        ]
        if not ready:
            return []
        self._turn += 1
        first = self._turn % len(ready)
        records: list[Record] = []
        for index, shelf in enumerate(ready[first:] + ready[:first]):
            share = -(-(most - len(records)) // (len(ready) - index))
            records += shelf.take(self._names[shelf.place.topic], share)
        self._weigh()
        return records

    def _weigh(self) -> None:
        held = frozenset(place for place, shelf in self.by_place.items() if shelf.weigh())
        if held != self._held:
            self._held = held
            self._hold(held)
