"""Reading a topic outside any group."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from assay.bus.contract import Position, Record
from assay.bus.kafka_options import Clients, build, mapped
from assay.bus.kafka_records import record_of
from assay.bus.kafka_thread import ClientThread

POLL_MS = 300
READ_RECORDS = 500
CLOSE = 3.0
FIND_MS = 10_000


async def read(
    clients: Clients,
    topic: str,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int] | None,
) -> AsyncGenerator[Record, None]:
    """Records from `starts` up to `ends`, or without end. They are named as of `topic`."""
    open_ends = dict(ends) if ends is not None else None
    if open_ends is not None:
        starts = {place: start for place, start in starts.items() if start < open_ends[place]}
    if not starts:
        return
    thread = ClientThread("assay-kafka-reader")
    reader = _Reader(clients, starts)
    try:
        await thread.run(reader.open)
        while True:
            for record in await thread.run(reader.poll):
                end = open_ends.get(TopicPartition(*record[:2])) if open_ends is not None else None
                if end is None or record.offset < end:
                    yield record_of(topic, record)
            if open_ends is not None and await thread.run(reader.reached, open_ends):
                return
    finally:
        await thread.stop(reader.close, CLOSE)


async def find(clients: Clients, place: TopicPartition, position: Position) -> Record | None:
    """The record at the position; none when there is none."""
    thread = ClientThread("assay-kafka-reader")
    reader = _Reader(clients, {place: position.offset})
    try:
        await thread.run(reader.open)
        for record in await thread.run(reader.poll, 1, FIND_MS):
            if record.offset == position.offset:
                return record_of(position.topic, record)
        return None
    finally:
        await thread.stop(reader.close, CLOSE)


class _Reader:
    """A client for one reading, in its own thread."""

    def __init__(self, clients: Clients, starts: Mapping[TopicPartition, int]) -> None:
        self._clients = clients
        self._starts = starts
        self._consumer: Any = None

    def open(self) -> None:
        with mapped("reading"):
            self._consumer = build(KafkaConsumer, self._clients.consumer(group_id=None))
            self._consumer.assign(list(self._starts))
            for place, start in self._starts.items():
                self._consumer.seek(place, start)

    def poll(self, most: int = READ_RECORDS, timeout_ms: int = POLL_MS) -> list[Any]:
        with mapped("reading"):
            found = self._consumer.poll(timeout_ms=timeout_ms, max_records=most)
        return [record for records in found.values() for record in records]

    def reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        with mapped("reading"):
            done = [p for p in self._starts if self._consumer.position(p) >= ends[p]]
            if done:
                self._consumer.pause(*done)
        return len(done) == len(self._starts)

    def close(self) -> None:
        if self._consumer is not None:
            with mapped("closing a reader"):
                self._consumer.close(timeout_ms=1000)
