"""The trailing week of the series that are watched for regressions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import msgspec

from assay.records import Cell, SeriesKey
from exporters import baseline
from exporters.baseline import WEEK, Sums, recurring
from exporters.windows import Windows

Id = tuple[str, SeriesKey]
"""A rule's alert and a series that it watches."""
Counts = Callable[[int], bool]
"""Whether an hour belongs to the baseline."""


class History:
    """Sums of verdicts by series over the hours that count, kept up by the hour.

    Reading an hour of the windows takes time for every series, so the week is read once and then
    moved on: the newest full hour comes in and the one before the week goes.
    """

    def __init__(self) -> None:
        self._week: dict[Id, Sums] = {}
        self._same: dict[Id, Sums] = {}
        self._hours: dict[Id, dict[int, bytes]] = {}
        self.first: dict[Id, int] = {}
        """The earliest hour of the week that has a verdict and counts."""
        self.hour = -1
        """The hour that the sums are for: they end before it."""

    def week(self, id_: Id) -> Sums:
        return self._week.get(id_, {})

    def same_hours(self, id_: Id) -> Sums:
        return self._same.get(id_, {})

    def forget(self, ids: Iterable[Id]) -> None:
        """Sum these up anew: what counts has changed."""
        for id_ in ids:
            self._week.pop(id_, None)
            self._hours.pop(id_, None)
            self.first.pop(id_, None)

    async def move(self, windows: Windows, hour: int, watched: Mapping[Id, Counts]) -> None:
        """Be right for `hour`; gives other work of the process its turn between hours."""
        self.forget([id_ for id_ in self._week if id_ not in watched])
        wanted: dict[int, dict[SeriesKey, list[Id]]] = {}
        for id_, counts in watched.items():
            begin = self.hour if id_ in self._week else hour - WEEK
            self._week.setdefault(id_, {})
            for h in filter(counts, range(max(begin, hour - WEEK), hour)):
                wanted.setdefault(h, {}).setdefault(id_[1], []).append(id_)
        for h, of_series in sorted(wanted.items()):
            for key, part in windows.hour_sums(h):
                for id_ in of_series.get(key, ()):
                    self._take_in(id_, h, part.cells)
            await asyncio.sleep(0)
        for id_ in watched:
            self._settle(id_, hour)
        self.hour = hour

    def _take_in(self, id_: Id, hour: int, cells: list[Cell]) -> None:
        verdicts = [
            Cell(cell.stratum, cell.weight, judged=cell.judged, defects=cell.defects)
            for cell in cells
            if cell.judged
        ]
        if verdicts:
            self._hours.setdefault(id_, {})[hour] = _pack(verdicts)
            baseline.add(self._week[id_], verdicts)

    def _settle(self, id_: Id, hour: int) -> None:
        """Let go of what is older than a week; sum up the hours like the coming one."""
        hours = self._hours.get(id_, {})
        for old in [h for h in hours if h < hour - WEEK]:
            baseline.add(self._week[id_], _unpack(hours.pop(old)), -1)
        self.first[id_] = min(hours, default=hour)
        same = self._same[id_] = {}
        for h in recurring(hour, self.first[id_]):
            if h in hours:
                baseline.add(same, _unpack(hours[h]))


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Cell]).decode
