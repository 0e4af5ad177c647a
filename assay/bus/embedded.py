"""The bus in one process and one file: see `contract` for what it promises.

`EmbeddedBus` owns a data folder. A thread of its own writes (`writer`), a few others read, and the
database between them is `log`. Readers are woken by the writer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from assay.bus import codec
from assay.bus.contract import (
    Assigned,
    Outgoing,
    Position,
    Record,
    Revoked,
    Topic,
    TopicStats,
)
from assay.bus.log import Log
from assay.bus.member import POLL_BYTES, Member
from assay.bus.owner import Owner
from assay.bus.reader import CONNECTIONS
from assay.bus.rows import Append, Partition, Transaction
from assay.bus.topics import partition_of
from assay.bus.writer import Writer
from assay.errors import Permanent, Retryable

P = ParamSpec("P")
T = TypeVar("T")

MAX_VALUE = 128 * 2**20
"""Bytes of one value."""
READ_RECORDS = 500


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What the log holds."""

    used: int
    """Bytes in use; senders are told to wait at `max_size`."""
    file: int
    """Bytes on disk, with the write-ahead log and free pages."""
    max_size: int
    topics: dict[str, TopicStats]


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class EmbeddedBus:
    """The bus in `data_dir`. `wall` is the clock, in milliseconds."""

    def __init__(
        self,
        data_dir: Path,
        topics: Sequence[Topic],
        *,
        max_size: int = 10 * 10**9,
        wall: Callable[[], int] = _wall_ms,
    ) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._max_size = max_size
        self._owner = Owner(data_dir)
        self._log = Log(data_dir, topics, wall)
        self._writer = Writer(self._log, max_size, self._wake)
        self._wakers: set[asyncio.Event] = set()
        self._lifecycle = asyncio.Lock()
        self._readers: ThreadPoolExecutor | None = None

    async def start(self) -> None:
        """Take the data folder and open the log.

        Raises `Permanent` when another process owns the folder, and when the file in it is damaged
        or not ours.
        """
        async with self._lifecycle:
            self._owner.acquire()
            try:
                await asyncio.to_thread(self._log.open)
            except BaseException:
                self._owner.release()
                raise
            self._readers = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="assay-bus-reader")
            self._writer.start()

    async def stop(self) -> None:
        """Finish what was accepted, then close. Safe twice and without start."""
        async with self._lifecycle:
            await self._writer.stop()
            readers, self._readers = self._readers, None
            if readers is not None:
                await asyncio.to_thread(readers.shutdown)
                await asyncio.to_thread(self._log.close)
            self._owner.release()
            self._wake()

    async def publish(self, records: Sequence[Outgoing]) -> None:
        """See `contract.Bus.publish`. Raises `Permanent` for a record that can never be written."""
        if self._readers is None:
            raise Retryable("the bus is stopped")
        await self._writer.write(Transaction(self._encode(records)), refusable=True)

    def consumer(
        self,
        group: str,
        topics: Sequence[str],
        *,
        state_ttl: float | None = None,
        on_assigned: Assigned | None = None,
        on_revoked: Revoked | None = None,
    ) -> Member:
        """See `contract.Bus.consumer`. Here a group has one member at a time."""
        if len({self.partitions(topic) for topic in topics}) != 1:
            raise Permanent(f"topics {', '.join(topics)} differ in their number of partitions")
        return Member(
            group,
            topics,
            log=self._log,
            writer=self._writer,
            run=self._run,
            encode=self._encode,
            wakers=self._wakers,
            state_ttl=state_ttl,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )

    async def read(
        self, topic: str, *, since: int | None = None, follow: bool = False
    ) -> AsyncGenerator[Record, None]:
        """See `contract.Bus.read`. With `since` and `follow`: from then on and without end."""
        partitions = [self._partition(topic, number) for number in range(self.partitions(topic))]
        positions = {
            partition: await self._run(self._log.reader.seek, partition, since)
            if since is not None
            else partition.next
            if follow
            else partition.first
            for partition in partitions
        }
        ends = {partition: partition.next for partition in partitions}
        wake = asyncio.Event()
        self._wakers.add(wake)
        try:
            while True:
                wake.clear()
                idle = True
                for partition in partitions:
                    end = partition.next if follow else ends[partition]
                    start = max(positions[partition], partition.first)
                    if start >= end:
                        continue
                    idle = False
                    records = await self._run(self._read, partition, start, end)
                    for record in records:
                        yield record
                    positions[partition] = records[-1].offset + 1 if records else partition.first
                if idle:
                    if not follow or self._readers is None:
                        return
                    await wake.wait()
        finally:
            self._wakers.discard(wake)

    async def find(self, position: Position) -> Record | None:
        """The record at `position`; none when it is no longer, or not yet, there."""
        partition = self._partition(position.topic, position.partition)
        if not partition.first <= position.offset < partition.next:
            return None
        records = await self._run(self._read, partition, position.offset, position.offset + 1)
        return records[0] if records else None

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has."""
        if topic not in self._topics:
            raise Permanent(f"no such topic: {topic}")
        return self._topics[topic].partitions

    @property
    def max_value(self) -> int:
        return MAX_VALUE

    async def topic_stats(self) -> dict[str, TopicStats]:
        """See `contract.Bus.topic_stats`."""
        return (await self.stats()).topics

    async def stats(self) -> Stats:
        """What the log holds, for telemetry."""
        return await self._run(self._stats)

    async def sweep(self) -> None:
        """Apply the retention at once, rather than within the next seconds."""
        await self._writer.sweep()

    def _partition(self, topic: str, number: int) -> Partition:
        try:
            return self._log.partitions[topic, number]
        except KeyError:
            raise Permanent(f"no such partition: {topic}/{number}") from None

    def _encode(self, records: Iterable[Outgoing]) -> list[Append]:
        appends = []
        for record in records:
            if len(record.value) > MAX_VALUE:
                raise Permanent(f"a value of {len(record.value)} bytes is larger than {MAX_VALUE}")
            number = record.partition
            if number is None:
                number = partition_of(record.key or b"", self.partitions(record.topic))
            partition = self._partition(record.topic, number)
            headers = codec.encode_headers(record.headers)
            appends.append(Append(partition, record.key, headers, record.value))
        return appends

    def _read(self, partition: Partition, start: int, end: int) -> Sequence[Record]:
        return self._log.read(
            partition, start, max_records=min(READ_RECORDS, end - start), max_bytes=POLL_BYTES
        )

    async def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._readers is None:
            raise Permanent("the bus is not started")
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, partial(function, *args, **kwargs)
        )

    def _wake(self) -> None:
        for waker in self._wakers:
            waker.set()

    def _stats(self) -> Stats:
        log = self._log
        topics = {}
        for topic in self._topics.values():
            partitions = [p for p in log.partitions.values() if p.topic.name == topic.name]
            lag: dict[str, int] = {}
            oldest = 0
            for partition in partitions:
                for (group, id), progress in list(log.progress.items()):
                    if id == partition.id:
                        behind = progress.undone(partition.first, partition.next)
                        lag[group] = lag.get(group, 0) + behind
                oldest = min(filter(None, (oldest, log.reader.oldest(partition))), default=0)
            topics[topic.name] = TopicStats(
                records=sum(p.next - p.first for p in partitions),
                oldest=oldest,
                lag=lag,
                lost={
                    group: n for (name, group), n in list(log.lost.items()) if name == topic.name
                },
            )
        return Stats(used=log.used, file=log.file_bytes(), max_size=self._max_size, topics=topics)
