"""Trajectories against a reference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.records import ToolCall, Turn
from scorers.computed import trajectory
from scorers.computed.trajectory import TrajectoryOptions, f1, in_order, precision, recall

CALLS = st.lists(st.sampled_from("abc"), max_size=6)


def turn(actual, expected):
    def made(item):
        name, city, *result = item
        return ToolCall(name=name, arguments={"city": city}, result=result[0] if result else None)

    return Turn(
        turn_id="t",
        trace_id="0" * 32,
        tool_calls=tuple(map(made, actual)),
        reference_tool_calls=tuple(map(made, expected)),
    )


def values(actual, expected, **options):
    case = turn(actual, expected)
    return {
        name: getattr(trajectory, f"trajectory_{name}")
        .bind(TrajectoryOptions(**options))(case)
        .value
        for name in (
            "exact_match",
            "in_order_match",
            "any_order_match",
            "precision",
            "recall",
            "f1",
        )
    }


ONE, TWO, RETRY = ("weather", "Lyon"), ("delete", "7"), ("weather", "Lyon", "ERROR timeout")


@pytest.mark.parametrize(
    ("actual", "expected", "exact", "ordered", "any_order", "p", "r"),
    [
        ([ONE], [ONE], 1, 1, 1, 1, 1),
        ([ONE, ONE, ONE], [ONE], 0, 1, 1, 1 / 3, 1),
        ([ONE, TWO], [ONE], 0, 1, 1, 1 / 2, 1),
        ([TWO, ONE], [ONE, TWO], 0, 0, 1, 1, 1),
        ([ONE], [ONE, TWO], 0, 0, 0, 1, 1 / 2),
        ([], [ONE], 0, 0, 0, 0, 0),
        ([ONE], [], 0, 1, 1, 0, 0),
    ],
)
def test_each_expected_call_counts_once(actual, expected, exact, ordered, any_order, p, r):
    """Extra and repeated calls cost precision and earn nothing."""
    found = values(actual, expected)
    assert found["exact_match"] == exact
    assert found["in_order_match"] == ordered
    assert found["any_order_match"] == any_order
    assert found["precision"] == pytest.approx(p)
    assert found["recall"] == pytest.approx(r)


def test_options():
    """Names alone may count, and a failed call that was made again may be forgiven."""
    assert values([("weather", "Nice")], [ONE])["exact_match"] == 0
    assert values([("weather", "Nice")], [ONE], parameters=False)["exact_match"] == 1
    assert values([RETRY, ONE], [ONE])["exact_match"] == 0
    assert values([RETRY, ONE], [ONE], forgive_retries=True)["exact_match"] == 1
    assert values([RETRY], [ONE], forgive_retries=True)["exact_match"] == 1


def test_neither_call_nor_reference():
    """Without a call and without one that is expected there is nothing to score."""
    case = turn([], [])
    assert trajectory.trajectory_f1.bind()(case).outcome == "skipped"


@given(CALLS, CALLS)
def test_measures_agree(made, expected):
    """Shares lie between 0 and 1, F1 is their harmonic mean, and equal lists have 1."""
    p, r = precision(made, expected), recall(made, expected)
    assert 0 <= p <= 1 and 0 <= r <= 1
    if made or expected:
        assert f1(made, expected) == pytest.approx(2 * p * r / (p + r) if p + r else 0.0)
    if made:
        assert precision(made, made) == recall(made, made) == f1(made, made) == 1
    assert in_order(made, made[::2])
