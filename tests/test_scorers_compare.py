"""Comparisons: pairs by name, tests that see what is there, preferences, attacks."""

from __future__ import annotations

import random
from typing import Any

import pytest

from assay.records import Score, Turn, TurnScores
from scorers.compare import (
    compare_pairs,
    compare_pools,
    pairs_of,
    pool,
    vulnerabilities,
    wins,
)
from scorers.evaluate import Result
from scorers.statistics import (
    mcnemar,
    mean,
    paired_means,
    paired_rates,
    rate,
    student,
    two_means,
    two_rates,
    win_rate,
)


def result(name: str, value: float | None, passed: bool | None, **fields: Any) -> Result:
    score = Score(**({"metric": "m", "engine": "e", "value": value, "passed": passed} | fields))
    scores = TurnScores(subject_id=name, turn_id=name, trace_id="", scores=(score,))
    return Result(name=name, line=1, turn=Turn(turn_id=name, trace_id=""), scores=scores)


def test_rows_are_paired_by_name_and_variants_with_their_origin() -> None:
    """`x#y` belongs to `x`; a row without its pair is left out."""
    first = [result("a", 1, True), result("b", 1, True)]
    second = [result("b#1", 1, True), result("b#2", 1, True), result("a", 1, True)]
    second.append(result("c", 1, True))
    assert [(x.name, y.name) for x, y in pairs_of(first, second)] == [
        ("b", "b#1"), ("b", "b#2"), ("a", "a"),
    ]  # fmt: skip


def test_a_paired_difference_is_seen_where_an_unpaired_one_is_not() -> None:
    """Rows differ far more than the sides do: pairing removes that, pooling does not."""
    rng = random.Random(3)
    hard = [rng.uniform(1, 4) for _ in range(60)]
    first = [result(str(n), v, v >= 3) for n, v in enumerate(hard)]
    second = [result(str(n), v + 0.2 + rng.gauss(0, 0.1), v + 0.2 >= 3) for n, v in enumerate(hard)]
    (paired,) = compare_pairs(pairs_of(first, second))
    assert paired.mean is not None and paired.rate is not None
    assert paired.mean.value == pytest.approx(0.2, abs=0.05) and paired.mean.p < 1e-6
    assert paired.better > 50 and paired.pairs == 60
    assert paired.rate.value <= 0
    pools = [pool(s for r in side for s in r.scores.scores) for side in (first, second)]
    (apart,) = compare_pools(*pools)
    assert apart.mean is not None and apart.mean.p > 0.05 and not apart.paired
    assert apart.mean.value == pytest.approx(paired.mean.value)


def test_better_follows_the_metrics_direction() -> None:
    """Less is better for harms and verbosity near nought."""
    for direction, value, better in (("lower", 1.0, 1), ("within", -1.0, 1), ("higher", 1.0, 0)):
        first = [result("a", 2.0, True, direction=direction)]
        second = [result("a", value, True, direction=direction)]
        (row,) = compare_pairs(pairs_of(first, second))
        assert (row.better, row.worse) == (better, 1 - better)


def test_what_was_not_scored_is_in_no_pair() -> None:
    """An error on one side removes the pair from means and rates."""
    first = [result("a", None, None, outcome="error"), result("b", 1.0, True)]
    second = [result("a", 5.0, True), result("b", 2.0, False)]
    (row,) = compare_pairs(pairs_of(first, second))
    assert (row.pairs, row.baseline_mean, row.candidate_rate) == (1, 1.0, 1.0)


def test_an_attack_counts_when_it_made_things_worse() -> None:
    """Harmful under attack, and not or less so before; equal harm and missing verdicts do not."""
    harm: dict[str, Any] = {"metric": "content_safety", "direction": "lower"}
    before = [(0, True), (5, False), (5, False), (0, True), (None, None), (0, True)]
    after = [(5, False), (7, False), (5, False), (2, True), (7, False), (4, False)]
    first = [result(str(n), v, p, **harm) for n, (v, p) in enumerate(before)]
    second = [result(f"{n}#wrapped", v, p, **harm) for n, (v, p) in enumerate(after)]
    (row,) = vulnerabilities(pairs_of(first, second))
    assert (row.pairs, row.defects, row.unscored) == (5, 3, 1)
    assert row.rate is not None and row.rate.value == 0.6


def test_preferences_are_counted_and_ties_are_half() -> None:
    """Labels to wins; what the judge did not answer is in no rate."""
    labels = ["CANDIDATE"] * 6 + ["BASELINE"] * 2 + ["TIE"] * 2 + [None]
    (row,) = wins(Score(metric="p", engine="j", label=label) for label in labels)
    assert (row.candidate, row.baseline, row.tie, row.unanswered) == (6, 2, 2, 1)
    assert row.win_rate is not None and row.win_rate.value == 0.7
    assert row.win_rate.p == pytest.approx(mcnemar(6, 2))


def test_the_statistics_equal_published_values() -> None:
    """Student's quantiles, the exact sign test, Wilson's and Newcombe's intervals."""
    for freedom, quantile in ((1, 12.7062), (2, 4.3027), (10, 2.2281), (100, 1.9840)):
        assert student(freedom) == pytest.approx(quantile, abs=1e-4)
    assert mcnemar(1, 9) == pytest.approx(0.0214844, abs=1e-6)
    assert mcnemar(600, 500) == pytest.approx(0.00284, abs=1e-4)
    # Newcombe 1998, example (a): 56/70 and 48/80.
    found = two_rates((56, 70, 70), (48, 80, 80))
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx((0.0524, 0.3339), abs=2e-4)
    limits = rate(1, 10, 10)
    assert limits is not None
    assert (limits.lower, limits.upper) == pytest.approx((0.0179, 0.4042), abs=1e-4)
    assert rate(0, 0, 0) is None and paired_rates(0, 0, 0) is None and win_rate(0, 0, 0) is None
    assert mean([]) is None and mean([1.0]) == (1.0, None, None) and paired_means([1.0]) is None
    assert two_means([1.0], [1.0, 2.0]) is None
    same = two_means([1.0, 1.0], [1.0, 1.0])
    assert same is not None and same.p == 1.0


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_intervals_of_paired_rates_cover_the_truth(shift: float) -> None:
    """93 to 98 % of simulated intervals hold the true difference; the test keeps its size."""
    rng = random.Random(5)
    n, trials, covered, alarms = 80, 1500, 0, 0
    for _ in range(trials):
        gained = lost = 0
        for _ in range(n):
            u = rng.random()
            gained += u < 0.1 + shift
            lost += 0.1 + shift <= u < 0.2 + shift
        found = paired_rates(n, gained, lost)
        assert found is not None
        covered += found.lower <= shift <= found.upper
        alarms += found.p < 0.05
    assert 0.93 <= covered / trials <= 0.98
    if shift == 0.0:
        assert alarms / trials <= 0.055
