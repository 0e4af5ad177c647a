"""Turns and scores into the store, one row each, exactly once.

Rows are appended before the offsets are committed. A crash between the two has the bus deliver the
records again; the store recognises them by the offsets in its own commits. The name under which it
knows a partition holds a random part that is kept as the partition's state, so that a stream that
was begun anew, its offsets at nought again, is not taken for one that is stored already.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from assay import series
from assay.bus import topics
from assay.bus.contract import Bus, Consumer, Outgoing, Position, Record, StateChange
from assay.bus.dead_letter import dead_letter
from assay.errors import AssayError
from assay.records import TurnScores, decode_turn, decode_turn_scores
from assay.store import Source, Store
from assay.telemetry import Trouble
from exporters.stage import Stage, StageSeries, later_schema

INTERVAL = 10.0
"""Seconds between commits."""
MAX_ROWS = 50_000
"""Rows that one commit may hold."""
MAX_BYTES = 64 * 2**20
"""Bytes of records that one commit may hold."""
SLICE = 50
"""Records between which other work of the process gets its turn."""
MAINTENANCE = 600.0
"""Seconds between compactions."""
STREAM = "stream"
_TABLE = {topics.TURNS: "turns", topics.SCORES: "scores"}


class _Pending:
    """Rows of one partition of one topic, with the offsets that they came from."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.rows: list[Any] = []
        self.next_offset = 0


class StoreSink(Stage):
    """The consumer group that fills the store."""

    name = "store"
    topics = (topics.TURNS, topics.SCORES)

    def __init__(
        self, bus: Bus, shared: StageSeries, registry: CollectorRegistry, store: Store
    ) -> None:
        super().__init__(bus, shared)
        self._store = store
        self._streams: dict[int, str] = {}
        self._unnamed: set[int] = set()
        self._pending: dict[tuple[str, int], _Pending] = {}
        self._done: list[Position] = []
        self._bad: list[Outgoing] = []
        self._count = self._bytes = 0
        self._since = math.inf
        self._rows = series.instrument(registry, series.STORE_ROWS)
        self._replayed = series.instrument(registry, series.STORE_REPLAYED)
        self._maintenance: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await super().start()
        self._maintenance = asyncio.create_task(self._maintain(), name="store maintenance")

    async def stop(self) -> None:
        await super().stop()
        task, self._maintenance = self._maintenance, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _assigned(self, partition: int, state: Mapping[str, bytes]) -> None:
        known = state.get(STREAM)
        if known is None:
            self._unnamed.add(partition)
        self._streams[partition] = known.decode() if known else secrets.token_hex(8)

    async def _withdrawn(self, partition: int) -> None:
        self._streams.pop(partition, None)
        self._unnamed.discard(partition)

    async def _take_in(self, records: Sequence[Record]) -> None:
        self._since = min(self._since, time.monotonic())
        for index, record in enumerate(records):
            if index % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            pending = self._pending.setdefault((record.topic, record.partition), _Pending())
            pending.next_offset = record.offset + 1
            self._done.append(Position(*record[:3]))
            self._bytes += len(record.value)
            if later_schema(record):
                self._refuse(record, "schema")
                continue
            try:
                rows = _rows(record)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self._refuse(record, "unreadable")
                continue
            pending.rows += rows
            pending.offsets += [record.offset] * len(rows)
            self._count += len(rows)

    def _due(self) -> float:
        if self._count >= MAX_ROWS or self._bytes >= MAX_BYTES:
            return 0.0
        return self._since + INTERVAL - time.monotonic()

    async def _flush(self, consumer: Consumer) -> None:
        if not self._done:
            return
        if self._unnamed:
            names = [StateChange(p, STREAM, self._streams[p].encode()) for p in self._unnamed]
            await consumer.commit(state=names)
            self._unnamed.clear()
        for topic, table in _TABLE.items():
            sources = [
                Source(self._source(topic, partition), p.offsets, p.rows, p.next_offset)
                for (name, partition), p in self._pending.items()
                if name == topic and p.rows
            ]
            if sources:
                appended = await self._store.append(table, sources)
                self._rows.labels(table).inc(appended.rows)
                self._replayed.labels(table).inc(appended.replayed)
        await consumer.commit(outputs=self._bad, done=self._done)
        self._discard()

    def _source(self, topic: str, partition: int) -> str:
        return f"{topic}/{partition}/{self._streams[partition]}"

    def _discard(self) -> None:
        self._pending, self._done, self._bad = {}, [], []
        self._count = self._bytes = 0
        self._since = math.inf

    def _refuse(self, record: Record, reason: str) -> None:
        self._dead_letters.labels(self.name, reason).inc()
        self._bad.append(dead_letter(record, stage=self.name, reason=reason))

    async def _maintain(self) -> None:
        trouble = Trouble(logging.getLogger(__name__), "the store's maintenance")
        while True:
            await asyncio.sleep(MAINTENANCE)
            try:
                await self._store.maintain()
                trouble.worked()
            except AssayError as error:
                trouble.failed(error)


def _rows(record: Record) -> list[Any]:
    if record.topic == topics.TURNS:
        return [decode_turn(record.value)]
    scores: TurnScores = decode_turn_scores(record.value)
    return [(scores, entry) for entry in scores.scores]
