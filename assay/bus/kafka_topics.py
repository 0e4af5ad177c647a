"""The topics on the brokers: made where they are missing, and checked before anything is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.api_key import ApiKey

from assay.bus.contract import Topic
from assay.bus.kafka_options import Clients, build, mapped, ours, refusal
from assay.errors import Permanent

OVERHEAD = 2**17
"""Bytes beside the value that a record and its batch may have."""
_TRANSACTIONS = {
    ApiKey.InitProducerId,
    ApiKey.AddPartitionsToTxn,
    ApiKey.AddOffsetsToTxn,
    ApiKey.EndTxn,
    ApiKey.TxnOffsetCommit,
}


class Topics:
    """Creates, checks and describes topics. Blocking: to be called in threads.

    Names given and returned have no prefix; `named` adds it.
    """

    def __init__(self, clients: Clients, foreign: Collection[str] = ()) -> None:
        self._clients = clients
        self._foreign = frozenset(foreign)
        self._admin: Any = None

    def open(self) -> None:
        """Connect. Raises `Permanent` when no broker answers or lets us in."""
        options = self._clients.admin()
        try:
            self._admin = build(KafkaAdminClient, options)
        except (kafka_errors.KafkaError, OSError, ValueError, TypeError, RuntimeError) as error:
            bootstrap = self._clients.config.bootstrap
            mine = ours(error, f"bus.kafka.bootstrap: no broker answers at {bootstrap}")
            raise Permanent(refusal(options) or str(mine)) from error

    def close(self) -> None:
        """Safe twice and without `open`."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    @property
    def admin(self) -> Any:
        if self._admin is None:
            raise Permanent("the bus is not started")
        return self._admin

    def transactional(self) -> bool:
        """Whether the brokers have transactions."""
        return _TRANSACTIONS.issubset(self.admin.api_versions())

    def named(self, topic: str) -> str:
        return topic if topic in self._foreign else self._clients.config.prefix + topic

    def ensure(self, topics: Sequence[Topic], *, create: bool) -> dict[str, int]:
        """The partitions of each topic. Creates what is missing where `create` says so.

        Raises `Permanent` with every fault: a topic that is missing, may not be used, or is kept
        in a way that would lose or reorder records.
        """
        found = self._describe(topics)
        missing = [topic for topic in topics if topic.name not in found]
        ours = [topic for topic in missing if not topic.foreign]
        if ours and create:
            self._create(ours)
            found |= self._describe(ours)
            missing = [topic for topic in topics if topic.name not in found]
        if missing:
            names = ", ".join(self.named(topic.name) for topic in missing)
            how = ": `assay topics --create` makes them" if ours and not create else ""
            raise Permanent(f"topics are missing on the brokers: {names}{how}")
        faults = [
            fault
            for topic in topics
            if not topic.foreign
            for fault in self._faults(topic, self.settings(topic))
        ]
        if faults:
            raise Permanent("\n".join(faults))
        return {name: len(partitions) for name, partitions in found.items()}

    def _describe(self, topics: Iterable[Topic]) -> dict[str, list[Any]]:
        names = {self.named(topic.name): topic.name for topic in topics}
        with mapped("reading the topics"):
            answers = self.admin.describe_topics(list(names))
        denied = (kafka_errors.TopicAuthorizationFailedError.errno,)
        for answer in answers:
            if answer["error_code"] in denied:
                raise Permanent(f"the brokers deny access to the topic {answer['name']}")
        return {
            names[answer["name"]]: answer["partitions"]
            for answer in answers
            if answer["error_code"] == 0
        }

    def _create(self, topics: Sequence[Topic]) -> None:
        config = self._clients.config
        wanted = {
            self.named(topic.name): {
                "num_partitions": topic.partitions,
                "replication_factor": config.replication or -1,
                "configs": self.wanted(topic),
            }
            for topic in topics
        }
        with mapped("creating the topics"):
            answer = self.admin.create_topics(wanted, raise_errors=False)
            exists = kafka_errors.TopicAlreadyExistsError.errno
            faults = [
                f"cannot create the topic {topic['name']}: "
                f"{topic['error_message'] or kafka_errors.for_code(topic['error_code']).__name__}"
                for topic in answer["topics"]
                if topic["error_code"] not in (0, exists)
            ]
            if faults:
                raise Permanent("\n".join(faults))
            self.admin.wait_for_topics(list(wanted), timeout_ms=20_000)

    def wanted(self, topic: Topic) -> dict[str, str]:
        """How a topic that is created is kept."""
        kept = {
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(self._clients.config.max_record + OVERHEAD),
            "compression.type": "producer",
        }
        if topic.compact:
            return kept | {
                "cleanup.policy": "compact",
                "segment.ms": "600000",
                "min.cleanable.dirty.ratio": "0.1",
                "delete.retention.ms": "3600000",
            }
        segment = min(max(topic.retention / 6, 60.0), 86_400.0)
        return kept | {
            "cleanup.policy": "delete",
            "retention.ms": str(int(topic.retention * 1000)),
            "segment.ms": str(int(segment * 1000)),
        }

    def settings(self, topic: Topic) -> dict[str, str]:
        """How a topic is kept on the brokers; empty where that may not be read."""
        name = self.named(topic.name)
        # All of them: not every broker understands being asked for some.
        resource = ConfigResource(ConfigResourceType.TOPIC, name, None)
        with mapped("reading how the topics are kept"):
            try:
                answer = self.admin.describe_configs([resource], config_filter="all")
            except kafka_errors.AuthorizationError:
                return {}
        return {key: str(row["value"]) for key, row in answer["topic"][name].items()}

    def _faults(self, topic: Topic, kept: dict[str, str]) -> Iterable[str]:
        """What the brokers do not tell is taken for right."""
        name = self.named(topic.name)
        if kept.get("message.timestamp.type", "LogAppendTime") != "LogAppendTime":
            yield f"topic {name}: message.timestamp.type must be LogAppendTime"
        room = self._clients.config.max_record
        if int(kept.get("max.message.bytes", room)) < room:
            yield f"topic {name}: max.message.bytes must be at least bus.kafka.max_record, {room}"
        retention = int(kept.get("retention.ms", -1))
        if topic.compact:
            if "compact" not in kept.get("cleanup.policy", "compact"):
                yield f"topic {name}: cleanup.policy must be compact"
        elif 0 <= retention < topic.retention * 1000:
            yield (
                f"topic {name}: retention.ms is {retention}, below the "
                f"{topic.retention * 1000:.0f} that the settings ask for"
            )
