"""One series: its sums by minute and hour, its conversation groups, and its totals."""

from __future__ import annotations

from array import array

import msgspec

from assay.records import Cell, Group, OutcomeCount, Rollup, SeriesKey
from exporters.intervals import Moments, moments
from exporters.rollup import GROUPS, Contract, bounds_of
from exporters.severity import severities
from exporters.sums import Cells, Outcomes, add_cells, add_outcomes

SHARDS = 32
MINUTES_KEPT = 65
FAILURES = 3
SCORERS = 8
"""Scorers of a series that are remembered."""
OPEN_HOURS = 25
"""The running hour and the 24 before it."""


class Part(msgspec.Struct, array_like=True):
    """Sums over one minute or hour, as they are kept."""

    cells: list[Cell] = []
    outcomes: list[OutcomeCount] = []
    freshness: float = 0.0


class OpenPart:
    """Sums over one minute or hour, while they are added to."""

    __slots__ = ("cells", "freshness", "outcomes")

    def __init__(self, part: Part | None = None) -> None:
        self.cells: Cells = {}
        self.outcomes: Outcomes = {}
        self.freshness = 0.0
        if part is not None:
            self.cells = {(cell.stratum, cell.weight): cell for cell in part.cells}
            self.outcomes = {(count.outcome, count.reason): count for count in part.outcomes}
            self.freshness = part.freshness

    def add(self, rollup: Rollup, *, buckets: bool) -> None:
        add_cells(self.cells, rollup.cells, buckets=buckets)
        add_outcomes(self.outcomes, rollup.outcomes)
        self.freshness = max(self.freshness, rollup.max_freshness)

    def merge(self, other: OpenPart, *, buckets: bool) -> None:
        add_cells(self.cells, other.cells.values(), buckets=buckets)
        add_outcomes(self.outcomes, other.outcomes.values())
        self.freshness = max(self.freshness, other.freshness)

    def packed(self) -> Part:
        return Part(list(self.cells.values()), list(self.outcomes.values()), self.freshness)


class Totals(msgspec.Struct):
    """Counters since the series was first seen. Weights are those of entries with a verdict."""

    outcomes: list[OutcomeCount] = []
    passed: int = 0
    failed: int = 0
    weight: float = 0.0
    weight_squared: float = 0.0
    defect_weight: float = 0.0
    defect_weight_squared: float = 0.0
    buckets: list[float] = []
    """Weight per histogram bucket, not cumulative."""
    value_sum: float = 0.0
    exemplars: dict[int, tuple[str, float, float]] = {}
    last_scored: float = 0.0
    failures: list[str] = []
    """Subject ids of the latest entries that did not pass, newest last."""
    scorers: dict[str, int] = {}
    """The hour (since the Unix epoch) in which each scorer was first seen, oldest first."""


class Kept(msgspec.Struct, array_like=True):
    """A series as it is kept: its number in the other keys, its labels, its totals."""

    number: int
    key: SeriesKey
    totals: Totals


class Series:
    """One series with all its sums."""

    __slots__ = (
        "_moments",
        "bounds",
        "changes",
        "groups",
        "hours",
        "key",
        "late",
        "levels",
        "minutes",
        "number",
        "outcomes",
        "totals",
    )

    def __init__(self, number: int, key: SeriesKey, totals: Totals, contract: Contract) -> None:
        metric = contract(key.metric, key.engine, key.subject)
        self.number = number
        self.key = key
        self.totals = totals
        self.outcomes: Outcomes = {(c.outcome, c.reason): c for c in totals.outcomes}
        self.bounds = bounds_of(metric)
        self.levels = severities(metric)
        self.minutes: dict[int, OpenPart] = {}
        self.hours: dict[int, OpenPart] = {}
        self.groups: dict[int, array[float]] = {}
        self._moments: dict[int, Moments] = {}
        self.changes = 0
        """Grows with every delta: a cached view of the series is good while this stands still."""
        self.late = 0
        """Grows with every delta to a minute that had passed: cached sums of closed minutes and
        hours are good while this stands still."""

    @property
    def shard(self) -> int:
        return self.number % SHARDS

    def kept(self) -> Kept:
        self.totals.outcomes = list(self.outcomes.values())
        return Kept(self.number, self.key, self.totals)

    def add_totals(self, rollup: Rollup) -> None:
        totals = self.totals
        add_outcomes(self.outcomes, rollup.outcomes)
        if len(totals.buckets) != len(self.bounds) + 1:
            totals.buckets, totals.value_sum = [0.0] * (len(self.bounds) + 1), 0.0
            totals.exemplars = {}
        for cell in rollup.cells:
            weight, square = cell.weight, cell.weight * cell.weight
            totals.passed += cell.judged - cell.defects
            totals.failed += cell.defects
            totals.weight += cell.judged * weight
            totals.weight_squared += cell.judged * square
            totals.defect_weight += cell.defects * weight
            totals.defect_weight_squared += cell.defects * square
            if len(cell.buckets) == len(totals.buckets):
                totals.value_sum += cell.total * weight
                for i, n in enumerate(cell.buckets):
                    if n:
                        totals.buckets[i] += n * weight
        totals.exemplars.update(rollup.exemplars)
        if rollup.failures:
            totals.failures = [*totals.failures, *rollup.failures][-FAILURES:]
        if rollup.scorer and rollup.scorer not in totals.scorers:
            totals.scorers[rollup.scorer] = rollup.minute // 60
            while len(totals.scorers) > SCORERS:
                del totals.scorers[next(iter(totals.scorers))]
        totals.last_scored = max(totals.last_scored, rollup.last_scored)

    def add_groups(self, hour: int, groups: list[Group]) -> None:
        """Weights stand in the first half, defect weights in the second."""
        sums = self.groups.get(hour)
        if sums is None:
            sums = self.groups[hour] = array("d", bytes(16 * GROUPS))
        for group in groups:
            sums[group.index % GROUPS] += group.weight
            sums[GROUPS + group.index % GROUPS] += group.defects
        self._moments.pop(hour, None)

    def moments(self, hour: int) -> Moments | None:
        """Of the hour's conversation groups; none when it has no verdict."""
        found = self._moments.get(hour)
        if found is None and (sums := self.groups.get(hour)) is not None:
            found = self._moments[hour] = moments(sums[:GROUPS], sums[GROUPS:])
        return found

    def forget(self, minute: int) -> None:
        """Drop what is older than is kept open, seen from `minute`."""
        for old in [m for m in self.minutes if m <= minute - MINUTES_KEPT]:
            del self.minutes[old]
        for old in [h for h in self.groups if h <= minute // 60 - OPEN_HOURS]:
            del self.groups[old]
            self._moments.pop(old, None)
