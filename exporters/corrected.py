"""Defect rates corrected by people's labels, as gauges, while the labels are fresh."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from prometheus_client import CollectorRegistry

from assay import series
from assay.calibration import Calibration, calibrations, labelled_apps
from assay.errors import AssayError
from assay.store import Store
from assay.telemetry import Trouble

EVERY = 600.0
"""Seconds between two looks at the store."""
FRESH = 30 * 86400.0
"""Seconds for which the label of a turn counts, from the turn's end."""
RECENT = 86400.0
"""Seconds over which the scorer's own rate is taken."""


class CorrectedRates:
    """Looks at the labels now and then. `start` once; `stop` is safe twice and without start."""

    def __init__(self, store: Store, registry: CollectorRegistry, *, every: float = EVERY) -> None:
        self._store = store
        self._every = every
        self._rate = series.instrument(registry, series.DEFECT_RATE_CORRECTED)
        self._lower = series.instrument(registry, series.DEFECT_RATE_CORRECTED_LOWER)
        self._upper = series.instrument(registry, series.DEFECT_RATE_CORRECTED_UPPER)
        self._labelled = series.instrument(registry, series.LABELLED_TURNS)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name="corrected rates")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _loop(self) -> None:
        trouble = Trouble(logging.getLogger(__name__), "correcting rates by labels")
        while True:
            try:
                await self.refresh()
                trouble.worked()
            except AssayError as error:
                trouble.failed(error)
            await asyncio.sleep(self._every)

    async def refresh(self) -> None:
        """Look now. Raises AssayError when the store cannot be read; the gauges then stay."""
        now = time.time()
        since, recent = int((now - FRESH) * 1e9), int((now - RECENT) * 1e9)
        found = {
            app: await calibrations(self._store, since=since, recent=recent, app=app)
            for app in await labelled_apps(self._store, since)
        }
        for gauge in (self._rate, self._lower, self._upper, self._labelled):
            gauge.clear()
        for app, rows in found.items():
            for row in rows:
                self._show(app, row)

    def _show(self, app: str, row: Calibration) -> None:
        labels = (app, row.metric, row.engine)
        self._labelled.labels(*labels).set(row.confusion.n)
        if row.corrected is not None:
            self._rate.labels(*labels).set(row.corrected.value)
            self._lower.labels(*labels).set(row.corrected.lower)
            self._upper.labels(*labels).set(row.corrected.upper)
