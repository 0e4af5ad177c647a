"""A group's state in a compacted topic: partition by partition the latest value of each key.

A value larger than a record goes out in pieces, each under a key of its own; a value that became
smaller deletes the pieces that it no longer has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import OffsetSpec

from assay.bus.contract import StateChange
from assay.bus.kafka_options import Clients, build, mapped
from assay.bus.kafka_records import Ready
from assay.errors import Retryable

PIECE = "\x00"
"""Between a key and the number of a further piece."""
RESTORE = 300.0
"""Seconds in which a partition's state must have been read."""


class StateLog:
    """The state of one group's partitions, as records."""

    def __init__(self, clients: Clients, topic: str, max_value: int, ttl: float | None) -> None:
        """`topic` is named as on the brokers."""
        self.topic = topic
        self._clients = clients
        self._max_value = max_value
        self._ttl = ttl
        self._pieces: dict[tuple[int, str], int] = {}

    def records(self, changes: Iterable[StateChange]) -> list[Ready]:
        """What is to be written for the changes, the later ones of a key last."""
        ready: list[Ready] = []
        for partition, key, value in changes:
            parts = _cut(value, self._max_value) if value is not None else []
            had = self._pieces.get((partition, key), 1)
            header = [("pieces", b"%d" % len(parts))] if len(parts) > 1 else []
            for index in range(max(had, len(parts), 1)):
                name = key if index == 0 else f"{key}{PIECE}{index}"
                part = parts[index] if index < len(parts) else None
                ready.append(Ready(self.topic, partition, name.encode(), part, header))
            # A commit that fails may have been counted: one deletion too many does no harm.
            if max(had, len(parts)) > 1:
                self._pieces[partition, key] = max(had, len(parts))
        return ready

    def restore(self, admin: Any, partition: int, alive: Callable[[], bool]) -> dict[str, bytes]:
        """Read the partition's state. Blocking; raises `Retryable` when `alive` says no more.

        Everything that was appended before the call is waited for, transactions under way too.
        """
        place = TopicPartition(self.topic, partition)
        with mapped(f"reading the state {self.topic}/{partition}"):
            end = admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset
            if end == 0:
                return {}
            consumer = build(KafkaConsumer, self._clients.consumer(group_id=None))
            try:
                consumer.assign([place])
                consumer.seek_to_beginning(place)
                raw = self._read(consumer, place, end, alive)
            finally:
                consumer.close(timeout_ms=1000)
        return self._joined(partition, raw)

    def _read(
        self, consumer: Any, place: TopicPartition, end: int, alive: Callable[[], bool]
    ) -> dict[str, tuple[bytes, int]]:
        raw: dict[str, tuple[bytes, int]] = {}
        oldest = 0 if self._ttl is None else int((time.time() - self._ttl) * 1000)
        deadline = time.monotonic() + RESTORE
        while consumer.position(place) < end:
            if not alive() or time.monotonic() > deadline:
                raise Retryable(f"reading the state {self.topic}/{place.partition} was given up")
            for found in consumer.poll(timeout_ms=500, max_records=5000).get(place, ()):
                key = found.key.decode()
                if found.value is None or found.timestamp < oldest:
                    raw.pop(key, None)
                else:
                    pieces = next((int(v) for n, v in found.headers if n == "pieces"), 1)
                    raw[key] = (found.value, pieces)
        return raw

    def _joined(self, partition: int, raw: Mapping[str, tuple[bytes, int]]) -> dict[str, bytes]:
        for stale in [key for key in list(self._pieces) if key[0] == partition]:
            self._pieces.pop(stale, None)
        state = {}
        for key, (first, pieces) in raw.items():
            if PIECE in key:
                continue
            rest = (raw[f"{key}{PIECE}{index}"][0] for index in range(1, pieces))
            state[key] = b"".join((first, *rest))
            if pieces > 1:
                self._pieces[partition, key] = pieces
        return state


def _cut(value: bytes, most: int) -> list[bytes]:
    return [value[start : start + most] for start in range(0, max(len(value), 1), most)]
