from __future__ import annotations

from assembly_drive import T0, request, span
from hypothesis import given
from hypothesis import strategies as st

from assay.bus.contract import Record
from assay.config import Assembly
from collector.grouping import Fragment, by_trace
from collector.open_traces import OpenTraces
from collector.remote_parents import RemoteParents

SETTLE, IDLE, MAX_AGE = 6_000, 90_000, 600_000


def fragment(trace: int, number: int, root: bool) -> Fragment:
    value = request([span(trace, number, None if root else 999)])
    [one] = by_trace(Record("assay.spans", 0, 0, T0, None, value, {}))
    return one


Arrivals = list[tuple[int, int, int, bool]]
ARRIVALS = st.lists(
    st.tuples(st.integers(0, 100_000), st.integers(1, 4), st.integers(1, 6), st.booleans()),
    max_size=25,
)


@given(ARRIVALS)
def test_each_trace_ends_when_its_rule_says(arrivals: Arrivals) -> None:
    """Against a plain reckoning: quiet for `settle` with a root, for `idle` without, `max_age` at
    most; duplicates do not count; and every record is let go of exactly once."""
    traces = OpenTraces(Assembly(), RemoteParents())
    clock = 0
    model: dict[int, dict] = {}
    ended: list[tuple[int, int]] = []
    free: list[int] = []

    def end_due(now: int) -> None:
        for trace, _ in traces.due(now):
            number = int.from_bytes(trace.trace_id, "big")
            ended.append((number, trace.due))
            free.extend(traces.close(trace))

    def expected_due(kept: dict) -> int:
        quiet = SETTLE if kept["root"] else IDLE
        return min(kept["last"] + quiet, kept["first"] + MAX_AGE)

    used = set()
    for offset, (pause, trace, number, root) in enumerate(arrivals):
        clock += pause
        wanted = sorted(
            (expected_due(kept), name)
            for name, kept in model.items()
            if expected_due(kept) <= clock
        )
        end_due(clock)
        assert sorted((due, name) for name, due in ended) == wanted
        for _, name in wanted:
            del model[name]
        ended.clear()
        kept = model.setdefault(trace, {"first": clock, "last": clock, "root": False, "ids": set()})
        traces.add(fragment(trace, number, root), offset, clock, False)
        if number not in kept["ids"]:
            kept["ids"].add(number)
            kept["last"] = clock
            kept["root"] = kept["root"] or root
            used.add(offset)
        assert traces.in_use(offset) == (offset in used)
    end_due(clock + MAX_AGE)
    assert len(traces) == traces.size == traces.records == 0
    assert sorted(free) == sorted(used)
