"""Outputs, offsets and state in one transaction, fenced by the group's generation.

Commits that come while a transaction is under way join the next one together: a transaction costs
several round trips, and what is atomic together is atomic each for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from assay.bus.kafka_options import RETRY_AFTER, Clients, build, discard, mapped, ours
from assay.bus.kafka_records import Ready
from assay.bus.kafka_thread import ClientThread
from assay.errors import Permanent, Retryable

TIMEOUT = 15.0
"""Seconds after which the brokers abort a transaction that nobody ends: what a member that died
at work can hold up readers."""
BOUND = TIMEOUT + 5.0
"""Seconds after which a transaction is given up: the brokers have aborted it by then, or never saw
it."""
BLOCK = 10.0
CLOSE = 5.0


class Intent(NamedTuple):
    """One transaction to be made."""

    records: Sequence[Ready]
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    group: Any
    """The membership as it is at this moment: the brokers refuse one that is over."""


class Unclear(Exception):
    """The transaction may or may not have taken effect."""


class Fenced(Exception):
    """The membership changed meanwhile; nothing took effect."""


class Transactions:
    """A transactional producer in a thread of its own. One call at a time."""

    def __init__(self, clients: Clients, transactional_id: str) -> None:
        self._clients = clients
        self._id = transactional_id
        self._producer: Any = None
        self._thread: ClientThread | None = None
        self._abandoned = False

    async def start(self) -> None:
        self._thread = ClientThread("assay-kafka-commit")
        await self._run(self._open)

    async def stop(self) -> None:
        """Safe twice and without start."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.stop(None if self._abandoned else self._close, CLOSE + 1)
            if self._abandoned:
                await asyncio.to_thread(self._drop)

    async def commit(self, intent: Callable[[], Intent]) -> None:
        """Make the transaction that `intent` gives at its start.

        Raises Fenced or `Retryable` when nothing took effect, Unclear when that is not known, and
        what `intent` raises. After Unclear only `stop` may be called: what the client may still do
        is refused by the brokers as soon as the membership has ended.
        """
        try:
            async with asyncio.timeout(BOUND):
                await self._run(self._commit, intent)
        except TimeoutError:
            # The client waits without end for answers that it lost with a connection.
            self._abandoned = True
            raise Unclear from None

    async def _run(self, function: Any, *args: Any) -> Any:
        if self._thread is None:
            raise Permanent("the member is not started")
        return await self._thread.run(function, *args)

    def _open(self) -> None:
        """Begin anew: what a producer of the same id left open is ended first."""
        with mapped("opening the transactional producer"):
            self._producer = build(
                KafkaProducer,
                self._clients.producer(
                    transactional_id=self._id,
                    transaction_timeout_ms=int(TIMEOUT * 1000),
                    delivery_timeout_ms=int(TIMEOUT * 1000),
                    max_block_ms=int(BLOCK * 1000),
                    linger_ms=0,
                ),
            )
            self._producer.init_transactions()

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with mapped("closing the transactional producer"):
                producer.close(timeout=CLOSE)

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            discard(producer)

    def _commit(self, intent: Callable[[], Intent]) -> None:
        if self._producer is None:
            self._open()
        producer = self._producer
        wanted = intent()
        try:
            producer.begin_transaction()
            sent = self._send(wanted)
            if wanted.offsets:
                producer.send_offsets_to_transaction(dict(wanted.offsets), wanted.group)
            self._confirm(sent)
        except (kafka_errors.KafkaError, OSError, RuntimeError, ValueError, TypeError) as error:
            self._abort(error)
            raise AssertionError("an abort always raises") from error
        try:
            producer.commit_transaction()
        except (kafka_errors.KafkaError, OSError, RuntimeError) as error:
            self._drop()
            raise Unclear from error

    def _send(self, wanted: Intent) -> list[Any]:
        return [
            self._producer.send(topic, value=value, key=key, headers=headers, partition=partition)
            for topic, partition, key, value, headers in wanted.records
        ]

    def _confirm(self, sent: Sequence[Any]) -> None:
        if sent:
            self._producer.flush(timeout=TIMEOUT)
            for future in sent:
                future.get(timeout=0)

    def _abort(self, error: Exception) -> None:
        """Undo, and raise what became of it. A transaction whose abort fails is never committed:
        the brokers end it when a producer of this id opens, or in time."""
        try:
            self._producer.abort_transaction()
        except (kafka_errors.KafkaError, OSError, RuntimeError):
            self._drop()
        causes = {type(error).__name__, *(str(arg) for arg in error.args)}
        fenced = (kafka_errors.CommitFailedError, kafka_errors.FencedInstanceIdError)
        if isinstance(error, fenced) or any("CommitFailedError" in cause for cause in causes):
            raise Fenced from error
        mine = ours(error, "committing")
        if isinstance(mine, Permanent) and not isinstance(error, kafka_errors.AuthorizationError):
            raise mine from error
        raise Retryable(str(mine), RETRY_AFTER) from error
