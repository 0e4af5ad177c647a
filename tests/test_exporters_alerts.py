"""Alerts over windows: what fires, what does not, and what survives the owner."""

from __future__ import annotations

import math
import random

import pytest
from alerts_drive import Drive

from assay.health import Health
from assay.records import Cell, SeriesKey
from exporters.alerting.rules import Rule

OBJECTIVE = Rule(alert="ungrounded", cause="objective", metric="groundedness", threshold=0.05)
REGRESSION = Rule(
    alert="worse", cause="regression", metric="groundedness", threshold=0.2, route="oncall"
)
JUDGE = SeriesKey("shop", "prod", "groundedness", "gpt-4o", "defect", "response")


def health(kind: str) -> Rule:
    return Rule(alert="pipeline", cause=kind)  # type: ignore[arg-type]


def run(drive: Drive, minutes: int, passed: int, failed: int) -> None:
    for _ in range(minutes):
        drive.score(passed, failed)
        drive.next_minute()


# Quality.


def test_objective_fires_on_what_is_surely_bad_and_names_turns() -> None:
    """20 bad of 100 a minute against 5 % fires, with the series, three turns and the board."""
    drive = Drive([OBJECTIVE])
    run(drive, 30, 80, 20)
    assert drive.firing() == [("ungrounded", "objective")]
    [alert] = drive.began
    assert alert.labels["app"] == "shop"
    assert alert.labels["engine"] == "local"
    assert len(alert.annotations["examples"].split(", ")) <= 3
    assert alert.annotations["board"].startswith("http://grafana/d/assay-quality?var-app=shop")
    assert "20.0% of turns fail" in alert.annotations["summary"]


def test_objective_is_silent_at_night_and_on_a_handful() -> None:
    """No traffic is no alert; one bad turn of two is no alert; a healthy app is no alert."""
    night, tiny, healthy = Drive([OBJECTIVE]), Drive([OBJECTIVE]), Drive([OBJECTIVE])
    for minute in range(30):
        night.next_minute()
        tiny.score(0, 1 if minute in (0, 29) else 0)
        tiny.next_minute()
        healthy.score(99, 1)
        healthy.next_minute()
    assert night.firing() == tiny.firing() == healthy.firing() == []


def test_objective_waits_for_its_time_and_ends_after_a_while() -> None:
    """hold_for delays the alert; a gap shorter than two minutes does not end it, a longer does."""
    rule = Rule(
        alert="slow", cause="objective", metric="groundedness", threshold=0.05, hold_for=300,
        window="5m",
    )  # fmt: skip
    drive = Drive([rule])
    run(drive, 4, 50, 50)
    assert drive.firing() == []
    run(drive, 3, 50, 50)
    assert drive.firing() == [("slow", "objective")]
    run(drive, 12, 5000, 0)
    assert drive.firing() == []
    [alert] = drive.alerts.lifecycle.alerts.values()
    assert alert.state == "resolved"


def test_attempts_by_users_never_fire_as_defects() -> None:
    """A harm asked of the query is an attempt, whatever its rate."""
    drive = Drive([Rule(alert="hate", cause="objective", metric="hate_unfairness", threshold=0.01)])
    attempt = SeriesKey("shop", "prod", "hate_unfairness", "gpt-4o", "attempt", "query")
    for _ in range(10):
        drive.score(0, 50, key=attempt)
        drive.next_minute()
    assert drive.firing() == []


@pytest.mark.parametrize(
    ("level", "accepted", "values", "fires"),
    [
        ("high", 0.0, {6: 1, 0: 99}, True),
        ("high", 0.0, {5: 9, 0: 91}, False),
        ("medium", 0.05, {4: 10, 0: 90}, True),
        ("medium", 0.05, {4: 3, 0: 97}, False),
        ("low", 0.0, {2: 1, 0: 99}, True),
        ("low", 0.0, {1: 9, 0: 91}, False),
    ],
)
def test_severity(level: str, accepted: float, values: dict[int, int], fires: bool) -> None:
    """One harm of the level fires where none is accepted, and a larger share where some are."""
    rule = Rule(alert="harm", cause="severity", metric="violence", level=level, threshold=accepted)
    drive = Drive([rule])
    key = SeriesKey("shop", "prod", "violence", "gpt-4o", "defect", "response")
    buckets = [values.get(i, 0) for i in range(8)] + [0]
    n = sum(values.values())
    bad = sum(count for value, count in values.items() if value >= 4)
    drive.score(n, 0, key=key, cell=Cell("base", 1.0, n, n, bad, 0.0, 0.0, buckets))
    drive.step()
    assert bool(drive.firing()) is fires


# Regression.


def week(drive: Drive, rng: random.Random, minutes: int, rate: float, n: int = 10) -> None:
    for _ in range(minutes):
        failed = sum(rng.random() < rate for _ in range(n))
        drive.score(n - failed, failed)
        drive.next_minute()


def test_regression_fires_recovers_and_keeps_the_incident_out_of_its_baseline() -> None:
    """A rate that triples over its baseline fires within the hour; it ends when the rate is back,
    and the incident's hours do not become normal."""
    rng, drive = random.Random(4), Drive([REGRESSION])
    week(drive, rng, 2 * 1440, 0.04)
    assert drive.began == []
    [watch] = drive.alerts.regressions[0].watches.values()
    assert watch.null_rate is not None
    assert 0.048 < watch.null_rate < 0.08
    before = watch.null_rate
    week(drive, rng, 60, 0.15)
    assert drive.firing() == [("worse", "regression")]
    assert watch.null_rate == pytest.approx(before, rel=0.01)
    assert max(value for _, _, value in drive.alerts.evidence()) >= 1
    week(drive, rng, 120, 0.04)
    assert drive.firing() == []
    assert len(drive.began) == 1
    week(drive, rng, 120, 0.04)
    assert watch.incident_hours
    assert watch.null_rate == pytest.approx(before, rel=0.1)


def test_healthy_days_fire_nothing() -> None:
    """Two days at one rate, day and night, with a stop of the traffic: no alert of any kind."""
    rules = [OBJECTIVE, REGRESSION, *map(health, ("no_scores", "judge_errors", "content_missing"))]
    rng, drive = random.Random(9), Drive(rules)
    for minute in range(2 * 1440):
        n = int(8 + 7 * math.sin(2 * math.pi * minute / 1440)) if minute % 1440 > 120 else 0
        failed = sum(rng.random() < 0.03 for _ in range(n))
        drive.turns(n)
        drive.score(n - failed, failed)
        drive.next_minute()
    assert drive.began == []


def test_new_scorer_starts_a_new_baseline() -> None:
    """A scorer that judges more strictly is no regression of the app; its own baseline begins."""
    rng, drive = random.Random(4), Drive([REGRESSION])
    week(drive, rng, 1600, 0.04)
    [watch] = drive.alerts.regressions[0].watches.values()
    assert watch.null_rate is not None
    for _ in range(120):
        drive.score(7, 3, scorer="2")
        drive.next_minute()
    assert drive.began == []
    assert watch.null_rate is None
    assert watch.since > 0


def test_a_successor_goes_on_with_evidence_alerts_and_silences() -> None:
    """What was committed is the other process's state: same evidence, same alerts, none new."""
    rng, drive = random.Random(4), Drive([OBJECTIVE, REGRESSION])
    week(drive, rng, 1600, 0.04)
    week(drive, rng, 20, 0.2)
    drive.alerts.silences.add({"app": "other"}, until=drive.now() + 10_000)
    other = drive.successor()
    other.step()
    drive.step()
    assert other.firing() == drive.firing() != []
    assert other.began == []
    assert [v for *_, v in other.alerts.evidence()] == [v for *_, v in drive.alerts.evidence()]
    assert len(other.alerts.silences.every) == 1


def test_a_restart_builds_the_same_baseline_from_the_hours_it_has() -> None:
    """The baseline of a successor, read from packed hours, is that of an owner who never ended."""
    rng, drive = random.Random(4), Drive([REGRESSION])
    week(drive, rng, 1600, 0.04, n=2)
    other = drive.successor()
    for one in (drive, other):
        one.minute += 60
        one.step()
    [ours], [theirs] = (one.alerts.regressions[0].watches.values() for one in (drive, other))
    assert ours.null_rate is not None
    assert theirs.null_rate == pytest.approx(ours.null_rate, rel=1e-12)


# The pipeline.


def test_scores_that_stop_while_turns_come_fire_within_ten_minutes_or_so() -> None:
    """60 turns a minute and no score from minute 10 on: an alert by minute 20 or just after."""
    drive = Drive([health("no_scores")])
    fired = 0
    for minute in range(40):
        drive.turns(60)
        if minute < 10:
            drive.score(60)
        drive.next_minute()
        if drive.firing() and not fired:
            fired = minute
    assert 10 < fired <= 21


def test_judge_errors_name_the_judge() -> None:
    """A judge that only errs fires, by its name."""
    drive = Drive([health("judge_errors")])
    for minute in range(20):
        ok = minute < 10
        outcomes = {("scored", ""): 60} if ok else {("error", "timeout"): 60}
        drive.score(60 if ok else 0, key=JUDGE, outcomes=outcomes)
        drive.next_minute()
    assert drive.firing() == [("pipeline", "judge_errors")]
    assert drive.began[0].labels["engine"] == "gpt-4o"


def test_content_that_is_missing_fires() -> None:
    """All turns skipped for want of text: content capture is off, and someone is told."""
    drive = Drive([health("content_missing")])
    for minute in range(30):
        outcomes = {("scored", ""): 60} if minute < 10 else {("skipped", "response"): 60}
        drive.score(60 if minute < 10 else 0, outcomes=outcomes)
        drive.next_minute()
    assert drive.firing() == [("pipeline", "content_missing")]


def test_metrics_that_do_not_apply_are_no_missing_content() -> None:
    """Turns without tools skip the tool metrics for ever, and that is right."""
    drive = Drive([health("content_missing")])
    for _ in range(30):
        drive.score(0, outcomes={("skipped", "tool_calls"): 60})
        drive.next_minute()
    assert drive.firing() == []


def test_no_turns_fires_only_for_an_app_that_never_rests() -> None:
    """An app whose quietest hour is busy and that falls silent fires; one with quiet nights not."""
    busy, quiet = Drive([health("no_turns")]), Drive([health("no_turns")])
    for drive, resting in ((busy, False), (quiet, True)):
        for minute in range(25 * 60):
            n = 0 if resting and minute // 60 == 3 else 5
            drive.turns(n)
            drive.score(n)
            drive.next_minute()
        for _ in range(20):
            drive.next_minute()
    assert busy.firing() == [("pipeline", "no_turns")]
    assert quiet.firing() == []


def test_budget_lag_and_late_spans() -> None:
    """A judge without budget, a stage that is stuck and spans that come too late each fire."""
    drive = Drive([health("budget"), health("lag"), health("late_spans")])
    for _ in range(3):
        drive.score(0, key=JUDGE, outcomes={("budget", ""): 60, ("scored", ""): 10})
        drive.spans += 1000
        drive.next_minute()
    assert drive.firing() == [("pipeline", "budget")]
    drive.spans, drive.late_spans = drive.spans + 1000, 200
    drive.stages["assembler"] = Health(ok=False, detail="5 records wait")
    drive.step()
    assert {cause for _, cause in drive.firing()} == {"budget", "lag", "late_spans"}
    lag = next(a for a in drive.began if a.labels["cause"] == "lag")
    assert lag.labels["stage"] == "assembler"
