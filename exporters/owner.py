"""The one who adds the deltas up: others stand by in its group and take over with its state."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry

from assay import catalogue, records, series
from assay.bus import topics
from assay.bus.contract import Bus, Consumer, Outgoing, Position, Record, StateChange
from assay.bus.dead_letter import dead_letter
from assay.errors import Permanent
from assay.records import Kind, OutcomeCount, Rollup, SeriesKey, Subject, Tally
from exporters.rollup import Contract
from exporters.samples import QualitySeries
from exporters.stage import Stage, StageSeries, later_schema
from exporters.windows import Windows

INTERVAL = 10.0
"""Seconds between commits of the state."""
MAX_RECORDS = 10_000
"""Batches that one commit may stand for."""


class Configured(msgspec.Struct, frozen=True):
    """A metric that is configured for an app: each of its turns has one evaluation of it."""

    metric: str
    engine: str
    kind: Kind
    subject: Subject


class Owner(Stage):
    """Adds RollupBatches into windows and counters, and exposes them while it owns them."""

    name = "windows"
    topics = (topics.ROLLUPS,)

    def __init__(
        self,
        bus: Bus,
        shared: StageSeries,
        registry: CollectorRegistry,
        *,
        configured: Callable[[str], Sequence[Configured]],
        contract: Contract = catalogue.contract,
        max_series: int = 5000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`configured` gives what is asked of each turn of an app. The quality series are
        registered in `registry`."""
        super().__init__(bus, shared)
        self._configured = configured
        self._new_windows = partial(Windows, contract, max_series=max_series, clock=clock)
        self._clock = clock
        self.windows: Windows | None = None
        """None while another member owns them."""
        self._done: list[Position] = []
        self._bad: list[Outgoing] = []
        self._since = math.inf
        self._folded = series.instrument(registry, series.FOLDED)
        registry.register(QualitySeries(lambda: self.windows, clock))

    async def _assigned(self, partition: int, state: Mapping[str, bytes]) -> None:
        windows = self._new_windows()
        try:
            windows.restore(state)
        except (msgspec.MsgspecError, ValueError, KeyError) as error:
            raise Permanent(
                "the state of the windows was written by another version or is damaged"
            ) from error
        self.windows = windows

    async def _withdrawn(self, partition: int) -> None:
        self._discard()

    async def _take_in(self, batch: Sequence[Record]) -> None:
        self._since = min(self._since, time.monotonic())
        for record in batch:
            self._done.append(Position(*record[:3]))
            if later_schema(record):
                self._refuse(record, "schema")
                continue
            try:
                deltas = records.decode_rollups(record.value)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self._refuse(record, "unreadable")
                continue
            self._add(deltas)

    def _add(self, deltas: records.RollupBatch) -> None:
        windows = self.windows
        if windows is None:
            return
        for rollup in deltas.rollups:
            windows.add(rollup)
        for tally in deltas.tallies:
            windows.add_tally(tally)
            if tally.sampled_out:
                for configured in self._configured(tally.app):
                    if configured.subject != "conversation":
                        windows.add(_never_scored(tally, configured))
        for label, n in windows.labels.folded.items():
            if n:
                self._folded.labels(label).inc(n)
                windows.labels.folded[label] = 0

    def _due(self) -> float:
        if len(self._done) >= MAX_RECORDS:
            return 0.0
        return self._since + INTERVAL - time.monotonic()

    async def _flush(self, consumer: Consumer) -> None:
        if not self._done or self.windows is None:
            return
        changes = self.windows.changes(int(self._clock() // 60))
        await consumer.commit(
            outputs=self._bad,
            done=self._done,
            state=[StateChange(0, key, value) for key, value in changes.items()],
        )
        self.windows.committed(changes)
        self._done, self._bad, self._since = [], [], math.inf

    def _discard(self) -> None:
        self.windows = None
        self._done, self._bad, self._since = [], [], math.inf

    def _refuse(self, record: Record, reason: str) -> None:
        self._dead_letters.labels(self.name, reason).inc()
        self._bad.append(dead_letter(record, stage=self.name, reason=reason))


def _never_scored(tally: Tally, configured: Configured) -> Rollup:
    """The evaluations that a metric did not get because the assembler sampled turns out."""
    key = SeriesKey(
        tally.app,
        tally.environment,
        configured.metric,
        configured.engine,
        configured.kind,
        configured.subject,
    )
    return Rollup(
        key=key,
        minute=tally.minute,
        outcomes=[OutcomeCount("sampled_out", "turn", tally.sampled_out)],
    )
