"""The health of the pipeline itself: is it blind, behind, or out of means?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from assay.health import Health
from exporters.alerting.finding import Finding, annotations_of, labels_of
from exporters.alerting.rules import Rule
from exporters.tracked import OpenPart, Series
from exporters.windows import Windows

MINUTES = 15
"""Over which outcomes are looked at."""
SILENCE = 10
"""Minutes without an outcome, while turns come, after which a scorer is silent."""
ENOUGH = 20
"""Evaluations before a share of them says anything."""
MOST_JUDGE_ERRORS = 0.2
MOST_BUDGET = 0.5
MOST_WITHOUT_CONTENT = 0.5
MOST_LATE = 0.01
BUSY = 40
"""Turns in the quietest hour of a day, from which on silence is no quiet hour."""
UNJUDGED = ("computed", "local", "cascade")
CONTENT = ("query", "response")


class Process(NamedTuple):
    """What only the process knows: its stages, and spans read and left out as late so far."""

    stages: Mapping[str, Health]
    spans: float
    late_spans: float


App = tuple[str, str]


class Seen(NamedTuple):
    """Counters at the end of a minute: turns by app and environment, spans, late spans."""

    turns: Mapping[App, int]
    spans: float
    late_spans: float


class Recent(NamedTuple):
    """Evaluations of one app, environment and engine over the last minutes."""

    outcomes: int
    scored: int
    errors: int
    budget: int
    no_content: int
    silent: bool
    """No outcome for SILENCE minutes, though there were some within a day."""


class Pipeline:
    """Evaluates the rules of health. Keeps a quarter of an hour of counts of its own."""

    def __init__(self, process: Callable[[], Process]) -> None:
        self._process = process
        self._seen: dict[int, Seen] = {}
        self._now = 0
        self._lately = Process({}, 0, 0)
        self._recent: dict[tuple[str, str, str], Recent] = {}
        self._hourly: dict[App, list[int]] = {}

    def look(self, windows: Windows, minute: int) -> None:
        """Take up what is so in `minute`."""
        self._lately, self._now = self._process(), minute
        turns = {app: kept for app, (kept, _) in windows.turns.items()}
        self._seen[minute] = Seen(turns, self._lately.spans, self._lately.late_spans)
        for old in [m for m in self._seen if m < minute - MINUTES]:
            del self._seen[old]
        groups: dict[tuple[str, str, str], list[Series]] = {}
        self._hourly = {}
        for series in windows.series.values():
            key = series.key
            groups.setdefault((key.app, key.environment, key.engine), []).append(series)
            hours = self._hourly.setdefault((key.app, key.environment), [0] * 24)
            for back in range(24):
                part = series.hours.get(minute // 60 - 1 - back)
                if part is not None:
                    hours[back] = max(hours[back], sum(c.n for c in part.outcomes.values()))
        self._recent = {group: _recent(members, minute) for group, members in groups.items()}

    def findings(self, rule: Rule) -> Iterator[Finding]:
        """What `rule` finds by the last look."""
        match rule.cause:
            case "no_turns":
                yield from self._no_turns(rule)
            case "no_scores":
                yield from self._no_scores(rule)
            case "lag":
                yield from self._lag(rule)
            case "late_spans":
                yield from self._late_spans(rule)
            case _:
                yield from self._shares(rule)

    def _no_turns(self, rule: Rule) -> Iterator[Finding]:
        if min(self._seen) > self._now - MINUTES:
            return
        for app, hours in self._hourly.items():
            if rule.about(*app) and min(hours) >= BUSY and not self._came(app, MINUTES):
                text = f"No turn of {app[0]} for {MINUTES} minutes; its quietest hour of the last "
                yield _finding(rule, app, text + f"24 had {min(hours)}")

    def _no_scores(self, rule: Rule) -> Iterator[Finding]:
        for (*app, engine), recent in self._recent.items():
            came = self._came((app[0], app[1]), SILENCE)
            if rule.about(*app) and recent.silent and came >= SILENCE:
                text = f"No evaluation of {app[0]} by {engine} for {SILENCE} minutes, while {came} "
                yield _finding(rule, (app[0], app[1]), text + "turns came", engine)

    def _shares(self, rule: Rule) -> Iterator[Finding]:
        for (*app, engine), recent in self._recent.items():
            if not rule.about(*app) or recent.outcomes < ENOUGH:
                continue
            share, most, what = {
                "judge_errors": (recent.errors, MOST_JUDGE_ERRORS, "ended in an error"),
                "budget": (recent.budget, MOST_BUDGET, "had no budget left"),
                "content_missing": (
                    recent.no_content,
                    MOST_WITHOUT_CONTENT,
                    "had no text to score: is content capture off?",
                ),
            }[rule.cause]
            judged = engine not in UNJUDGED
            if share > most * recent.outcomes and (judged or rule.cause != "judge_errors"):
                text = f"{share / recent.outcomes:.0%} of the evaluations of {app[0]} by {engine} "
                text += f"in {MINUTES} minutes {what}"
                yield _finding(rule, (app[0], app[1]), text, engine)

    def _lag(self, rule: Rule) -> Iterator[Finding]:
        for stage, health in self._lately.stages.items():
            if not health.ok:
                labels = labels_of(rule, stage=stage)
                text = f"The stage {stage} is stuck: {health.detail}"
                yield Finding(rule, labels, annotations_of(rule, text))

    def _late_spans(self, rule: Rule) -> Iterator[Finding]:
        now, before = self._seen[self._now], self._at(MINUTES)
        spans, late = now.spans - before.spans, now.late_spans - before.late_spans
        if spans >= 100 and late > MOST_LATE * spans:
            text = f"{late / spans:.1%} of the spans of {MINUTES} minutes came after their trace "
            text += "was closed: raise assembly.settle"
            yield Finding(rule, labels_of(rule), annotations_of(rule, text))

    def _came(self, app: App, minutes: int) -> int:
        """Turns of an app in the last minutes, as far back as is known."""
        return self._seen[self._now].turns.get(app, 0) - self._at(minutes).turns.get(app, 0)

    def _at(self, minutes: int) -> Seen:
        """What was so `minutes` ago, or at the first look since."""
        then = self._now - minutes
        return self._seen[max((m for m in self._seen if m <= then), default=min(self._seen))]


def _recent(members: list[Series], minute: int) -> Recent:
    total, ever, latest = OpenPart(), False, 0
    for series in members:
        ever = ever or any(_ran(part) for part in series.hours.values())
        for m, part in series.minutes.items():
            if m > minute - MINUTES:
                total.merge(part, buckets=False)
            if m > latest and _ran(part):
                latest = m
    counts = dict.fromkeys(("scored", "error", "budget", "skipped"), 0)
    outcomes = no_content = 0
    for count in total.outcomes.values():
        if count.outcome in ("sampled_out", "filtered", "not_applicable"):
            continue
        outcomes += count.n
        counts[count.outcome] = counts.get(count.outcome, 0) + count.n
        if count.outcome == "skipped" and count.reason in CONTENT:
            no_content += count.n
    return Recent(
        outcomes=outcomes,
        scored=counts["scored"],
        errors=counts["error"],
        budget=counts["budget"],
        no_content=no_content,
        silent=ever and latest < minute - SILENCE,
    )


def _ran(part: OpenPart) -> bool:
    """Whether a scorer ran: what the assembler sampled out was never asked of one."""
    return any(outcome != "sampled_out" for outcome, _ in part.outcomes)


def _finding(rule: Rule, app: App, text: str, engine: str = "") -> Finding:
    labels = labels_of(rule, app=app[0], environment=app[1], engine=engine)
    return Finding(rule, labels, annotations_of(rule, text))
