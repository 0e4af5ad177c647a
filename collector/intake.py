"""The one function in which both doors end: an export request in, records on the bus."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Outgoing
from assay.bus.topics import SPANS
from assay.config import Config
from assay.errors import AssayError, Retryable
from assay.telemetry import Trouble
from collector import otlp_json
from collector.slices import cut
from collector.splitting import split

logger = logging.getLogger(__name__)

Signal = Literal["traces", "logs", "metrics"]
Encoding = Literal["protobuf", "json"]

PENDING_REQUESTS = 8
"""How many requests of the largest size may be on their way to the bus together."""
THREAD_ABOVE = 256_000
"""Bytes of JSON whose reading would hold the event loop for too long."""

_REJECTED = ("malformed", "invalid_trace_id", "invalid_span_id")


class Accepted(NamedTuple):
    """What became of a request that was taken in."""

    rejected: int = 0
    """Spans or log records that are at fault: sending them again will not help."""
    message: str = ""
    """How many for which reason; empty when there are none."""


class Intake:
    """Takes in what the doors of a process receive."""

    def __init__(self, bus: Bus, config: Config, registry: CollectorRegistry) -> None:
        self._bus = bus
        self._head_ratio = config.sampling.head_ratio
        self._max_pending = PENDING_REQUESTS * config.collector.max_request
        self._pending = 0
        self._trouble = Trouble(logger, "writing spans to the stream")
        self._requests = series.instrument(registry, series.REQUESTS)
        self._accepted = series.instrument(registry, series.ACCEPTED)
        self._dropped = series.instrument(registry, series.DROPPED)
        self._unsampled = series.instrument(registry, series.UNSAMPLED_TRACES)

    async def accept(self, signal: Signal, encoding: Encoding, body: bytes) -> Accepted:
        """Take in an OTLP export request; metrics are discarded unread.

        Returns when the bus holds every span and log record that was not dropped. Raises Permanent
        when the body is no such request, and Retryable when nothing was taken in and the same
        request may be sent again.
        """
        if signal == "metrics":
            return Accepted()
        size = len(body)
        if self._pending + size > self._max_pending:
            raise Retryable("too many requests are waiting for the stream", retry_after=1.0)
        self._pending += size
        try:
            unreadable: Counter[str] = Counter()
            if encoding == "json":
                if size > THREAD_ABOVE:
                    body = await asyncio.to_thread(_from_json, signal, body, unreadable)
                else:
                    body = _from_json(signal, body, unreadable)
            outgoing, kept, dropped, unsampled_roots = cut(
                signal,
                body,
                head_ratio=self._head_ratio,
                partitions=self._bus.partitions(SPANS),
            )
            if outgoing:
                await self._publish(outgoing)
        finally:
            self._pending -= size
        dropped += unreadable
        self._accepted.labels(signal).inc(kept)
        for reason, count in dropped.items():
            self._dropped.labels(signal, reason).inc(count)
        if unsampled_roots:
            self._unsampled.inc(unsampled_roots)
        rejected = {reason: dropped[reason] for reason in _REJECTED if dropped[reason]}
        return Accepted(
            sum(rejected.values()),
            ", ".join(f"{count} {reason}" for reason, count in rejected.items()),
        )

    async def _publish(self, outgoing: list[Outgoing]) -> None:
        try:
            most = self._bus.max_value
            await self._bus.publish([piece for record in outgoing for piece in split(record, most)])
        except AssayError as error:
            self._trouble.failed(error)
            raise
        self._trouble.worked()

    def answered(
        self, door: Literal["http", "grpc", "kafka"], signal: Signal, outcome: str
    ) -> None:
        """Count an answer: `outcome` is accepted, partial, or the reason of a refusal."""
        self._requests.labels(door, signal, outcome).inc()


def _from_json(signal: Literal["traces", "logs"], body: bytes, unreadable: Counter[str]) -> bytes:
    def reject(reason: str, count: int) -> None:
        unreadable[reason] += count

    parse = otlp_json.parse_traces if signal == "traces" else otlp_json.parse_logs
    return parse(body, reject).SerializeToString()
