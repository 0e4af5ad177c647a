"""From scores to sums: what happened to each series in each minute.

The sums are exact per (stratum, weight), so that every estimator the exporters use can be had from
them, and they add up in any order over any number of replicas. Entries of a backfill and of a
conversation's later revisions never enter.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Collection
from functools import lru_cache

import msgspec

from assay import catalogue
from assay.metric import Metric
from assay.records import (
    Cascade,
    Group,
    Kind,
    Outcome,
    OutcomeCount,
    Rollup,
    SeriesKey,
    Subject,
)
from exporters.labels import label_text
from exporters.sums import Cells, Outcomes, cell_of

GROUPS = 32
"""Conversation groups per hour."""
MINUTE = 60 * 10**9
MAX_VALUE = 1e100
"""Larger values are out of range: their squares would not be finite."""
MAX_WEIGHT = 1e9
_BELOW_ONE = (-1.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DEFAULT_BOUNDS: tuple[float, ...] = (*_BELOW_ONE, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 100.0, 1000.0)

Contract = Callable[[str, str, Subject], Metric | None]
"""The contract of a metric as an engine answers it about a subject; none when it is unknown."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What the sums need of a Score; decoding leaves the rest unread."""

    metric: str
    engine: str
    subject: Subject = "response"
    kind: Kind = "defect"
    outcome: Outcome = "scored"
    outcome_reason: str | None = None
    value: float | None = None
    passed: bool | None = None
    weight: float = 1.0
    scorer_version: str = ""
    prompt_digest: str = ""
    cascade: Cascade | None = None


class Entries(msgspec.Struct, frozen=True):
    """What the sums need of a TurnScores."""

    trace_id: str
    subject_id: str = ""
    conversation_id: str | None = None
    app: str = "unknown"
    environment: str = ""
    version: str = ""
    model: str = ""
    stratum: str = "base"
    revision: int = 0
    run: str = "live"
    arrived_at: int = 0
    scored_at: int = 0
    scores: tuple[Entry, ...] = ()


decode_entries = msgspec.json.Decoder(Entries).decode


def bounds_of(metric: Metric | None) -> tuple[float, ...]:
    """Upper bounds of the metric's histogram, without +Inf.

    The catalogue's own; else one per level; else ten steps over the scale; else, for a metric that
    is not in the catalogue or has no scale, DEFAULT_BOUNDS.
    """
    if metric is None:
        return DEFAULT_BOUNDS
    if metric.buckets:
        return metric.buckets
    if metric.levels:
        return tuple(float(level) for level in sorted(metric.levels))
    if metric.low is not None and metric.high is not None and metric.high > metric.low:
        step = (metric.high - metric.low) / 10
        return tuple(round(metric.low + i * step, 9) for i in range(11))
    return DEFAULT_BOUNDS


class _Series:
    """The open sums of one series and minute."""

    __slots__ = (
        "bounds",
        "cells",
        "exemplars",
        "failures",
        "freshness",
        "groups",
        "last",
        "outcomes",
        "prompt_digest",
        "scorer_version",
    )

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.cells: Cells = {}
        self.outcomes: Outcomes = {}
        self.groups: dict[int, Group] = {}
        self.exemplars: dict[int, tuple[str, float, float]] = {}
        self.failures: list[str] = []
        self.scorer_version = self.prompt_digest = ""
        self.last = 0.0
        self.freshness = 0.0


_Turn = tuple[str, str, str, str, int]
_Asked = tuple[str, str, Kind, Subject]


class Sums:
    """Deltas that are being added up, from empty."""

    def __init__(self, contract: Contract = catalogue.contract, labels: Collection[str] = ()):
        """`labels`, of `model` and `version`, are those by which series are split."""
        self._bounds = lru_cache(1024)(lambda *asked: bounds_of(contract(*asked)))
        self._by_model = "model" in labels
        self._by_version = "version" in labels
        self._open: dict[_Turn, dict[_Asked, _Series]] = {}
        self.entries = 0
        """Entries that were added."""

    def add(self, turn: Entries) -> None:
        """Add the scores of one turn."""
        if turn.run != "live" or turn.revision:
            return
        minute = turn.scored_at // MINUTE
        series_of = self._series_of(turn, minute)
        last = turn.scored_at / 1e9
        freshness = max(0, turn.scored_at - turn.arrived_at) / 1e9 if turn.arrived_at else 0.0
        trace_id, stratum = turn.trace_id, turn.stratum
        group_index = zlib.crc32((turn.conversation_id or trace_id).encode()) % GROUPS
        for entry in turn.scores:
            asked = (entry.metric, entry.engine, entry.kind, entry.subject)
            series = series_of.get(asked)
            if series is None:
                bounds = self._bounds(entry.metric, entry.engine, entry.subject)
                series = series_of[asked] = _Series(bounds)
            if last > series.last:
                series.last = last
            if freshness > series.freshness:
                series.freshness = freshness
            weight, value, passed = entry.weight, entry.value, entry.passed
            if not 0 < weight <= MAX_WEIGHT or (
                value is not None and not -MAX_VALUE <= value <= MAX_VALUE
            ):
                _count(series.outcomes, "error", "out_of_range", 0.0)
                continue
            if entry.cascade is not None:
                _count_cascade(series.outcomes, entry, entry.cascade)
            else:
                _count(series.outcomes, entry.outcome, entry.outcome_reason or "", weight)
            if entry.outcome != "scored":
                continue
            series.scorer_version, series.prompt_digest = entry.scorer_version, entry.prompt_digest
            cell = series.cells.get((stratum, weight)) or cell_of(series.cells, stratum, weight)
            if value is not None:
                cell.n += 1
                cell.total += value
                cell.squares += value * value
                if entry.cascade is None:
                    bucket = bisect_left(series.bounds, value)
                    if not cell.buckets:
                        cell.buckets = [0] * (len(series.bounds) + 1)
                    cell.buckets[bucket] += 1
                    series.exemplars[bucket] = (trace_id, value, last)
            if passed is not None:
                group = series.groups.get(group_index)
                if group is None:
                    group = series.groups[group_index] = Group(group_index)
                group.n += 1
                group.weight += weight
                if value is not None and entry.cascade is not None:
                    group.defects += weight * value
                else:
                    cell.judged += 1
                    if not passed:
                        cell.defects += 1
                        group.defects += weight
                if not passed:
                    series.failures = [*series.failures[-2:], turn.subject_id or trace_id]
        self.entries += len(turn.scores)

    def rollups(self) -> list[Rollup]:
        """What was added, as deltas."""
        return [
            Rollup(
                key=SeriesKey(app, environment, metric, engine, kind, subject, model, version),
                minute=minute,
                cells=list(series.cells.values()),
                outcomes=list(series.outcomes.values()),
                groups=list(series.groups.values()),
                exemplars=series.exemplars,
                last_scored=series.last,
                max_freshness=series.freshness,
                failures=series.failures,
                scorer=scorer_text(series.scorer_version, series.prompt_digest),
            )
            for (app, environment, model, version, minute), asked in self._open.items()
            for (metric, engine, kind, subject), series in asked.items()
        ]

    def _series_of(self, turn: Entries, minute: int) -> dict[_Asked, _Series]:
        """The open series of the turn's labels and minute."""
        key = (
            label_text(turn.app),
            label_text(turn.environment),
            label_text(turn.model) if self._by_model else "",
            label_text(turn.version) if self._by_version else "",
            minute,
        )
        series = self._open.get(key)
        if series is None:
            series = self._open[key] = {}
        return series


@lru_cache(4096)
def scorer_text(version: str, prompt_digest: str) -> str:
    """What scored, as one label value; empty when nothing is known of it."""
    return label_text("/".join(part for part in (version, prompt_digest[:12]) if part))


def _count(outcomes: Outcomes, outcome: Outcome, reason: str, weight: float) -> OutcomeCount:
    count = outcomes.get((outcome, reason))
    if count is None:
        count = outcomes[outcome, reason] = OutcomeCount(outcome, reason)
    count.n += 1
    count.weight += weight
    return count


def _count_cascade(outcomes: Outcomes, entry: Entry, cascade: Cascade) -> None:
    """Count an entry of the cascade. One whose judge was asked in vain is lost: it is in no
    estimate, and what it could have been at most and at least goes into the bounds."""
    weight = entry.weight
    count = _count(outcomes, entry.outcome, entry.outcome_reason or "", weight)
    if entry.outcome != "scored" and 0 < cascade.pi <= 1:
        count.lost += weight
        count.highest += weight * cascade.estimate(judge=True)
        count.lowest += weight * cascade.estimate(judge=False)
