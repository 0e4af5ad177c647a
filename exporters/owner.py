"""The one who adds the deltas up: others stand by in its group and take over with its state."""

from __future__ import annotations

import asyncio
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
from assay.stage import later_schema
from assay.telemetry import Trouble
from exporters.alert_samples import AlertSeries
from exporters.alerting.alerts import PREFIX, Alerts
from exporters.rollup import Contract
from exporters.samples import QualitySeries
from exporters.stage import Stage, StageSeries
from exporters.windows import Windows

INTERVAL = 10.0
"""Seconds between commits of the state."""
EVALUATED_EVERY = 5.0
"""Seconds between evaluations of the alerts."""
BEHIND = 100
"""Batches that wait, from which on the windows are behind the stream."""
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
        alerts: Alerts | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`configured` gives what is asked of each turn of an app. The quality series are
        registered in `registry`. `alerts` are evaluated while the windows are owned."""
        super().__init__(bus, shared)
        self._configured = configured
        self._new_windows = partial(Windows, contract, max_series=max_series, clock=clock)
        self._clock = clock
        self.windows: Windows | None = None
        """None while another member owns them."""
        self._done: list[Position] = []
        self._bad: list[Outgoing] = []
        self._since = math.inf
        self._alerts = alerts if alerts is not None else Alerts((), budgets={})
        self._watched = Trouble(self._log, "alerts")
        self._watching: asyncio.Task[None] | None = None
        self._folded = series.instrument(registry, series.FOLDED)
        self._quality = QualitySeries(lambda: self.windows, clock)
        registry.register(self._quality)
        registry.register(AlertSeries(self.alerts))

    def alerts(self) -> Alerts | None:
        """None while another member owns them."""
        return self._alerts if self.windows is not None else None

    async def start(self) -> None:
        await super().start()
        self._watching = asyncio.create_task(self._watch(), name="alerts")

    async def stop(self) -> None:
        """Evaluate no more; then as every stage."""
        task, self._watching = self._watching, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await super().stop()

    async def _assigned(self, partition: int, state: Mapping[str, bytes]) -> None:
        windows = self._new_windows()
        of_alerts = {key: value for key, value in state.items() if key.startswith(PREFIX)}
        try:
            windows.restore({k: v for k, v in state.items() if k not in of_alerts})
            self._alerts.restore(of_alerts)
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
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
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
        windows = self.windows
        if math.isinf(self._since) or windows is None:
            return
        changes = windows.changes(int(self._clock() // 60))
        of_alerts = self._alerts.changes()
        await consumer.commit(
            outputs=self._bad,
            done=self._done,
            state=[StateChange(0, k, value) for k, value in (changes | of_alerts).items()],
        )
        windows.committed(changes)
        self._alerts.committed(of_alerts)
        self._done, self._bad, self._since = [], [], math.inf

    async def _watch(self) -> None:
        """Evaluate the alerts every while, as long as the windows are ours and up to date."""
        while True:
            windows = self.windows
            # Behind the stream a minute would be judged before all of it is there.
            if windows is not None and self.lag() - len(self._done) < BEHIND:
                try:
                    await self._quality.refresh()
                    await self._alerts.step(windows, self._quality.shown(), self._clock())
                    self._watched.worked()
                except Exception as error:  # noqa: BLE001 - a fault in our code must not end it
                    self._log.exception("the alerts met a fault of their own and go on")
                    self._watched.failed(error)
                if self._alerts.changes():
                    self._since = min(self._since, time.monotonic())
            await asyncio.sleep(EVALUATED_EVERY)

    def _discard(self) -> None:
        self.windows = None
        self._alerts.reset()
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
