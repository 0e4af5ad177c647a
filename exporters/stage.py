"""The loop that every exporter runs: read, take in, commit when due, and start over on trouble.

A stage is a member of one consumer group. What it has taken in and not yet committed is its
pending work: it is committed before a partition is given away, tried again while the failure may
pass, and dropped with the membership when it may not, for then the bus delivers it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Record
from assay.errors import AssayError, Permanent, Retryable, retrying
from assay.health import Health, Heartbeat
from assay.records import SCHEMA_VERSION
from assay.telemetry import Trouble, error_text

FIRST_DELAY, MAX_DELAY = 0.2, 30.0
"""Seconds between attempts."""
LONGEST_POLL = 0.5
GATHER = 0.1
"""Seconds to wait after a poll that brought little, so that the next one brings more: each costs
the same, whatever it brings."""
LITTLE = 0.25
"""Of the records that a poll may bring."""
GIVE_AWAY = 10.0
"""Seconds in which pending work is to be committed when a partition or the stage ends."""


class StageSeries:
    """The series that the stages of one process share. Made once per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.retries = series.instrument(registry, series.EXPORT_RETRIES)
        self.lag = series.instrument(registry, series.EXPORT_LAG)
        self.dead_letters = series.instrument(registry, series.EXPORT_DEAD_LETTERS)


class Stage(ABC):
    """A consumer group's member with its loop. `start` once; `stop` is safe twice and without."""

    name: str
    """Of the stage, and of its consumer group."""
    topics: Sequence[str]
    max_records = 500

    def __init__(self, bus: Bus, shared: StageSeries) -> None:
        self._bus = bus
        self._consumer: Consumer | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._heartbeat = Heartbeat(self.lag)
        self._log = logging.getLogger(type(self).__module__)
        self._trouble = Trouble(self._log, self.name)
        self._retries = shared.retries.labels(self.name)
        self._dead_letters = shared.dead_letters
        shared.lag.labels(self.name).set_function(self.lag)

    # What a stage does with its records.

    @abstractmethod
    async def _take_in(self, records: Sequence[Record]) -> None:
        """Add the records to the pending work. Must not fail on any data."""

    @abstractmethod
    def _due(self) -> float:
        """Seconds until the pending work is to be committed; infinite when there is none."""

    @abstractmethod
    async def _flush(self, consumer: Consumer) -> None:
        """Commit the pending work, if there is any. On an error all of it is still pending."""

    @abstractmethod
    def _discard(self) -> None:
        """Forget pending work and state."""

    async def _assigned(self, partition: int, state: Mapping[str, bytes]) -> None:
        """A partition is ours; `state` is what was committed with it."""
        del partition, state

    async def _withdrawn(self, partition: int) -> None:
        """A partition is no longer ours; the pending work has been committed."""
        del partition

    # The loop.

    async def start(self) -> None:
        await self._open()
        self._task = asyncio.create_task(self._loop(), name=self.name)

    async def stop(self) -> None:
        """Read no more, commit what is pending, leave the group."""
        self._stopping.set()
        task, self._task = self._task, None
        if task is not None:
            await task
        if self._consumer is not None:
            await self._give_away(self._consumer)
            await self._close()

    def lag(self) -> int:
        """Records that this member has not finished."""
        return self._consumer.lag() if self._consumer is not None else 0

    def health(self) -> Health:
        return self._heartbeat.health()

    async def _loop(self) -> None:
        delay = FIRST_DELAY
        while not self._stopping.is_set():
            try:
                await self._step()
                delay = FIRST_DELAY
                continue
            except Retryable as error:
                self._failed(error)
                wait = max(delay, error.retry_after or 0.0)
            except Permanent as error:
                self._failed(error)
                self._discard()
                await self._close()
                wait = delay
            except Exception as error:  # noqa: BLE001 - a fault in our code must not end the stage
                self._log.exception("%s met a fault of its own and starts over", self.name)
                self._failed(error)
                self._discard()
                await self._close()
                wait = delay
            delay = min(delay * 2, MAX_DELAY)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)

    async def _step(self) -> None:
        consumer = self._consumer
        if consumer is None:
            consumer = await self._open()
        if self._due() <= 0:
            await self._flush(consumer)
            self._worked()
        timeout = min(LONGEST_POLL, max(0.0, self._due()))
        records = await consumer.poll(max_records=self.max_records, timeout=timeout)
        if records:
            await self._take_in(records)
            self._heartbeat.turned()
            if len(records) < LITTLE * self.max_records:
                await asyncio.sleep(min(GATHER, max(0.0, self._due())))
        elif math.isinf(self._due()):
            self._worked()

    async def _open(self) -> Consumer:
        consumer = self._bus.consumer(
            self.name, self.topics, on_assigned=self._assigned, on_revoked=self._revoked
        )
        self._consumer = consumer
        await consumer.start()
        return consumer

    async def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def _revoked(self, partition: int) -> None:
        """Raises `Permanent` when pending work was dropped: that of the partitions which stay would
        not be delivered to this member again."""
        kept = self._consumer is None or await self._give_away(self._consumer)
        await self._withdrawn(partition)
        if not kept:
            raise Permanent(f"{self.name}: pending work could not be committed in time")

    async def _give_away(self, consumer: Consumer) -> bool:
        """Commit what is pending, or drop it and say so: the bus delivers it again."""
        try:
            await retrying(lambda: self._flush(consumer), deadline=GIVE_AWAY)
        except AssayError as error:
            self._failed(error)
            self._discard()
            return False
        return True

    def _worked(self) -> None:
        self._trouble.worked()
        self._heartbeat.finished()

    def _failed(self, error: BaseException) -> None:
        self._retries.inc()
        self._trouble.failed(error)
        self._heartbeat.failed(error_text(error))


def later_schema(record: Record) -> bool:
    """The record was written by a later version whose meaning is not known here."""
    text = record.headers.get("schema", "")
    return text.isascii() and text.isdigit() and int(text) > SCHEMA_VERSION
