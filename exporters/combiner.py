"""Scores in, deltas out: any number of these share the work."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Sequence
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry

from assay import catalogue, records, series
from assay.bus import topics
from assay.bus.contract import Bus, Consumer, Outgoing, Position, Record
from assay.bus.dead_letter import dead_letter
from assay.stage import later_schema
from exporters.rollup import Contract, Sums, decode_entries
from exporters.stage import Stage, StageSeries

INTERVAL = 0.5
"""Seconds between deltas."""
MAX_RECORDS = 20_000
"""Records that one delta may stand for."""
BATCH = 1000
"""Rollups of one record on the bus, so that it stays well below a broker's limit."""
SLICE = 50
"""Records between which other work of the process gets its turn."""


class Combiner(Stage):
    """Adds up TurnScores and publishes a RollupBatch in the commit of their offsets."""

    name = "combiner"
    topics = (topics.SCORES,)

    def __init__(
        self,
        bus: Bus,
        shared: StageSeries,
        registry: CollectorRegistry,
        *,
        contract: Contract = catalogue.contract,
        labels: Collection[str] = (),
    ) -> None:
        super().__init__(bus, shared)
        self._new_sums = partial(Sums, contract, labels)
        self._sums = self._new_sums()
        self._done: list[Position] = []
        self._bad: list[Outgoing] = []
        self._since = math.inf
        self._entries = series.instrument(registry, series.ROLLUP_ENTRIES)

    async def _take_in(self, records: Sequence[Record]) -> None:
        self._since = min(self._since, time.monotonic())
        for index, record in enumerate(records):
            if index % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            self._done.append(Position(*record[:3]))
            if later_schema(record):
                self._refuse(record, "schema")
                continue
            try:
                turn = decode_entries(record.value)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._refuse(record, "unreadable")
                continue
            self._sums.add(turn)

    def _due(self) -> float:
        if len(self._done) >= MAX_RECORDS:
            return 0.0
        return self._since + INTERVAL - time.monotonic()

    async def _flush(self, consumer: Consumer) -> None:
        if not self._done:
            return
        rollups = self._sums.rollups()
        outputs = [
            Outgoing(
                topics.ROLLUPS,
                records.encode(records.RollupBatch(rollups=rollups[start : start + BATCH])),
                partition=0,
                headers={"schema": str(records.SCHEMA_VERSION)},
            )
            for start in range(0, len(rollups), BATCH)
        ]
        await consumer.commit(outputs=[*outputs, *self._bad], done=self._done)
        self._entries.inc(self._sums.entries)
        self._discard()

    def _discard(self) -> None:
        self._sums = self._new_sums()
        self._done, self._bad, self._since = [], [], math.inf

    def _refuse(self, record: Record, reason: str) -> None:
        self._dead_letters.labels(self.name, reason).inc()
        self._bad.append(dead_letter(record, stage=self.name, reason=reason))
