from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import sampling

RANDOMNESS = st.integers(0, 2**56 - 1)
TRACE_IDS = st.binary(min_size=16, max_size=16)
THRESHOLDS = st.integers(0, 2**56 - 1)
RATIOS = st.floats(0, 1)


def trace_id(randomness: int) -> bytes:
    return b"\x01" * 9 + randomness.to_bytes(7, "big")


def threshold(value: int) -> str:
    return f"{value:014x}".rstrip("0") or "0"


@given(TRACE_IDS)
def test_a_draw_is_in_the_half_open_unit_interval(id_: bytes) -> None:
    """A draw is at least 0 and below 1, so ratio 0 keeps nothing and ratio 1 everything."""
    u = sampling.draw(id_)
    assert 0.0 <= u < 1.0
    assert not u < 0.0
    assert u < 1.0


@given(RANDOMNESS)
def test_the_draw_falls_as_the_randomness_grows(randomness: int) -> None:
    """The draw is (2^56 - 1 - R) / 2^56, rounded down to what a float holds."""
    exact = (2**56 - 1 - randomness) / 2**56
    assert exact - 2**-53 <= sampling.draw(trace_id(randomness)) <= exact


def test_the_ends_of_the_randomness() -> None:
    """R = 0 is the last to be kept, R = 2^56 - 1 the first."""
    assert sampling.draw(trace_id(2**56 - 1)) == 0.0
    assert sampling.draw(trace_id(0)) == 1.0 - 2**-53


@given(RANDOMNESS, THRESHOLDS)
def test_what_an_upstream_sampler_kept_is_below_its_probability(r: int, t: int) -> None:
    """R >= T implies u < p; R < T implies u >= p, but for the last three bits."""
    p = sampling.upstream_probability(f"ot=th:{threshold(t)}")
    u = sampling.draw(trace_id(r))
    if r >= t:
        assert u < p
    elif r < t - 16:
        assert u >= p


@given(TRACE_IDS, RANDOMNESS)
def test_explicit_randomness_replaces_the_id(id_: bytes, r: int) -> None:
    """With `rv` in the tracestate the trace id plays no part."""
    assert sampling.draw(id_, f"ot=rv:{r:014x}") == sampling.draw(trace_id(r))


@pytest.mark.parametrize(
    ("trace_state", "probability"),
    [
        ("", 1.0),
        ("ot=th:0", 1.0),
        ("ot=th:8", 0.5),
        ("ot=th:c", 0.25),
        ("congo=t61rcWkgMzE, ot=rv:6e6d1a75832a2f;th:8 ,other=x", 0.5),
        ("ot=th:ffffffffffffff", 2**-53),
        ("ot=p:8;r:62", 1.0),
        ("rojo=th:8", 1.0),
        ("ot=th:", 1.0),
        ("ot=th:8x", 1.0),
        ("ot=th:123456789abcdef", 1.0),
        ("ot", 1.0),
        (",,=;:", 1.0),
    ],
)
def test_upstream_probability_reads_the_tracestate(trace_state: str, probability: float) -> None:
    """The threshold is read from the `ot` entry alone, and malformed ones count as none."""
    assert sampling.upstream_probability(trace_state) == probability


@given(st.text(max_size=80), TRACE_IDS)
def test_any_tracestate_is_readable(text: str, id_: bytes) -> None:
    """No tracestate makes the algebra fail or leave its range."""
    assert 0.0 <= sampling.draw(id_, text) < 1.0
    assert 0.0 < sampling.upstream_probability(text) <= 1.0


@given(st.lists(THRESHOLDS, max_size=4), st.floats(0.001, 1), RATIOS, RATIOS, RANDOMNESS)
def test_nested_decisions_are_one_decision_with_the_smallest_probability(
    thresholds: list[int], head_ratio: float, tail: float, metric: float, r: int
) -> None:
    """Surviving every stage one by one is the same as one comparison with the product of the last.

    So the joint probability of all decisions is exactly the last stage's p.
    """
    states = [f"ot=th:{threshold(t)}" for t in thresholds]
    u = sampling.draw(trace_id(r))
    p_head = sampling.head_probability(states, head_ratio)
    stages = [*map(sampling.upstream_probability, states), head_ratio]
    assert all(u < p for p in stages) == (u < p_head)
    p_tail = p_head * tail
    p_metric = p_tail * metric
    chain = all(u < p for p in [*stages, p_tail, p_metric])
    assert chain == (u < p_metric)


@given(RATIOS, RATIOS, RANDOMNESS)
def test_a_smaller_ratio_keeps_a_subset(a: float, b: float, r: int) -> None:
    """What a ratio keeps, every larger ratio keeps."""
    u = sampling.draw(trace_id(r))
    assert not (u < min(a, b)) or u < max(a, b)


@given(st.lists(st.tuples(RATIOS, RATIOS), min_size=1, max_size=3))
def test_joint_probability_over_an_even_grid_of_randomness(
    stages: list[tuple[float, float]],
) -> None:
    """The share that survives p_head, p_head x tail and x metric is their product, to 1/4096."""
    head, tail = stages[0]
    metric = stages[-1][1]
    total = 4096
    kept = 0
    for i in range(total):
        u = sampling.draw(trace_id(i << 44 | 1 << 43))
        kept += u < head and u < head * tail and u < head * tail * metric
    assert abs(kept / total - head * tail * metric) <= 1 / total


def test_a_half_sampled_upstream_and_a_half_at_the_door_keep_half() -> None:
    """Two samplers of 0.5 with the same draw keep a half, not a quarter, with weight 2."""
    u = [sampling.draw(trace_id(i << 44)) for i in range(4096)]
    up = [x for x in u if x < sampling.upstream_probability("ot=th:8")]
    both = [x for x in up if x < 0.5]
    assert len(up) == len(both) == 2048
    assert sampling.head_probability(["ot=th:8"], 0.5) == 0.5


def test_the_grid_is_quarter_powers_of_two_above_a_thousandth() -> None:
    """Chosen ratios are 2^(-k/4), none below 1/1000, and few in number."""
    assert sampling.GRID[-1] == 1.0
    assert 0.001 <= sampling.GRID[0] < 0.001 * 2**0.25
    assert sampling.on_grid(0.0) == sampling.GRID[0]
    assert sampling.on_grid(7.0) == 1.0
    assert sampling.on_grid(0.5) == 0.5


@given(st.floats(0.001, 1))
def test_a_ratio_rounds_up_to_the_grid(ratio: float) -> None:
    """The grid ratio is at least what was asked, by less than a quarter power of two."""
    chosen = sampling.on_grid(ratio)
    assert chosen in sampling.GRID
    assert ratio <= chosen < ratio * 2**0.2500001 or chosen == sampling.GRID[0]


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_conversation_draw_is_pure(app: str, conversation: str) -> None:
    """All turns of a conversation get the same draw."""
    u = sampling.conversation_draw(app, conversation)
    assert 0.0 <= u < 1.0
    assert u == sampling.conversation_draw(app, conversation)


def test_conversation_draws_are_uniform() -> None:
    """A ratio keeps that share of conversations."""
    u = [sampling.conversation_draw("shop", f"c{i}") for i in range(20_000)]
    for ratio in (0.1, 0.5, 0.9):
        assert abs(sum(x < ratio for x in u) / len(u) - ratio) < 0.015
