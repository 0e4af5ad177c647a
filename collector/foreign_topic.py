"""Topics that an OpenTelemetry Collector's Kafka exporter writes, taken in as the doors do.

Their keys and partitions are the writer's, so nothing of a trace need meet: each record goes
through `intake.accept`, with its limits, sampling and partitions. A record that is read twice,
after a crash, publishes its spans twice; the assembler drops those that it has already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Literal

from google.protobuf.message import DecodeError
from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Record
from assay.bus.dead_letter import dead_letter
from assay.errors import Permanent, Retryable
from assay.health import Health, Heartbeat
from assay.telemetry import Trouble, error_text
from collector import wire
from collector.intake import Encoding, Intake

MAX_RECORDS = 64
POLL = 0.5
FIRST_DELAY, MAX_DELAY = 0.2, 30.0
STAGE = "intake"
_FIRST_FIELD_BYTES = 0x0A


class ForeignTopic:
    """A member of the group that takes a topic in. `stop` is safe twice and without `start`."""

    def __init__(self, bus: Bus, intake: Intake, topic: str, registry: CollectorRegistry) -> None:
        self.name = f"intake {topic}"
        self._bus = bus
        self._intake = intake
        self._topic = topic
        self._consumer: Consumer | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._heartbeat = Heartbeat(self.lag)
        self._log = logging.getLogger(__name__)
        self._trouble = Trouble(self._log, self.name)
        self._dead = series.instrument(registry, series.INTAKE_DEAD_LETTERS)

    async def start(self) -> None:
        await self._join()
        self._task = asyncio.create_task(self._loop(), name=self.name)

    async def stop(self) -> None:
        """Take in no more, finish what is under way, leave the group."""
        self._stopping.set()
        task, self._task = self._task, None
        if task is not None:
            await task
        await self._leave()

    def lag(self) -> int:
        """Records that wait to be taken in."""
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
                wait = delay
            except Exception as error:  # noqa: BLE001 - a fault in our code must not end the stage
                self._log.exception("%s met a fault of its own and starts over", self.name)
                self._failed(error)
                wait = delay
            # What was delivered and not committed is delivered again to a new member only.
            await self._leave()
            delay = min(delay * 2, MAX_DELAY)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)

    async def _step(self) -> None:
        consumer = self._consumer or await self._join()
        records = await consumer.poll(max_records=MAX_RECORDS, timeout=POLL)
        self._heartbeat.turned()
        if records:
            await consumer.commit(outputs=await self._accept(records), done=records)
            self._trouble.worked()
        self._heartbeat.finished()

    async def _accept(self, records: Sequence[Record]) -> list[Outgoing]:
        """Take the records in; those that are no export requests come back as dead letters."""
        refused = await asyncio.gather(*map(self._accept_one, records))
        return [outgoing for outgoing in refused if outgoing is not None]

    async def _accept_one(self, record: Record) -> Outgoing | None:
        signal, encoding = kind(record.value)
        try:
            accepted = await self._intake.accept(signal, encoding, record.value)
        except Permanent:
            self._dead.labels("undecodable").inc()
            self._intake.answered("kafka", signal, "undecodable")
            return dead_letter(record, stage=STAGE, reason="undecodable")
        self._intake.answered("kafka", signal, "partial" if accepted.rejected else "accepted")
        return None

    async def _join(self) -> Consumer:
        consumer = self._bus.consumer(f"intake-{self._topic}", [self._topic])
        self._consumer = consumer
        await consumer.start()
        return consumer

    async def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    def _failed(self, error: BaseException) -> None:
        self._trouble.failed(error)
        self._heartbeat.failed(error_text(error))


def kind(value: bytes) -> tuple[Literal["traces", "logs"], Encoding]:
    """What a record holds: its topic does not say, and the two requests have one shape.

    JSON names its signal. In protobuf a span begins with its trace id, which is bytes; a log
    record's first field is a time.
    """
    if value[:1] == b"{":
        head = value[:200]
        return ("logs" if b"resourceLogs" in head or b"resource_logs" in head else "traces"), "json"
    return ("traces" if _begins_with_bytes(value) else "logs"), "protobuf"


def _begins_with_bytes(value: bytes) -> bool:
    """Whether the first item has bytes as its field 1. What cannot be read passes for a trace: it
    is refused as such."""
    try:
        for group in wire.take_apart(value):
            for scope in group.scopes:
                for _, start, end in scope.items:
                    return bool(wire.split(value, start, end, _FIRST_FIELD_BYTES, MAX_RECORDS)[1])
    except DecodeError:
        return True
    return True
