"""Regressions: one sequential test for each rule and series that it watches.

While an alert is active its evidence and its baseline stand still. It is over when the shortest
window with enough turns has been at a rate that is no news for a while; then the evidence starts
from nothing, and the hours of the incident never enter the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from assay.catalogue import CASCADE
from assay.records import Cell, SeriesKey
from exporters import detector
from exporters.alerting.finding import Finding, annotations_of, labels_of_series
from exporters.alerting.history import History, Id
from exporters.alerting.rules import Rule
from exporters.baseline import FIRST_HOURS, WEEK, null_rate
from exporters.tracked import Series
from exporters.views import View
from exporters.windows import Windows

RECOVERY_TURNS = 30
"""Scores of a window before it can tell that a regression is over."""
RECOVERY_MINUTES = 10
"""For how long that must be so: a short window is lucky now and then."""
MOST_CAUGHT_UP = 60
"""Minutes that are caught up after an absence."""


class Watch(msgspec.Struct):
    """The state of one rule on one series. Times are minutes or hours since the Unix epoch."""

    key: SeriesKey
    evidence: list[float] = []
    minute: int = 0
    """The last one that is in the evidence."""
    since: int = 0
    """The hour from which the baseline counts."""
    active_since: int = 0
    """The minute in which the alert fired; 0: it does not."""
    bad: int = 0
    """The last minute in which the rate was not back yet."""
    incident_hours: list[int] = []
    scorer: str = ""
    """What scored last; a new one starts a new baseline."""
    null_rate: float | None = None
    """The highest rate that is no news; none while too little is known."""
    design_effect: float = 1.0
    largest_weight: float = 1.0

    def counts(self, hour: int) -> bool:
        """Whether an hour belongs to the baseline."""
        return hour >= self.since and hour not in self.incident_hours


class Regression:
    """The tests of one rule."""

    def __init__(self, rule: Rule, false_alarms: float) -> None:
        """`false_alarms` is the mean of minutes to a false alarm that the rule's route allows."""
        self.rule = rule
        self._budget = false_alarms
        self.watches: dict[SeriesKey, Watch] = {}

    def add_series(self, every: Iterable[Series], minute: int) -> None:
        """Watch the series that the rule is about, from `minute` on."""
        for series in every:
            key = series.key
            if key.engine == CASCADE:
                continue  # Its estimates are no verdicts: the test is not valid on them.
            if key not in self.watches and self.rule.watches(key):
                self.watches[key] = Watch(key, detector.fresh(), minute - 1)

    def rebase(self, hour: int, windows: Windows, *, everything: bool = False) -> list[Id]:
        """Start the baseline anew, from `hour`, where a scorer is new or `everything` is to."""
        changed = []
        for key, watch in self.watches.items():
            series = windows.series.get(key)
            scorers = series.totals.scorers if series is not None else {}
            newest = next(reversed(scorers), "")
            fresh = bool(watch.scorer) and newest not in ("", watch.scorer)
            watch.scorer = newest or watch.scorer
            if fresh or everything:
                watch.since, watch.active_since, watch.null_rate = hour, 0, None
                watch.evidence = detector.fresh()
                changed.append((self.rule.alert, key))
        return changed

    def set_baselines(
        self,
        history: History,
        effects: Mapping[SeriesKey, float],
        weights: Callable[[SeriesKey], float],
    ) -> None:
        """Take up the baselines of a new hour; an active alert keeps its own."""
        for key, watch in self.watches.items():
            id_ = self.rule.alert, key
            oldest = history.hour - WEEK
            watch.incident_hours = [h for h in watch.incident_hours if h >= oldest]
            if watch.active_since:
                continue
            watch.design_effect, watch.largest_weight = effects.get(key, 1.0), weights(key)
            known = history.first.get(id_, history.hour) <= history.hour - FIRST_HOURS
            watch.null_rate = (
                null_rate(
                    history.week(id_).values(),
                    history.same_hours(id_).values(),
                    watch.design_effect,
                    self.rule.threshold,
                )
                if known
                else None
            )

    def take_blocks(self, windows: Windows, closed: int, threshold: float) -> None:
        """Add every minute up to `closed` that is not in the evidence yet."""
        for key, watch in self.watches.items():
            series = windows.series.get(key)
            first = max(watch.minute + 1, closed - MOST_CAUGHT_UP)
            watch.minute = max(watch.minute, closed)
            if watch.active_since or watch.null_rate is None or series is None:
                continue
            for minute in range(first, closed + 1):
                part = series.minutes.get(minute)
                cells = part.cells.values() if part is not None else ()
                self._take_block(watch, cells)
                if detector.mixture(watch.evidence) >= threshold:
                    watch.active_since = watch.bad = minute
                    break

    def threshold(self, sharing: int) -> float:
        """What the evidence is compared with when `sharing` tests use the route's budget."""
        return self._budget * max(1, sharing)

    def findings(
        self, shown: Mapping[SeriesKey, tuple[Series, dict[str, View]]], minute: int
    ) -> Iterator[Finding]:
        """The alerts that are active; ends those whose rate has recovered."""
        for key, watch in self.watches.items():
            if not watch.active_since or key not in shown:
                continue
            series, views = shown[key]
            if minute // 60 not in watch.incident_hours:
                watch.incident_hours = [*watch.incident_hours, minute // 60]
            recent = _recent(views)
            null = watch.null_rate or 1.0
            if recent is None or recent[1] > null:
                watch.bad = minute
            elif minute >= watch.bad + RECOVERY_MINUTES:
                watch.active_since, watch.evidence = 0, detector.fresh()
                continue
            now = f"{recent[1]:.1%} of turns fail over {recent[0]}" if recent else "few turns come"
            text = (
                f"{key.metric} of {key.app} ({key.engine}) has become worse: {now}, up to "
                f"{null:.1%} is no news after the trailing week"
            )
            annotations = annotations_of(self.rule, text, series.totals.failures[::-1])
            yield Finding(self.rule, labels_of_series(self.rule, key), annotations)

    def _take_block(self, watch: Watch, cells: Iterable[Cell]) -> None:
        cells = list(cells)
        assert watch.null_rate is not None
        block = detector.factors(cells, watch.null_rate, watch.largest_weight, watch.design_effect)
        watch.evidence = detector.advance(watch.evidence, block)
        for cell in cells:
            if cell.judged:
                watch.largest_weight = max(watch.largest_weight, cell.weight)


def _recent(views: Mapping[str, View]) -> tuple[str, float] | None:
    """The shortest window that can tell a rate, and its rate."""
    for window, view in views.items():
        if view.rate is not None and view.turns >= RECOVERY_TURNS:
            return window, view.rate.rate
    return None
