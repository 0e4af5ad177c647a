from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.closed_traces import ClosedTraces

TTL = 1000


def apply(state: dict[str, bytes], closed: ClosedTraces, clock: int, read: int = 0) -> None:
    for partition, key, value in closed.changes(clock, read):
        assert partition == 3
        if value is None:
            del state[key]
        else:
            state[key] = value


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3)), max_size=40), st.integers(0, 40))
def test_a_trace_is_remembered_for_its_time_across_restarts(
    steps: list[tuple[int, int]], restart: int
) -> None:
    """At each commit exactly the traces are known that were closed within the last `TTL`, and a
    restart from the state changes nothing."""
    state: dict[str, bytes] = {}
    closed = ClosedTraces(3, TTL, state)
    clock, number, known = 0, 0, {}
    for step, (pause, count) in enumerate(steps):
        clock += pause
        for _ in range(count):
            number += 1
            closed.add(number.to_bytes(16, "big"), "k")
            assert number.to_bytes(16, "big") in closed
            known[number] = clock
        apply(state, closed, clock, step)
        if step == restart:
            closed = ClosedTraces(3, TTL, state)
        for trace, at in known.items():
            assert (trace.to_bytes(16, "big") in closed) == (at + TTL >= clock)
    assert len(state) <= len(steps)


def test_a_restart_knows_how_far_was_read() -> None:
    """The last offset that was read before is given back with the traces."""
    state: dict[str, bytes] = {}
    closed = ClosedTraces(3, TTL, state)
    assert closed.read == -1
    for read in (5, 17):
        closed.add(read.to_bytes(16, "big"), "ks")
        apply(state, closed, 0, read)
    assert ClosedTraces(3, TTL, state).read == 17


def test_other_state_is_left_alone() -> None:
    """Values of others in the same partition's state are not read."""
    assert ClosedTraces(3, TTL, {"rate/0/x": b"?", "open/1/0": b"?"}).read == -1
