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
from arro3.core import RecordBatch, Table
from prometheus_client import CollectorRegistry

from assay import series
from assay.bus import topics
from assay.bus.contract import Bus, Consumer, Outgoing, Position, Record, StateChange
from assay.bus.dead_letter import dead_letter
from assay.errors import AssayError
from assay.records import TurnScores, decode_turn, decode_turn_scores
from assay.stage import later_schema
from assay.store import TABLES, Source, Store
from assay.telemetry import Trouble
from exporters.stage import Stage, StageSeries

INTERVAL = 10.0
"""Seconds between commits."""
MAX_ROWS = 50_000
"""Rows that one commit may hold."""
MAX_BYTES = 64 * 2**20
"""Bytes of records that one commit may hold."""
SLICE = {"turns": 250, "scores": 2000}
"""Rows that become columns together: enough to be quick, few enough to hold nobody up."""
HOLD = 0.005
"""Longest time for which the event loop is held, seconds."""
MAINTENANCE = 600.0
"""Seconds between compactions."""
STREAM = "stream"
_TABLE = {topics.TURNS: "turns", topics.SCORES: "scores"}


class _Pending:
    """Rows of one partition of one topic, with the offsets that they came from.

    They become columns before the commit: columns take a fraction of the memory of records, and so
    many records that live on would keep the garbage collector busy.
    """

    def __init__(self, table: str) -> None:
        self.table = table
        self.offsets: list[int] = []
        self.next_offset = 0
        self._slice = SLICE[table]
        self._batches: list[RecordBatch] = []
        self._fresh: list[Any] = []

    def add(self, offset: int, rows: list[Any]) -> None:
        self.offsets += [offset] * len(rows)
        self._fresh += rows
        if len(self._fresh) >= self._slice:
            self._to_columns()

    def rows(self) -> Table:
        """All rows; there must be one."""
        if self._fresh:
            self._to_columns()
        return Table.from_batches(self._batches)

    def _to_columns(self) -> None:
        self._batches += TABLES[self.table].arrow(self._fresh).to_batches()
        self._fresh = []


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
        breath = time.monotonic()
        for record in records:
            if time.monotonic() - breath > HOLD:
                await asyncio.sleep(0)
                breath = time.monotonic()
            place = record.topic, record.partition
            pending = self._pending.get(place)
            if pending is None:
                pending = self._pending[place] = _Pending(_TABLE[record.topic])
            pending.next_offset = record.offset + 1
            self._done.append(Position(*record[:3]))
            self._bytes += len(record.value)
            if later_schema(record):
                self._refuse(record, "schema")
                continue
            try:
                rows = _rows(record)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._refuse(record, "unreadable")
                continue
            pending.add(record.offset, rows)
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
            sources = []
            for (name, partition), pending in self._pending.items():
                if name == topic and pending.offsets:
                    rows = pending.rows()
                    await asyncio.sleep(0)
                    place = self._source(topic, partition)
                    sources.append(Source(place, pending.offsets, rows, pending.next_offset))
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
