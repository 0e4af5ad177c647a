"""The cascade's estimates as series: rate, interval, bounds, calls saved; over many draws too."""

import math

import numpy as np
import pytest

from assay.catalogue import CASCADE
from assay.records import Cascade, Cell, Score, TurnScores, encode
from exporters.intervals import estimated, judged_alike
from exporters.rollup import Sums, decode_entries
from exporters.views import Views
from exporters.windows import Windows
from scorers.cascade import CascadeOptions, probability

NOW = 29_000_000 * 60
OPTIONS = CascadeOptions()
RUNS = 1000
TURNS = 6000


def score(local, judge=None, pi=0.25, outcome="scored", weight=1.0):
    cascade = Cascade(local=local, judge=judge, pi=pi)
    value = cascade.estimate(judge) if outcome == "scored" else None
    return Score(
        metric="groundedness",
        engine=CASCADE,
        outcome=outcome,
        outcome_reason=("unjudged" if judge is None else "judged")
        if value is not None
        else "timeout",
        value=value,
        passed=None if value is None else value <= 0.5,
        weight=weight,
        cascade=cascade,
    )


def view_of(scores):
    """The one-hour view of one score per turn, and the series."""
    from assay.catalogue import contract

    sums = Sums(contract)
    for number, one in enumerate(scores):
        turn = TurnScores(
            subject_id=f"{number}",
            turn_id=f"{number}",
            trace_id=f"{number:032x}",
            app="shop",
            scored_at=NOW * 10**9,
            scores=(one,),
        )
        sums.add(decode_entries(encode(turn)))
    windows = Windows(contract, max_series=10, clock=lambda: NOW)
    for rollup in sums.rollups():
        windows.add(rollup)
    ((series, _, views),) = Views(windows).refresh(NOW // 60)
    return series, views["1h"]


def test_rate_is_the_weighted_mean_of_the_estimates():
    """Judged turns count p + (y - p) / pi, the others p, each times its sampling weight."""
    found = [score(0.2), score(0.4, judge=True, pi=0.5), score(0.1, judge=False, weight=3.0)]
    _, view = view_of(found)
    expected = (0.2 + (0.4 + 0.6 / 0.5) + 3 * (0.1 - 0.1 / 0.25)) / 5
    assert view.rate.rate == pytest.approx(expected)
    assert view.mean == pytest.approx(expected)
    assert view.rate.lower < expected < view.rate.upper
    assert view.judged == 2
    assert view.saved < 1


def test_interval_may_lie_outside_zero_to_one():
    """The estimate is a value with a normal interval and is not cut off."""
    _, view = view_of([score(0.01)] * 50 + [score(0.5, judge=False, pi=0.1)])
    assert view.rate.rate < 0
    assert view.rate.lower < view.rate.rate


def test_lost_answers_widen_the_bounds_and_stand_in_the_ledger():
    """A drawn turn without the judge's answer is in no estimate, and in both bounds."""
    found = [score(0.2)] * 9 + [score(0.4, outcome="error", pi=0.5)]
    series, view = view_of(found)
    assert view.rate.rate == pytest.approx(0.2)
    assert view.if_errors_fail == pytest.approx((9 * 0.2 + 0.4 + 0.6 / 0.5) / 10)
    assert view.if_errors_pass == pytest.approx((9 * 0.2 + 0.4 - 0.4 / 0.5) / 10)
    assert series.outcomes["scored", "unjudged"].n == 9
    assert series.outcomes["error", "timeout"].n == 1


def test_late_answers_are_lost_too():
    """What came too late is bounded in the same way as an error."""
    _, view = view_of([score(0.2)] * 9 + [score(0.4, outcome="late", pi=0.5)])
    assert view.if_errors_fail > 0.2 > view.if_errors_pass


def test_series_has_no_counts_of_verdicts():
    """Verdicts of a cascade are no sample of the judge's: nothing adds them up as such."""
    series, _ = view_of([score(0.2), score(0.4, judge=True)])
    assert series.totals.weight == series.totals.passed == series.totals.failed == 0
    assert not any(series.totals.buckets)
    assert all(
        cell.judged == cell.defects == 0
        for m in series.minutes.values()
        for cell in m.cells.values()
    )


def test_design_effect_is_of_the_estimates():
    """Turns of one conversation that agree widen the interval of the estimates."""
    from assay.catalogue import contract

    generator = np.random.default_rng(1)
    sums = Sums(contract)
    for talk in range(2000):
        rate = generator.beta(0.2, 1.8)
        for turn in range(8):
            found = score(float(rate))
            record = TurnScores(
                subject_id=f"{talk}-{turn}",
                turn_id=f"{talk}-{turn}",
                trace_id=f"{talk:016x}{turn:016x}",
                conversation_id=f"{talk}",
                scored_at=NOW * 10**9,
                scores=(found,),
            )
            sums.add(decode_entries(encode(record)))
    windows = Windows(contract, max_series=10, clock=lambda: NOW)
    for rollup in sums.rollups():
        windows.add(rollup)
    ((_, effect, _),) = Views(windows).refresh(NOW // 60)
    assert 4 < effect < 14  # Eight turns that agree wholly.


def engine_of(auroc, rate):
    """Draws turns of a calibrated local engine: their probabilities of a defect, and defects.

    The engine's inner score is normal, shifted by d' for defects; its probability is the exact one.
    """
    shift = math.sqrt(2) * _quantile(auroc)

    def turns(generator, count):
        defects = generator.random(count) < rate
        inner = generator.normal(size=count) + shift * defects
        odds = math.log(rate / (1 - rate)) + shift * inner - shift * shift / 2
        return 1 / (1 + np.exp(-odds)), defects

    return turns


def _quantile(p):
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)


def pi_of(locals_, most=OPTIONS.most, least=OPTIONS.least):
    return np.maximum(least, most * 2 * np.sqrt(locals_ * (1 - locals_)))


def cells_of(locals_, defects, pi, drawn, weight=1.0):
    values = np.where(drawn, locals_ + (defects - locals_) / pi, locals_)
    return Cell("base", weight, n=len(values), total=values.sum(), squares=(values**2).sum())


@pytest.mark.parametrize(
    ("auroc", "rate"), [(0.82, 0.5), (0.82, 0.1), (0.91, 0.3), (0.91, 0.05), (0.7, 0.1)]
)
def test_interval_covers(auroc, rate, capsys):
    """The 95 % interval holds the true rate in 93 to 97 % of the runs, and the mean is right."""
    generator, turns = np.random.default_rng(7), engine_of(auroc, rate)
    covered, rates = 0, []
    for _ in range(RUNS):
        locals_, defects = turns(generator, TURNS)
        pi = pi_of(locals_)
        found = estimated([cells_of(locals_, defects, pi, generator.random(TURNS) < pi)])
        covered += found.lower <= rate <= found.upper
        rates.append(found.rate)
    with capsys.disabled():
        print(f"\nAUROC {auroc}, rate {rate}: coverage {covered / RUNS:.1%}", end="")
    assert 0.93 <= covered / RUNS <= 0.97
    assert np.mean(rates) == pytest.approx(rate, rel=0.02)


@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_wrong_local_engine_leaves_the_rate_unbiased(rate):
    """An engine that is sure and wrong widens the interval; the mean stays the judge's rate."""
    generator, turns = np.random.default_rng(8), engine_of(0.82, rate)
    covered, rates = 0, []
    for _ in range(RUNS):
        locals_, defects = turns(generator, TURNS)
        locals_ = np.clip(locals_**2, 0.002, 0.998)  # Too low, and surer than it may be.
        pi = pi_of(locals_)
        found = estimated([cells_of(locals_, defects, pi, generator.random(TURNS) < pi)])
        covered += found.lower <= rate <= found.upper
        rates.append(found.rate)
    assert np.mean(rates) == pytest.approx(rate, rel=0.02)
    assert 0.92 <= covered / RUNS <= 0.97


@pytest.mark.parametrize(
    ("auroc", "rate", "most"),
    [(0.82, 0.5, 0.05), (0.82, 0.5, 0.25), (0.91, 0.5, 0.05), (0.91, 0.5, 0.25), (0.91, 0.1, 0.25)],
)
def test_calls_saved_are_near_the_optimum(auroc, rate, most, capsys):
    """At an equal width the calls saved are at least 85 % of what Neyman's optimum allows."""
    least = min(OPTIONS.least, most / 5)
    locals_, defects = engine_of(auroc, rate)(np.random.default_rng(9), 400_000)
    pi = pi_of(locals_, most, least)
    drawn = np.random.default_rng(10).random(len(pi)) < pi
    alike = judged_alike([cells_of(locals_, defects, pi, drawn)])
    saved = 1 - drawn.sum() / alike
    variance = locals_ * (1 - locals_)
    unit, excess = np.sqrt(variance), np.mean(variance * (1 / pi - 1))
    low, high = 0.0, 50.0
    for _ in range(60):  # The scale at which unlimited allocation gives the same variance.
        scale = (low + high) / 2
        best = np.minimum(1.0, np.maximum(scale * unit, 1e-9))
        low, high = (scale, high) if np.mean(variance * (1 / best - 1)) > excess else (low, scale)
    bound = 1 - best.sum() / (rate * (1 - rate) / (rate * (1 - rate) + excess) * len(pi))
    with capsys.disabled():
        print(
            f"\nAUROC {auroc}, rate {rate}, most {most}: {drawn.mean():.1%} of turns asked, "
            f"{saved:.1%} of calls saved, bound {bound:.1%}",
            end="",
        )
    assert saved >= 0.85 * bound


def test_probability_here_is_that_of_the_scorers():
    """The simulation's vector form is the product's own rule."""
    for local in (0.0, 0.001, 0.2, 0.5, 0.97):
        own = probability(local, OPTIONS.most, OPTIONS.least)
        assert own == pytest.approx(float(pi_of(np.array([local]))[0]))
