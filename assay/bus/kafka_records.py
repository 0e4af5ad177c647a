"""Records as the clients take and give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from assay.bus.contract import Outgoing, Record
from assay.bus.topics import DEAD_LETTER, partition_of
from assay.errors import Permanent


class Ready(NamedTuple):
    """A record that may be sent."""

    topic: str
    """With the prefix."""
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


class Encoder:
    """Checks records and completes them."""

    def __init__(self, prefix: str, partitions: Callable[[str], int], max_value: int) -> None:
        self._prefix = prefix
        self._partitions = partitions
        self._max_value = max_value

    def ready(self, records: Iterable[Outgoing]) -> list[Ready]:
        """Raises `Permanent` for a record that can never be written."""
        return [self._ready(record) for record in records]

    def _ready(self, record: Outgoing) -> Ready:
        topic, value, key, partition, headers = record
        count = self._partitions(topic)
        if partition is None:
            partition = partition_of(key or b"", count)
        elif not 0 <= partition < count:
            raise Permanent(f"no such partition: {topic}/{partition}")
        if len(value) > self._max_value:
            if topic != DEAD_LETTER:
                raise Permanent(
                    f"a value of {len(value)} bytes is larger than bus.kafka.max_record, "
                    f"{self._max_value}"
                )
            # A dead letter too large to keep whole must not stop what it was taken out of the way
            # of.
            value, headers = value[: self._max_value], {**headers, "cut": str(len(value))}
        try:
            pairs = [(name, text.encode()) for name, text in headers.items()]
        except UnicodeEncodeError as error:
            raise Permanent(f"headers cannot be written: {error}") from error
        return Ready(self._prefix + topic, partition, key, value, pairs)


def record_of(topic: str, found: Any) -> Record:
    """What a reader delivers for the client's record. A tombstone has an empty value."""
    return Record(
        topic,
        found.partition,
        found.offset,
        found.timestamp,
        found.key,
        found.value if found.value is not None else b"",
        {name: (data or b"").decode(errors="replace") for name, data in found.headers},
    )
