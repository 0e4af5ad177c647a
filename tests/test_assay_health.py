"""A stage is healthy when it moves on, not because its process lives."""

from __future__ import annotations

from assay.health import STALE_AFTER, STUCK_AFTER, Heartbeat


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_loop_that_turns_without_finishing_anything_is_stuck() -> None:
    """Waiting records of which none is finished make a stage unhealthy; none waiting does not."""
    clock, lag = Clock(), [0]
    heartbeat = Heartbeat(lambda: lag[0], clock)
    for _ in range(20):
        clock.now += 10
        heartbeat.turned()
    assert heartbeat.health().ok
    lag[0] = 5
    health = heartbeat.health()
    assert not health.ok and "5 records wait" in health.detail
    heartbeat.failed("the disk is full")
    assert heartbeat.health().detail.endswith("the disk is full")
    heartbeat.finished()
    assert heartbeat.health().ok and heartbeat.health().idle_seconds == 0
    clock.now += STUCK_AFTER
    heartbeat.turned()
    assert heartbeat.health().ok
    clock.now += 1
    assert not heartbeat.health().ok


def test_a_failed_attempt_is_told_at_once() -> None:
    """One that is made again is no reason to be unhealthy, but no secret either."""
    heartbeat = Heartbeat(lambda: 3, Clock())
    heartbeat.failed("the disk is full")
    heartbeat.turned()
    health = heartbeat.health()
    assert health.ok and health.detail == "tries again: the disk is full"
    heartbeat.finished()
    assert heartbeat.health().detail == ""


def test_a_loop_that_stopped_is_unhealthy_even_without_work() -> None:
    """Without a turn of the loop nothing else counts."""
    clock = Clock()
    heartbeat = Heartbeat(lambda: 0, clock)
    clock.now = STALE_AFTER + 1
    assert "no turn" in heartbeat.health().detail
