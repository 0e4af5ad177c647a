"""Writing outside any transaction: what the doors take in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from kafka import KafkaProducer
from kafka import errors as kafka_errors

from assay.bus.kafka_options import RETRY_AFTER, Clients, build, discard, mapped, ours
from assay.bus.kafka_records import Ready
from assay.bus.kafka_thread import ClientThread
from assay.errors import Permanent, Retryable

DELIVERY = 8.0
"""Seconds within which the brokers must have confirmed; below what exporters wait for an answer."""
CLOSE = 10.0


class Publisher:
    """One idempotent producer, used from one thread."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._producer: Any = None
        self._thread: ClientThread | None = None
        self._refused_until = 0.0
        self._refusal = ""

    async def start(self) -> None:
        self._thread = ClientThread("assay-kafka-publish")
        await self._run(self._open)

    async def stop(self) -> None:
        """Finish what was accepted. Safe twice and without start."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.stop(self._close, CLOSE + 1)

    async def publish(self, records: Sequence[Ready]) -> None:
        """Return when all are durable. Raises `Retryable` when that is not known.

        After a failure senders are turned away for a moment, so that they need not wait for the
        delivery time to run out one by one.
        """
        if not records:
            return
        if time.monotonic() < self._refused_until:
            raise Retryable(self._refusal, RETRY_AFTER)
        loop = asyncio.get_running_loop()
        confirmed: asyncio.Future[None] = loop.create_future()
        waiting = _Waiting(len(records), loop, confirmed)
        await self._run(self._send, records, waiting)
        try:
            await confirmed
        except kafka_errors.KafkaError as error:
            self._refused_until = time.monotonic() + RETRY_AFTER
            if not getattr(error, "retriable", False):
                await self._run(self._reopen)
            mine = ours(error, "publishing")
            self._refusal = str(mine)
            raise mine from error

    async def _run(self, function: Any, *args: Any) -> Any:
        if self._thread is None:
            raise Retryable("the bus is stopped")
        return await self._thread.run(function, *args)

    def _open(self) -> None:
        with mapped("opening the producer"):
            self._producer = build(
                KafkaProducer,
                self._clients.producer(
                    linger_ms=2,
                    delivery_timeout_ms=int(DELIVERY * 1000),
                    request_timeout_ms=int(DELIVERY * 500),
                    max_block_ms=int(DELIVERY * 1000),
                ),
            )

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with mapped("closing the producer"):
                producer.close(timeout=CLOSE)

    def _reopen(self) -> None:
        """An idempotent producer that met a fatal error cannot be used again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            discard(producer)
        self._open()

    def _send(self, records: Sequence[Ready], waiting: _Waiting) -> None:
        if self._producer is None:
            self._open()
        for topic, partition, key, value, headers in records:
            try:
                future = self._producer.send(
                    topic, value=value, key=key, headers=headers, partition=partition
                )
            except kafka_errors.KafkaError as error:
                waiting.failed(error)
                return
            except (ValueError, TypeError, AssertionError) as error:
                raise Permanent(f"a record cannot be written: {error}") from error
            future.add_callback(waiting.succeeded)
            future.add_errback(waiting.failed)


class _Waiting:
    """Counts the confirmations of one call; they come in the producer's thread."""

    def __init__(
        self, count: int, loop: asyncio.AbstractEventLoop, confirmed: asyncio.Future[None]
    ) -> None:
        self._left = count
        self._loop = loop
        self._confirmed = confirmed

    def succeeded(self, _: object) -> None:
        self._left -= 1
        if self._left == 0:
            self._settle(None)

    def failed(self, error: BaseException) -> None:
        self._left = -1
        self._settle(error)

    def _settle(self, error: BaseException | None) -> None:
        def settle() -> None:
            if self._confirmed.done():
                return
            if error is None:
                self._confirmed.set_result(None)
            else:
                self._confirmed.set_exception(error)

        self._loop.call_soon_threadsafe(settle)
