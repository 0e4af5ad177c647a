"""What all exporters share: take records in, commit when due.

What a stage has taken in and not yet committed is its pending work: it is committed before a
partition is given away, tried again while the failure may pass, and dropped with the membership
when it may not.
"""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from assay import series
from assay import stage as core
from assay.bus.contract import Bus, Consumer, Record
from assay.errors import AssayError, Permanent, retrying

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


class Stage(core.Stage):
    """A stage that gathers what it reads and commits it now and then."""

    name: str
    """Of the stage, and of its consumer group."""
    topics: Sequence[str]
    max_records = 500

    def __init__(self, bus: Bus, shared: StageSeries) -> None:
        super().__init__(bus, self.name, self.topics, retries=shared.retries.labels(self.name))
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

    async def _withdrawn(self, partition: int) -> None:
        """A partition is no longer ours; the pending work has been committed."""
        del partition

    # The loop.

    async def _step(self, consumer: Consumer) -> None:
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

    async def _hand_over(self, consumer: Consumer) -> None:
        await self._give_away(consumer)

    async def _start_over(self) -> None:
        # It cannot be known what of the pending work took effect.
        self._discard()
        await super()._start_over()

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
