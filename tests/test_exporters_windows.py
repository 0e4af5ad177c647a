"""The owner's memory: any order gives the same sums, a restart the same numbers, time its end."""

from __future__ import annotations

import itertools
import random

import pytest
from exporters_data import NOON, score, turn_scores
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.records import (
    RollupBatch,
    SeriesKey,
    Tally,
    TurnScores,
    decode_rollups,
    encode,
)
from exporters.labels import OTHER
from exporters.rollup import Sums, decode_entries
from exporters.tracked import MINUTES_KEPT, OPEN_HOURS
from exporters.views import Views
from exporters.windows import HOURS_KEPT, Windows

HOUR = 3600.0


def windows(now: float = NOON, max_series: int = 100) -> Windows:
    return Windows(lambda *_: None, max_series=max_series, clock=lambda: now)


def add(into: Windows, *turns: TurnScores) -> None:
    sums = Sums(lambda *_: None, labels=["model"])
    for turn in turns:
        sums.add(decode_entries(encode(turn)))
    for rollup in decode_rollups(encode(RollupBatch(rollups=sums.rollups()))).rollups:
        into.add(rollup)


def traffic(seed: int, hours: float, now: float = NOON) -> list[TurnScores]:
    rng = random.Random(seed)
    return [
        turn_scores(
            i,
            score(
                f"m{rng.randrange(3)}",
                value=rng.choice([0.0, 0.25, 0.5, 1.0]),
                passed=rng.random() > 0.25,
                weight=rng.choice([1.0, 2.0, 16.0]),
            ),
            at=now - rng.random() * hours * HOUR,
            conversation_id=f"c{rng.randrange(60)}",
        )
        for i in range(300)
    ]


def seen(of: Windows, now: float = NOON) -> dict[SeriesKey, object]:
    """Everything that the page shows, by series, and the spread to its last digit."""
    shown = Views(of)
    return {
        series.key: (
            (effect, shown.spread(series, int(now // 60))),
            views,
            series.kept().totals,
            sorted((c.outcome, c.reason, c.n) for c in series.outcomes.values()),
        )
        for series, effect, views in shown.refresh(int(now // 60))
    }


def committed(of: Windows, state: dict[str, bytes], now: float = NOON) -> None:
    changes = of.changes(int(now // 60))
    for key, value in changes.items():
        if value is None:
            state.pop(key)
        else:
            state[key] = value
    of.committed(changes)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 299), max_size=4))
def test_a_restart_at_any_point_gives_the_same_numbers(seed: int, cuts: list[int]) -> None:
    """Committing, restoring and going on shows exactly what an undisturbed owner shows."""
    turns = traffic(seed, 30)
    edges = [0, *sorted(set(cuts)), len(turns)]
    whole, state = windows(), {}
    broken = windows()
    for start, end in itertools.pairwise(edges):
        add(whole, *turns[start:end])
        add(broken, *turns[start:end])
        committed(broken, state)
        broken = windows()
        broken.restore(state)
    assert seen(broken) == seen(whole)


def test_work_that_was_not_committed_is_read_again_and_counts_once() -> None:
    """A killed owner's successor continues from the commit and adds what came after it."""
    turns = traffic(7, 20)
    state: dict[str, bytes] = {}
    first = windows()
    add(first, *turns[:200])
    committed(first, state)
    add(first, *turns[200:])
    successor = windows()
    successor.restore(state)
    add(successor, *turns[200:])
    assert seen(successor) == seen(first)


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(8)))
def test_the_order_of_deltas_does_not_matter(order: list[int]) -> None:
    """Deltas of several replicas add up to the same in any order."""
    turns = traffic(3, 28)
    parts = [turns[i * 37 : (i + 1) * 37] for i in range(8)]
    straight, shuffled = windows(), windows()
    for i in range(8):
        add(straight, *parts[i])
    for i in order:
        add(shuffled, *parts[i])
    for key, (_, views, totals, outcomes) in seen(straight).items():  # type: ignore[misc]
        _, other_views, other_totals, other_outcomes = seen(shuffled)[key]  # type: ignore[misc]
        assert outcomes == other_outcomes
        assert totals.weight == other_totals.weight
        assert views["24h"].turns == other_views["24h"].turns
        assert views["24h"].mean == pytest.approx(other_views["24h"].mean, rel=1e-12)


def test_only_what_changed_is_written() -> None:
    """A commit after one more delta holds the keys of its series, minute and hour only."""
    of, state = windows(), {}
    add(of, *traffic(1, 30))
    committed(of, state)
    add(of, turn_scores(1, at=NOON))
    changed = of.changes(int(NOON // 60))
    kinds = sorted(key.partition("/")[0] for key in changed)
    assert kinds == ["g", "h", "m", "s"]
    committed(of, state)
    assert of.changes(int(NOON // 60)) == {}


def test_state_expires() -> None:
    """Minutes go after 65 minutes, groups after 25 hours, hours after 9 days; totals stay."""
    now = [float(NOON)]
    of = Windows(lambda *_: None, max_series=10, clock=lambda: now[0])
    state: dict[str, bytes] = {}
    add(of, turn_scores(1, at=NOON))
    committed(of, state)
    held = {key.partition("/")[0] for key in state}
    assert held == {"s", "m", "h", "g"}
    for after, left in (
        (MINUTES_KEPT * 60, {"s", "h", "g"}),
        (OPEN_HOURS * HOUR, {"s", "h"}),
        (HOURS_KEPT * HOUR, {"s"}),
    ):
        now[0] = NOON + after
        committed(of, state, now[0])
        assert {key.partition("/")[0] for key in state} == left
    (shown,) = Views(of).refresh(int(now[0] // 60))
    assert shown[2] == {}


def test_hours_of_nine_days_can_be_read_open_or_packed() -> None:
    """An hour's sums are the same whether it is still open, packed, restored, or added to late."""
    of = windows()
    for hours in (0, 5, 30, 200):
        add(of, turn_scores(hours, at=NOON - hours * HOUR))
    add(of, turn_scores(999, at=NOON - 30 * HOUR))
    state: dict[str, bytes] = {}
    committed(of, state)
    successor = windows()
    successor.restore(state)
    for one in (of, successor):
        for hours, n in ((0, 1), (5, 1), (30, 2), (200, 1), (3, 0)):
            sums = list(one.hour_sums(NOON // 3600 - hours))
            assert sum(cell.n for _, part in sums for cell in part.cells) == n


def test_a_clock_that_runs_ahead_does_not_empty_the_windows() -> None:
    """A delta from the future counts as of now and makes nothing expire."""
    of = windows()
    add(of, turn_scores(1, at=NOON))
    add(of, turn_scores(2, at=NOON + 400 * 24 * HOUR))
    (shown,) = Views(of).refresh(int(NOON // 60))
    assert shown[2]["5m"].turns == 2


def test_windows_end_where_they_say() -> None:
    """5m is the running minute and 5 before it, 1h 60, 24h the running hour and 24 before it."""
    of = windows()
    for i, back in enumerate((0, 5 * 60, 6 * 60, 60 * 60, 61 * 60, 24 * HOUR, 25 * HOUR)):
        add(of, turn_scores(i, at=NOON - back))
    (shown,) = Views(of).refresh(int(NOON // 60))
    assert {name: view.turns for name, view in shown[2].items()} == {"5m": 2, "1h": 4, "24h": 6}


def test_series_are_bounded() -> None:
    """3,000 model names make no more series than are allowed, and nothing is lost (case B83)."""
    of = windows(max_series=50)
    add(of, *(turn_scores(i, model=f"ft-{i}", app=f"app-{i % 10}", at=NOON) for i in range(3000)))
    assert len(of.series) <= 51
    assert any(key.model == OTHER for key in of.series)
    assert sum(series.totals.passed for series in of.series.values()) == 3000
    assert of.labels.folded["series"] > 0


def test_tallies_count_turns_by_decision() -> None:
    """An assembler's tally counts the kept and the sampled-out turns of its app."""
    of, state = windows(), {}
    of.add_tally(Tally("shop", "test", NOON // 60, turns=10, sampled_out=4))
    of.add_tally(Tally("shop", "test", NOON // 60, turns=2))
    committed(of, state)
    successor = windows()
    successor.restore(state)
    assert successor.turns == of.turns == {("shop", "test"): [8, 4]}
