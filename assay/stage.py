"""The loop that every stage runs: join a consumer group, work in steps, back off, start over.

A stage is a member of one group. What it has read and not committed is lost with its membership,
for then the bus delivers it again: so a failure that may pass is met by another step, and one that
may not by leaving the group and joining it anew.
"""

# ruff: noqa: B027 - a stage without anything to do at one of these moments does nothing then.

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from prometheus_client import Counter

from assay.bus.contract import Bus, Consumer, Record
from assay.errors import Permanent, Retryable
from assay.health import Health, Heartbeat
from assay.records import SCHEMA_VERSION
from assay.telemetry import Trouble, error_text

FIRST_DELAY, MAX_DELAY = 0.2, 30.0
"""Seconds between attempts."""


class Stage(ABC):
    """A consumer group's member with its loop. `start` once; `stop` is safe twice and without."""

    def __init__(
        self,
        bus: Bus,
        group: str,
        topics: Sequence[str],
        *,
        what: str = "",
        retries: Counter | None = None,
        state_ttl: float | None = None,
    ) -> None:
        """`what` is the stage's name in the log, the group's without it; `retries` counts attempts
        that failed; `state_ttl` is the consumer's."""
        self._bus = bus
        self._group = group
        self._topics = topics
        self._what = what or group
        self._retries = retries
        self._state_ttl = state_ttl
        self._consumer: Consumer | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._heartbeat = Heartbeat(self.lag)
        self._log = logging.getLogger(type(self).__module__)
        self._trouble = Trouble(self._log, self._what)

    # What a stage does.

    @abstractmethod
    async def _step(self, consumer: Consumer) -> None:
        """Read, and do what is to be done; return within about a second."""

    async def _hand_over(self, consumer: Consumer) -> None:
        """The group is about to be left: commit what can be committed soon."""

    def _discard(self) -> None:
        """Forget what was read and not committed."""

    async def _assigned(self, partition: int, state: Mapping[str, bytes]) -> None:
        """A partition is ours; `state` is what was committed with it."""

    async def _revoked(self, partition: int) -> None:
        """A partition goes; what is not committed by the return will be read again."""

    # The loop.

    async def start(self) -> None:
        """Join the group and begin."""
        await self._join()
        self._task = asyncio.create_task(self._run(), name=self._what)

    async def stop(self) -> None:
        """Read no more, commit what can be committed soon, leave the group."""
        self._stopping.set()
        task, self._task = self._task, None
        if task is not None:
            await task
        await self._leave()

    def lag(self) -> int:
        """Records that this member has not finished."""
        return self._consumer.lag() if self._consumer is not None else 0

    def health(self) -> Health:
        return self._heartbeat.health()

    async def _run(self) -> None:
        delay = FIRST_DELAY
        while not self._stopping.is_set():
            try:
                await self._step(self._consumer or await self._join())
                delay = FIRST_DELAY
                continue
            except Retryable as error:
                self._failed(error)
                wait = max(delay, error.retry_after or 0.0)
            except Permanent as error:
                self._failed(error)
                await self._start_over()
                wait = delay
            except Exception as error:  # noqa: BLE001 - a fault in our code must not end the stage
                self._log.exception("%s met a fault of its own and starts over", self._what)
                self._failed(error)
                await self._start_over()
                wait = delay
            delay = min(delay * 2, MAX_DELAY)
            await self._pause(wait)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not for longer than until the stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _join(self) -> Consumer:
        consumer = self._bus.consumer(
            self._group,
            self._topics,
            state_ttl=self._state_ttl,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
        )
        self._consumer = consumer
        try:
            await consumer.start()
        except BaseException:
            self._consumer = None
            await consumer.stop()
            raise
        return consumer

    async def _leave(self) -> None:
        consumer = self._consumer
        if consumer is None:
            return
        try:
            await self._hand_over(consumer)
        finally:
            self._consumer = None
            await consumer.stop()
            self._discard()

    async def _start_over(self) -> None:
        try:
            await self._leave()
        except Exception as error:  # noqa: BLE001 - nor may one that comes up while leaving
            self._log.exception("%s met a fault of its own while it left its group", self._what)
            self._failed(error)

    def _worked(self) -> None:
        self._trouble.worked()
        self._heartbeat.finished()

    def _retried(self, error: Retryable, wait: float) -> None:
        """For `retrying`: an attempt failed and will be made again."""
        del wait
        self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if self._retries is not None:
            self._retries.inc()
        self._trouble.failed(error)
        self._heartbeat.failed(error_text(error))


def later_schema(record: Record) -> bool:
    """The record was written by a later version whose meaning is not known here."""
    text = record.headers.get("schema", "")
    return text.isascii() and text.isdigit() and int(text) > SCHEMA_VERSION
