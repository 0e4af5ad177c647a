"""The regression detector: what it promises about false alarms, and how fast it is."""

from __future__ import annotations

import numpy as np
import pytest
from detector_simulation import (
    DAY,
    DESIGNS,
    Design,
    cusum_delay,
    detection_delay,
    evidence_step,
    table,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.records import Cell
from exporters.detector import CEILING, FRACTIONS, advance, factors, fresh, mixture

MEAN_DAYS = 7


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_false_alarms(design: Design) -> None:
    """With an estimated baseline the detector alarms no more often than it was allowed to."""
    if design.rate > 50:
        # The same clustering at a rate that a test has time for; `make simulate` runs it in full.
        design = Design(design.name, 20, design.turns, design.correlation)
    [(_, week, allowed, median)] = table([design], 30, 10, MEAN_DAYS * DAY)
    print(f"{design.name}: fired in week 1 {week:.2f}, allowed {allowed:.2f}; median {median}")
    assert week <= allowed / 2
    assert median >= 1


def test_doubling_is_found_about_as_fast_as_by_a_tuned_cusum() -> None:
    """For 4 % to 8 % with a known baseline the mean delay is at most 1.5 times that of a CUSUM
    tuned to that change, while this detector's false alarms are rarer."""
    rng = np.random.default_rng(5)
    # Threshold 5.3: one false alarm in about 20,000 turns, as the mean time below also promises.
    cusum = cusum_delay(1500, 5.3, 0.04, 0.08, 0.08, rng).mean()
    ours = detection_delay(1500, 20_000, 0.04, 0.08, 1, rng).mean()
    print(f"turns to detect a doubling: tuned CUSUM {cusum:.0f}, mixture {ours:.0f}")
    assert ours <= 1.5 * cusum


def test_simulated_evidence_is_the_products() -> None:
    """The arrays of the simulation and the product's own code agree block by block."""
    rng = np.random.default_rng(2)
    r, product = np.zeros((1, len(FRACTIONS))), fresh()
    for _ in range(200):
        n = rng.integers(0, 30, 1).astype(float)
        d = np.minimum(n, rng.poisson(2, 1)).astype(float)
        w, p0, deff = np.array([5.0]), np.array([0.05]), np.array([2.5])
        r = evidence_step(r, n, d, w, p0, deff, np.array([10.0]))
        cell = Cell("base", 5.0, judged=int(n[0]), defects=int(d[0]))
        product = advance(product, factors([cell], 0.05, 10.0, 2.5))
    assert product == pytest.approx(list(r[0]), rel=1e-9)


@given(
    p0=st.floats(0.001, 0.9),
    weight=st.floats(1, 1000),
    deff=st.floats(1, 20),
    share=st.floats(0.01, 1),
)
def test_one_turn_has_expectation_one(p0: float, weight: float, deff: float, share: float) -> None:
    """At the null rate the evidence of one eligible turn is 1 in expectation or less, whatever
    its sampling weight."""
    own = max(1.0, weight * share)
    bad = factors([Cell("s", own, judged=1, defects=1)], p0, weight, deff)
    good = factors([Cell("s", own, judged=1)], p0, weight, deff)
    for failed, passed in zip(bad, good, strict=True):
        mean = (p0 * np.exp(failed) + (1 - p0) * np.exp(passed)) / own + (1 - 1 / own)
        assert mean <= 1 + 1e-9


def test_empty_blocks_only_count_time() -> None:
    """A night without traffic says nothing: R grows by one a block, for any bet size."""
    r = fresh()
    for _ in range(100):
        r = advance(r, factors([], 0.05, 1.0, 1.0))
    assert mixture(r) == 100


def test_heavier_turn_than_was_known_silences_its_block() -> None:
    """A block with a weight beyond the largest known one is left out instead of guessed at."""
    heavy = Cell("base", 20.0, judged=10, defects=10)
    assert factors([heavy], 0.05, 10.0, 1.0) == [0.0] * len(FRACTIONS)


@settings(max_examples=20)
@given(st.integers(1, 10**6))
def test_evidence_stays_a_number(defects: int) -> None:
    """No run of defects makes the evidence overflow."""
    r = fresh()
    for _ in range(50):
        r = advance(r, factors([Cell("s", 1.0, judged=defects, defects=defects)], 1e-6, 1.0, 1.0))
    assert mixture(r) <= CEILING
