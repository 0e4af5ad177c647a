"""Topics that an OpenTelemetry Collector's Kafka exporter writes, taken in as the doors do.

Their keys and partitions are the writer's, so nothing of a trace need meet: each record goes
through `intake.accept`, with its limits, sampling and partitions. A record that is read twice,
after a crash, publishes its spans twice; the assembler drops those that it has already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from google.protobuf.message import DecodeError
from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Record
from assay.bus.dead_letter import dead_letter
from assay.errors import Permanent, Retryable
from assay.stage import Stage
from collector import wire
from collector.intake import Encoding, Intake

MAX_RECORDS = 64
POLL = 0.5
STAGE = "intake"
_FIRST_FIELD_BYTES = 0x0A


class ForeignTopic(Stage):
    """A member of the group that takes a topic in."""

    def __init__(self, bus: Bus, intake: Intake, topic: str, registry: CollectorRegistry) -> None:
        self.name = f"intake {topic}"
        super().__init__(bus, f"intake-{topic}", [topic], what=self.name)
        self._intake = intake
        self._dead = series.shared(registry, series.INTAKE_DEAD_LETTERS)

    async def _step(self, consumer: Consumer) -> None:
        records = await consumer.poll(max_records=MAX_RECORDS, timeout=POLL)
        self._heartbeat.turned()
        if records:
            try:
                await consumer.commit(outputs=await self._accept(records), done=records)
            except Retryable:
                # What was delivered and not committed is delivered again to a new member only.
                await self._leave()
                raise
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
