"""From scores to sums: what enters, what does not, and how values are placed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from exporters_data import NOON, score, turn_scores
from hypothesis import given
from hypothesis import strategies as st

from assay.catalogue import METRICS
from assay.metric import Metric
from assay.records import Rollup, TurnScores, encode
from exporters.rollup import DEFAULT_BOUNDS, GROUPS, Sums, bounds_of, decode_entries
from exporters.sums import MAX_CELLS, cell_of


def rolled(*turns: TurnScores, **options: Any) -> list[Rollup]:
    sums = Sums(**options)
    for turn in turns:
        sums.add(decode_entries(encode(turn)))
    return sums.rollups()


def test_sums_are_exact_per_stratum_and_weight() -> None:
    """Every (stratum, weight) has its own n, judged, defects, sum and squares."""
    (rollup,) = rolled(
        turn_scores(1, score(value=1.0, passed=True, weight=20.0), at=NOON),
        turn_scores(2, score(value=0.5, passed=False, weight=20.0), at=NOON),
        turn_scores(3, score(value=0.0, passed=False, weight=1.0), at=NOON, stratum="errors"),
        turn_scores(4, score(value=0.25, weight=20.0), at=NOON),
    )
    cells = {(c.stratum, c.weight): c for c in rollup.cells}
    base, errors = cells["base", 20.0], cells["errors", 1.0]
    assert (base.n, base.judged, base.defects) == (3, 2, 1)
    assert (base.total, base.squares) == (1.75, 1.3125)
    assert (errors.n, errors.judged, errors.defects, errors.total) == (1, 1, 1, 0.0)
    assert rollup.minute == NOON // 60
    assert rollup.max_freshness == pytest.approx(2.0)
    assert sum(group.weight for group in rollup.groups) == 41.0
    assert sum(group.defects for group in rollup.groups) == 21.0


@pytest.mark.parametrize("fields", [{"run": "backfill-7"}, {"revision": 1}])
def test_backfills_and_later_revisions_never_enter(fields: dict[str, Any]) -> None:
    """Only the live run's first revision changes live series."""
    assert rolled(turn_scores(1, **fields)) == []


def test_only_scored_entries_have_values() -> None:
    """Whatever else an evaluation ended in is counted by reason and is never a value."""
    outcomes = [("error", "timeout"), ("skipped", "documents"), ("sampled_out", None)]
    (rollup,) = rolled(
        *(
            turn_scores(i, score(outcome=outcome, outcome_reason=reason, weight=2.0))
            for i, (outcome, reason) in enumerate(outcomes)
        )
    )
    assert rollup.cells == []
    counts = {(c.outcome, c.reason): (c.n, c.weight) for c in rollup.outcomes}
    assert counts == {(outcome, reason or ""): (1, 2.0) for outcome, reason in outcomes}


def test_zero_is_a_value_and_missing_is_none() -> None:
    """A score of 0 is an observation of 0; a skipped one is no observation (case B17)."""
    (rollup,) = rolled(
        turn_scores(1, score("input_tokens", "computed", subject="turn", value=0.0), at=NOON),
        turn_scores(
            2, score("input_tokens", "computed", subject="turn", outcome="skipped"), at=NOON
        ),
    )
    (cell,) = rollup.cells
    assert (cell.n, cell.total, cell.buckets[0]) == (1, 0.0, 1)


@pytest.mark.parametrize(
    "fields",
    [{"value": 1e300}, {"value": -1e101}, {"weight": 0.0}, {"weight": -1.0}, {"weight": 1e12}],
)
def test_numbers_that_would_spoil_a_sum_are_errors(fields: dict[str, Any]) -> None:
    """What is not usable as a number counts as out_of_range and leaves the sums alone."""
    (rollup,) = rolled(turn_scores(1, score(**({"value": 1.0, "passed": True} | fields))))
    assert rollup.cells == []
    assert [(c.outcome, c.reason) for c in rollup.outcomes] == [("error", "out_of_range")]


def test_a_conversation_stays_in_one_group() -> None:
    """Turns of one conversation meet in one of the 32 groups; others spread."""
    (together,) = rolled(
        *(turn_scores(i, conversation_id="c", at=NOON, app="a") for i in range(50))
    )
    (apart,) = rolled(*(turn_scores(i, at=NOON, app="a") for i in range(500)))
    assert [group.n for group in together.groups] == [50]
    assert len(apart.groups) == GROUPS


def test_series_split_by_model_and_version_only_when_asked() -> None:
    """Without the setting, models and versions share a series."""
    turns = [turn_scores(i, model=f"m{i}", version="1", at=NOON) for i in range(3)]
    assert len(rolled(*turns)) == 1
    assert {r.key.model for r in rolled(*turns, labels=["model"])} == {"m0", "m1", "m2"}
    assert {r.key.version for r in rolled(*turns, labels=["version"])} == {"1"}


@given(st.lists(st.floats(-10, 1e6), min_size=1, max_size=40))
def test_a_value_falls_in_the_bucket_of_its_bound(values: list[float]) -> None:
    """Cumulative bucket counts are the number of values at most the bound."""
    (rollup,) = rolled(
        *(turn_scores(i, score("mine", value=v), at=NOON) for i, v in enumerate(values))
    )
    (cell,) = rollup.cells
    for index, bound in enumerate((*DEFAULT_BOUNDS, math.inf)):
        assert sum(cell.buckets[: index + 1]) == sum(v <= bound for v in values)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_every_metric_has_ascending_bounds(metric: Metric) -> None:
    """A metric of the catalogue has bounds that a histogram can use."""
    bounds = bounds_of(metric)
    assert bounds and list(bounds) == sorted(set(bounds)) and all(map(math.isfinite, bounds))


def test_cells_stay_few_however_many_weights_come() -> None:
    """Beyond the limit weights share cells, by at most 2.2 % at first."""
    cells: dict[tuple[str, float], Any] = {}
    for i in range(20_000):
        cell = cell_of(cells, f"s{i % 50}", 1 + i * 0.05)
        cell.n += 1
    assert len(cells) <= MAX_CELLS + 64
    assert sum(cell.n for cell in cells.values()) == 20_000


def test_exemplars_name_the_latest_trace_of_a_bucket() -> None:
    """Each bucket keeps one trace id, the newest."""
    (rollup,) = rolled(*(turn_scores(i, score("mine", value=0.95), at=NOON + i) for i in range(3)))
    assert list(rollup.exemplars.values()) == [(f"{2:032x}", 0.95, float(NOON + 2))]
    assert rollup.last_scored == NOON + 2
