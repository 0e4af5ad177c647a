"""The interval's parts against values known from elsewhere, and its limits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.records import Cell
from exporters.intervals import Moments, Spread, interval, moments, pool, spread, wilson


def cell(stratum: str, weight: float, judged: int, defects: int) -> Cell:
    return Cell(stratum, weight, judged, judged, defects)


def test_wilson_equals_published_values() -> None:
    """Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662, 0 of 20 gives 0 to 0.1611."""
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0.0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_one_stratum_without_design_effect_is_wilson() -> None:
    """With one weight and independent turns nothing is added to Wilson's interval."""
    found = interval([cell("base", 20.0, 263, 81)])
    assert found is not None
    assert found.rate == pytest.approx(81 / 263)
    assert (found.lower, found.upper) == pytest.approx(wilson(81 / 263, 263))


def test_the_rate_is_weighted() -> None:
    """Errors kept at 1 do not outweigh the rest kept at 0.05."""
    found = interval([cell("errors", 1.0, 100, 50), cell("base", 20.0, 95, 0)])
    assert found is not None
    assert found.rate == pytest.approx(50 / 2000)


def test_no_verdict_gives_no_interval() -> None:
    """Without a verdict there is no rate, rather than a zero."""
    assert interval([]) is None
    assert interval([cell("base", 1.0, 0, 0)]) is None


cells = st.lists(
    st.builds(
        lambda stratum, weight, judged, share: cell(stratum, weight, judged, int(judged * share)),
        st.sampled_from(["errors", "slow", "base"]),
        st.floats(1, 1000),
        st.integers(0, 5000),
        st.floats(0, 1),
    ),
    max_size=8,
)


@given(cells, st.floats(1, 30))
def test_limits_enclose_the_rate_and_widen_with_the_design_effect(
    sample: list[Cell], effect: float
) -> None:
    """0 <= lower <= rate <= upper <= 1 for any sample; a design effect never narrows."""
    plain, wide = interval(sample), interval(sample, effect)
    assert (plain is None) == (wide is None)
    if plain is not None and wide is not None:
        for found in (plain, wide):
            assert 0 <= found.lower <= found.rate <= found.upper <= 1
        assert wide.upper - wide.lower >= plain.upper - plain.lower - 1e-9


def test_equal_turns_of_a_conversation_give_their_number_as_design_effect() -> None:
    """Ten equal turns per conversation are worth one: the design effect is about 10."""
    weights = [10.0] * 32
    defects = [10.0 if i % 4 == 0 else 0.0 for i in range(32)]
    hours = [moments(weights, defects)] * 24
    found = spread(hours, [cell("base", 1.0, 7680, 1920)], 32)
    assert found.design_effect == pytest.approx(10 * 32 / 31, rel=1e-9)
    assert found.conversations == pytest.approx(24 * 32 * math.log(64))


def test_conversations_are_counted_by_occupied_groups() -> None:
    """A few conversations in an hour occupy about as many groups."""
    weights = [1.0] * 4 + [0.0] * 28
    found = spread([moments(weights, [0.0] * 32)], [cell("base", 1.0, 4, 0)], 32)
    assert found.conversations == pytest.approx(32 * math.log(32 / 28))


def test_an_empty_series_has_no_spread() -> None:
    """Without a verdict the design effect is 1."""
    assert spread([], [], 32) == Spread()
    assert spread([Moments(0, 0, 0, 0, 0, 0)], [], 32).design_effect == 1.0
    assert pool([Spread(2, 1, 10), Spread(4, 1, 5)]) == Spread(6, 2, 15)
