"""The quality series as Prometheus reads them: a collector over the owner's windows.

A page of five thousand series has two hundred thousand lines. So each series keeps its part of the
page as text until something in it changes; what changed is made anew in short slices, between
which other work of the process gets its turn; and a scrape joins texts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from assay import series as rows
from exporters.families import Family, LabelSet
from exporters.series_points import FAMILIES, Entry, Points
from exporters.tracked import Series
from exporters.views import View, Views
from exporters.windows import Windows

Shown = tuple[Series, float, dict[str, View]]

SLICE = 0.01
"""Seconds of work after which the loop gets its turn."""
PATIENCE = 0.25
"""Seconds that a scrape waits for what changed; a series that is not made anew by then is shown as
it was a moment before."""


class QualitySeries(Collector):
    """Counters, gauges and histograms of `windows`; nothing while there are none.

    To be collected in the thread that changes the windows.
    """

    def __init__(
        self, windows: Callable[[], Windows | None], clock: Callable[[], float] = time.time
    ) -> None:
        self._windows = windows
        self._clock = clock
        self._views: Views | None = None
        self._entries: dict[int, Entry] = {}
        self._next = 0

    def describe(self) -> Iterable[Metric]:
        """Registering collects nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Families whose samples are made when they are read: see `SeriesFamily`."""
        windows = self._windows()
        if windows is None:
            return
        yield _turns(windows)
        page = Page(self)
        for index in range(len(FAMILIES)):
            yield SeriesFamily(page, index)

    def shown(self) -> list[Shown]:
        """Every series with its design effect and its windows, as of now."""
        return [(e.series, e.effect, e.views) for e in self.entries()]

    def entries(self) -> list[Entry]:
        """Every series as of now. Blocks for as long as it takes."""
        windows = self._windows()
        if windows is None:
            return []
        list(self._renewed(windows))
        return list(self._entries.values())

    async def refresh(self, patience: float | None = None) -> list[Entry]:
        """Every series, as of now or, where `patience` (seconds) did not suffice, of a moment
        ago; with the texts of those that were made anew."""
        windows = self._windows()
        began = turned = time.monotonic()
        if windows is None:
            return []
        for entry in self._renewed(windows):
            entry.render()
            now = time.monotonic()
            if now - turned > SLICE:
                if patience is not None and now - began > patience:
                    break
                await asyncio.sleep(0)
                turned = time.monotonic()
                if self._windows() is not windows:
                    return []
        return list(self._entries.values())

    def _renewed(self, windows: Windows) -> Iterator[Entry]:
        """Make anew what changed, and give it; begins where the last one that was broken off
        ended."""
        if self._views is None or self._views.windows is not windows:
            self._views, self._entries, self._next = Views(windows), {}, 0
        views, minute = self._views, int(self._clock() // 60)
        effects = views.effects(minute)
        every = list(windows.series.values())
        start = self._next % max(1, len(every))
        for position, series in enumerate(every[start:] + every[:start], start + 1):
            effect = effects[series.number]
            found = views.views(series, minute, effect)
            entry = self._entries.get(series.number)
            if entry is None:
                entry = Entry(series, LabelSet(msgspec.structs.asdict(series.key)))
                self._entries[series.number] = entry
            elif entry.views is found and entry.changes == series.changes:
                continue
            entry.renew(effect, found)
            self._next = position
            yield entry


class Page:
    """The series of one scrape: the same in all of its families."""

    def __init__(self, source: QualitySeries) -> None:
        self._source = source
        self._entries: list[Entry] | None = None

    async def ready(self) -> list[Entry]:
        if self._entries is None:
            self._entries = await self._source.refresh(PATIENCE)
        return self._entries

    def now(self) -> list[Entry]:
        return self._source.entries()


class SeriesFamily(Family):
    """One row of FAMILIES over every series.

    `samples` and `lines` are as of the moment in which they are read; once the family is `ready`
    its lines are those of that moment and may be read in any thread.
    """

    def __init__(self, page: Page, index: int) -> None:
        row, self._points_of = FAMILIES[index]
        super().__init__(row)
        self._page = page
        self._index = index
        self._texts: list[str] | None = None

    @property
    def samples(self) -> list[Sample]:  # type: ignore[override]
        points: Points = self._points_of
        return [
            Sample(self._row.name + suffix, labels.values | extra.values, value, None, exemplar)
            for entry in self._page.now()
            for suffix, labels, extra, value, exemplar in points(entry)
        ]

    async def ready(self, *, openmetrics: bool) -> None:
        """Take the texts of the page."""
        entries = await self._page.ready()
        self._texts = [entry.text(self._index, openmetrics=openmetrics) for entry in entries]

    def _body(self, *, openmetrics: bool) -> Iterable[str]:
        if self._texts is not None:
            return self._texts
        return [entry.text(self._index, openmetrics=openmetrics) for entry in self._page.now()]


def _turns(windows: Windows) -> Metric:
    family = Family(rows.TURNS)
    for (app, environment), counts in windows.turns.items():
        labels = LabelSet({"app": app, "environment": environment})
        for decision, n in zip(("kept", "sampled_out"), counts, strict=True):
            family.add(labels, n, LabelSet({"decision": decision}))
    return family
