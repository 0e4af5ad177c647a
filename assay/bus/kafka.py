"""The bus on Kafka: see `contract` for what it promises.

Records are written once (idempotent, confirmed by all replicas), stamped by the brokers, and read
when they are committed. A consumer group's outputs, offsets and state are one transaction that the
brokers refuse when the membership it names is over. What is done beyond an offset travels in the
commit's metadata.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from kafka import TopicPartition
from kafka.admin import OffsetSpec

from assay.bus import kafka_reader
from assay.bus.contract import (
    Assigned,
    Outgoing,
    Position,
    Record,
    Revoked,
    Topic,
    TopicStats,
)
from assay.bus.kafka_member import KafkaMember
from assay.bus.kafka_options import Clients, mapped
from assay.bus.kafka_progress import committed
from assay.bus.kafka_publisher import Publisher
from assay.bus.kafka_pump import Restored
from assay.bus.kafka_records import Encoder
from assay.bus.kafka_state import StateLog
from assay.bus.kafka_thread import ClientThread
from assay.bus.kafka_topics import Topics
from assay.bus.progress import Progress
from assay.bus.topics import READERS, state_topic
from assay.config import Kafka
from assay.errors import Permanent

_log = logging.getLogger(__name__)

CLOSE = 5.0
STATE_RETENTION = 7 * 86_400.0


class KafkaBus:
    """The bus on the brokers of `config`."""

    def __init__(
        self, config: Kafka, topics: Sequence[Topic], *, create: bool | None = None
    ) -> None:
        """`create` overrides the settings' word on missing topics."""
        self._config = config
        self._clients = Clients(config)
        self._wanted = list(topics)
        self._create = config.create_topics if create is None else create
        self._topics = Topics(self._clients, [topic.name for topic in topics if topic.foreign])
        self._partitions: dict[str, int] = {}
        self._encoder = Encoder(config.prefix, self.partitions, config.max_record)
        self._publisher = Publisher(self._clients)
        self._admin: ClientThread | None = None
        self._members = 0
        self._transactional = True
        self._id = f"{config.prefix}assay-{socket.gethostname()}-{os.getpid()}"

    async def start(self) -> None:
        """Connect, and create or check the topics.

        Raises `Permanent` when no broker answers, when the brokers deny what is needed, and when a
        topic is missing or kept otherwise than it must be.
        """
        self._admin = ClientThread("assay-kafka-admin")
        try:
            await self._admin.run(self._topics.open)
            self._partitions = await self._admin.run(self._ensure)
            self._transactional = self._config.transactions and await self._admin.run(
                self._topics.transactional
            )
            if not self._transactional:
                _log.warning(
                    "commits are no transactions, by bus.kafka.transactions or because the brokers "
                    "have none: what a process that dies had under way is done twice"
                )
            await self._publisher.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Finish what was accepted, then close. Safe twice and without start."""
        await self._publisher.stop()
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.stop(self._topics.close, CLOSE)

    @property
    def max_value(self) -> int:
        return self._config.max_record

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has."""
        try:
            return self._partitions[topic]
        except KeyError:
            raise Permanent(f"no such topic: {topic}") from None

    async def publish(self, records: Sequence[Outgoing]) -> None:
        """See `contract.Bus.publish`. Raises `Permanent` for a record that can never be written."""
        await self._publisher.publish(self._encoder.ready(records))

    def consumer(
        self,
        group: str,
        topics: Sequence[str],
        *,
        state_ttl: float | None = None,
        on_assigned: Assigned | None = None,
        on_revoked: Revoked | None = None,
    ) -> KafkaMember:
        """See `contract.Bus.consumer`."""
        counts = {self.partitions(topic) for topic in topics}
        if len(counts) != 1:
            raise Permanent(f"topics {', '.join(topics)} differ in their number of partitions")
        kept = Topic(
            name=state_topic(group),
            partitions=counts.pop(),
            retention=STATE_RETENTION,
            compact=True,
        )
        state = StateLog(
            self._clients, self._topics.named(kept.name), self._config.max_record, state_ttl
        )

        def restore(consumer: Any, number: int, alive: Callable[[], bool]) -> Restored:
            places = [TopicPartition(self._topics.named(t), number) for t in topics]
            progress = committed(consumer, self._topics.admin, places)
            values: Mapping[str, bytes] = {}
            if on_assigned is not None:
                values = state.restore(self._topics.admin, number, alive)
            return Restored(values, progress)

        async def prepare_state() -> None:
            found = await self._run(lambda: self._topics.ensure([kept], create=self._create))
            if found[kept.name] != kept.partitions:
                raise Permanent(
                    f"the topic {kept.name} has {found[kept.name]} partitions and must have "
                    f"{kept.partitions}, as {', '.join(topics)}"
                )

        self._members += 1
        return KafkaMember(
            group,
            {self._topics.named(topic): topic for topic in topics},
            clients=self._clients,
            transactional_id=(
                f"{self._id}-{self._members}-{secrets.token_hex(4)}"
                if self._transactional
                else None
            ),
            restore=restore,
            state=state,
            prepare_state=prepare_state,
            ready=self._encoder.ready,
            ends=self._ends,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )

    async def read(
        self, topic: str, *, since: int | None = None, follow: bool = False
    ) -> AsyncGenerator[Record, None]:
        """See `contract.Bus.read`. What was appended before the call is waited for, transactions
        under way too."""
        places = self._places(topic)
        ends = await self._ends(places)
        if since is not None:
            starts = await self._offsets(dict.fromkeys(places, since))
            starts = {p: offset if offset >= 0 else ends[p] for p, offset in starts.items()}
        elif follow:
            starts = ends
        else:
            starts = await self._offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
        reading = kafka_reader.read(self._clients, topic, starts, None if follow else ends)
        async with aclosing(reading):
            async for record in reading:
                if since is None or record.timestamp >= since:
                    yield record

    async def find(self, position: Position) -> Record | None:
        """See `contract.Bus.find`."""
        if not 0 <= position.partition < self.partitions(position.topic):
            raise Permanent(f"no such partition: {position.topic}/{position.partition}")
        place = TopicPartition(self._topics.named(position.topic), position.partition)
        first = (await self._offsets({place: OffsetSpec.EARLIEST}))[place]
        if not first <= position.offset < (await self._ends([place]))[place]:
            return None
        return await kafka_reader.find(self._clients, place, position)

    async def topic_stats(self) -> dict[str, TopicStats]:
        """See `contract.Bus.topic_stats`. Offsets are counted: what transactions leave between
        records is among them. The brokers do not tell the oldest record's time."""
        stats = {}
        for topic in self._partitions:
            places = self._places(topic)
            firsts = await self._offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
            ends = await self._ends(places)
            lag, lost = await self._run(partial(self._behind, topic, firsts, ends))
            stats[topic] = TopicStats(
                records=sum(ends[place] - firsts[place] for place in places),
                oldest=0,
                lag=lag,
                lost=lost,
            )
        return stats

    async def members(self, groups: Sequence[str]) -> dict[str, int]:
        """How many members each group has at this moment."""

        def ask() -> dict[str, int]:
            if not groups:
                return {}
            named = {self._config.prefix + group: group for group in groups}
            with mapped("reading the groups"):
                found = self._topics.admin.describe_groups(list(named))
            return {named[name]: len(group["members"]) for name, group in found.items()}

        counts: dict[str, int] = await self._run(ask)
        return counts

    def _behind(
        self,
        topic: str,
        firsts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Offsets not done, and not done but deleted, of each group that has begun to read."""
        lag: dict[str, int] = {}
        lost: dict[str, int] = {}
        for group in READERS.get(topic, ()):
            name = self._config.prefix + group
            with mapped(f"reading the offsets of the group {name}"):
                known = self._topics.admin.list_group_offsets({name: list(firsts)}).get(name, {})
            found = {p: at for p, at in known.items() if p in firsts and at.offset >= 0}
            if found:
                progress = {p: Progress.restore(at.offset, at.metadata) for p, at in found.items()}
                lag[group] = sum(progress[p].undone(firsts[p], ends[p]) for p in found)
                lost[group] = sum(progress[p].undone(0, firsts[p]) for p in found)
        return lag, lost

    def _ensure(self) -> dict[str, int]:
        return self._topics.ensure(self._wanted, create=self._create)

    def _places(self, topic: str) -> list[TopicPartition]:
        name = self._topics.named(topic)
        return [TopicPartition(name, number) for number in range(self.partitions(topic))]

    async def _ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._offsets(dict.fromkeys(places, OffsetSpec.LATEST))

    async def _offsets(self, wanted: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
        def ask() -> dict[TopicPartition, int]:
            with mapped("reading offsets"):
                found = self._topics.admin.list_partition_offsets(dict(wanted))
            return {place: found[place].offset for place in wanted}

        found: dict[TopicPartition, int] = await self._run(ask)
        return found

    async def _run(self, function: Callable[[], Any]) -> Any:
        if self._admin is None:
            raise Permanent("the bus is not started")
        return await self._admin.run(function)
