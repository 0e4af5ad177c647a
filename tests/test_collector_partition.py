from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from assembly_drive import LOCAL, REMOTE, T0, Stream, logs_request, request, span
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from assay.bus.topics import DEAD_LETTER
from assay.config import Config
from collector import otlp_json

CASES = Path(__file__).parent / "data" / "cases"


def timeline(name: str) -> Stream:
    stream = Stream()
    for step in json.loads((CASES / name).read_text())["steps"]:
        body = otlp_json.parse_traces(json.dumps(step["body"]).encode()).SerializeToString()
        stream.append(body, step["at_s"])
    return stream


def chat(trace: int, root: int = 1, child: int = 2, query: str = "Q?"):
    return [span(trace, root), span(trace, child, root, query=query)]


# When a trace is complete


def test_a_trace_with_root_is_complete_when_it_settled() -> None:
    """Nothing is published before `settle` has passed since the last span, and all after."""
    stream = Stream()
    stream.append(request(chat(1)), 0)
    stream.clock(5.999)
    stream.commit()
    assert stream.turns == []
    assert stream.done == set()
    stream.clock(6)
    stream.commit()
    [turn] = stream.turns
    assert (turn.query, turn.orphan, turn.truncated) == ("Q?", False, False)
    assert turn.arrived_at == T0 * 1_000_000
    assert stream.done == {0}
    assert stream.count("assay_closed_traces_total", ending="settled") == 1


def test_each_arrival_starts_the_quiet_time_anew() -> None:
    """A span 5 s after the root keeps the trace open for 6 s more."""
    stream = Stream()
    root, child = chat(1)
    stream.append(request([root]), 0)
    stream.append(request([child]), 5)
    stream.clock(10.9)
    assert len(stream.partition.open) == 1
    assert [turn.query for turn in stream.finish(11)] == ["Q?"]


def test_without_root_a_trace_waits_longer_and_is_an_orphan() -> None:
    """The topmost span stands in for a root that never came, after `idle`."""
    stream = Stream()
    stream.append(request([span(1, 2, 9), span(1, 3, 2, query="Q?")]), 0)
    stream.clock(89.9)
    assert len(stream.partition.open) == 1
    [turn] = stream.finish(90)
    assert turn.orphan
    assert stream.count("assay_orphan_turns_total") == 1
    assert stream.count("assay_closed_traces_total", ending="idle") == 1


def test_an_all_zero_parent_is_none() -> None:
    """A span whose parent id is eight zero bytes is a root."""
    stream = Stream()
    stream.append(request([span(1, 1, 0, query="Q?")]), 0)
    [turn] = stream.finish(6)
    assert not turn.orphan


def test_no_trace_stays_open_longer_than_max_age() -> None:
    """A trace that always gets more is closed all the same, and the rest of it is late."""
    stream = Stream()
    for minute in range(12):
        stream.append(request([span(1, 2 + minute, 1, query=f"Q{minute}?")]), minute * 60)
    stream.append(request([span(1, 1)]), 720)
    assert len({turn.trace_id for turn in stream.finish()}) == 1
    assert stream.count("assay_closed_traces_total", ending="max_age") == 1
    assert stream.count("assay_late_spans_total", signal="traces") == 3


def test_a_late_span_is_counted_and_dropped() -> None:
    """A child ten minutes after its root was read makes no turn of its own (case B21)."""
    stream = timeline("B21.timeline.json")
    turns = stream.finish()
    assert [turn.query for turn in turns] == ["Do you deliver on Sundays?"]
    assert stream.count("assay_late_spans_total", signal="traces") == 1


def test_a_long_agent_run_is_one_trace() -> None:
    """Children every minute and the root after five and a half: one turn, not late, no orphan
    (case B22)."""
    stream = timeline("B22.timeline.json")
    turns = stream.finish()
    assert len({turn.trace_id for turn in turns}) == 1
    assert not any(turn.orphan or turn.truncated for turn in turns)
    assert turns[-1].arrived_at == (T0 + 330_000) * 1_000_000
    assert stream.count("assay_late_spans_total", signal="traces") == 0


def test_clocks_of_senders_play_no_part() -> None:
    """A span that says it is hours old or from tomorrow is waited for like any other."""
    stream = Stream()
    for trace, hours in ((1, -5), (2, 24)):
        root = span(trace, 1, query=f"{hours}?")
        root.start_time_unix_nano += hours * 3600 * 10**9
        root.end_time_unix_nano += hours * 3600 * 10**9
        stream.append(request([root]), 0)
    stream.clock(5.9)
    assert len(stream.partition.open) == 2
    assert {turn.query for turn in stream.finish(6)} == {"-5?", "24?"}


def test_a_backlog_assembles_as_it_would_have_live() -> None:
    """Read an hour later in one go, records give the turns that they gave when they came."""

    def fill(stream: Stream, live: bool) -> list[tuple[str, str | None, int, bool]]:
        for at in range(0, 400, 4):
            spans = [span(at + 1, 1)] if at % 8 else chat(at + 1)
            stream.append(request(spans), at)
            if at >= 20 and at % 20 == 0:
                stream.append(request([span(at - 19, 7, 1, query="late or not")]), at)
            if live:
                stream.clock(at + 3)
                stream.commit()
        turns = stream.finish(4000)
        assert stream.count("assay_late_spans_total", signal="traces") > 0
        return sorted((t.turn_id, t.query, t.arrived_at, t.orphan) for t in turns)

    assert fill(Stream(), live=True) == fill(Stream(), live=False)


# Parents in other processes


def test_a_span_called_from_elsewhere_is_waited_for_like_an_orphan_at_first() -> None:
    """As long as it is not known that the callers of a service are not seen, they may come."""
    stream = Stream()
    stream.append(request([span(1, 2, 1, query="Q?", flags=REMOTE)]), 0)
    stream.append(request([span(1, 1)], service="gateway"), 30)
    [turn] = stream.finish(36)
    assert not turn.orphan


def test_a_service_whose_callers_never_come_settles() -> None:
    """After twenty traces without, a remote parent is no longer waited for; one that comes after
    all changes that."""
    stream = Stream()
    for trace in range(1, 21):
        stream.append(request([span(trace, 2, 1, query="Q?", flags=REMOTE)]), 0)
    stream.clock(90)
    stream.append(request([span(50, 2, 1, query="Q?", flags=REMOTE)]), 100)
    stream.append(request([span(51, 2, 1, query="Q?", flags=LOCAL)]), 100)
    stream.append(request([span(52, 2, 1, query="Q?", flags=REMOTE)], service="other"), 100)
    stream.clock(106)
    assert len(stream.partition.open) == 2
    stream.append(request([span(60, 2, 1, query="Q?", flags=REMOTE)]), 200)
    stream.append(request([span(60, 1)], service="gateway"), 201)
    stream.clock(210)
    stream.append(request([span(61, 2, 1, query="Q?", flags=REMOTE)]), 300)
    stream.clock(306)
    assert len(stream.partition.open) == 1


# Bounds


def test_a_giant_trace_is_cut_once_and_its_neighbours_are_not() -> None:
    """20,000 spans of one trace: ten normal traces come out, the big one is cut at its bound and
    its memory freed (case B25)."""
    stream = Stream()
    lines = gzip.decompress((CASES / "B25.otlp.ndjson.gz").read_bytes()).splitlines()
    for at, line in enumerate(lines):
        stream.append(otlp_json.parse_traces(line).SerializeToString(), at * 0.1)
    turns = stream.finish(20)
    big = [t for t in turns if t.truncated]
    assert len({t.trace_id for t in turns} - {t.trace_id for t in big}) == 10
    assert len({t.trace_id for t in big}) <= 1
    assert stream.count("assay_cut_spans_total", signal="traces") == 10_000
    assert stream.partition.open.size == 0
    assert len(stream.partition.open) == 0
    assert stream.done == set(range(len(lines)))


def test_a_trace_is_cut_at_its_bytes_and_keeps_its_root() -> None:
    """Children beyond the bound are left out and counted; the root still gets in."""
    config = Config.model_validate({"assembly": {"max_trace": 10_000}})
    stream = Stream(config)
    for number in range(2, 12):
        stream.append(request([span(1, number, 1, query="x" * 1000, note="y" * 1500)]), 0)
    stream.append(request([span(1, 1)]), 1)
    turns = stream.finish(7)
    assert turns
    assert all(turn.truncated and not turn.orphan for turn in turns)
    assert stream.count("assay_cut_spans_total", signal="traces") > 0
    assert stream.count("assay_truncated_turns_total") == len(turns)


def test_a_cut_trace_is_known_to_be_cut_after_a_restart() -> None:
    """That spans were left out is not forgotten with the process that left them out."""
    stream = Stream(Config.model_validate({"assembly": {"max_spans": 2}}))
    stream.append(request(chat(1)), 0)
    stream.append(request([span(1, 3, 1)]), 1)
    stream.append(request([span(1, 4, 1)]), 2)
    stream.clock(3)
    stream.commit()
    assert stream.done == {2}
    stream.crash()
    [turn] = stream.finish(30)
    assert turn.truncated


# Duplicates, logs, bad records


def test_a_span_that_comes_twice_counts_once() -> None:
    """Resent requests add nothing, and do not keep the trace open."""
    stream = Stream()
    for at in (0, 3, 5.9):
        stream.append(request(chat(1)), at)
    stream.append(request(chat(1)), 8)
    assert len(stream.finish(6)) == 1
    assert stream.count("assay_duplicate_spans_total", signal="traces") == 4
    assert stream.count("assay_late_spans_total", signal="traces") == 2
    assert stream.done == {0, 1, 2, 3}


def log(trace: int, number: int, role: str, text: str) -> LogRecord:
    record = LogRecord(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        time_unix_nano=T0 * 1_000_000,
        event_name="gen_ai.user.message" if role == "user" else "gen_ai.choice",
    )
    body = record.body.kvlist_value.values
    if role == "user":
        body.add(key="content").value.string_value = text
    else:
        message = body.add(key="message").value.kvlist_value.values
        message.add(key="role").value.string_value = "assistant"
        message.add(key="content").value.string_value = text
    return record


@pytest.mark.parametrize("logs_first", [True, False])
def test_logs_meet_their_spans_in_any_order(logs_first: bool) -> None:
    """Content on log records joins the span by its ids, before or after it."""
    call = span(
        1,
        1,
        **{"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m"},
    )
    logs = [log(1, 1, "user", "Hello?"), log(1, 1, "assistant", "Hi.")]
    parts = [(request([call]), "traces"), (logs_request(logs), "logs")]
    stream = Stream()
    for at, (value, signal) in enumerate(reversed(parts) if logs_first else parts):
        stream.append(value, at, signal)
    stream.append(logs_request(logs), 3, "logs")
    [turn] = stream.finish(9)
    assert (turn.query, turn.response) == ("Hello?", "Hi.")
    assert stream.count("assay_duplicate_spans_total", signal="logs") == 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b"\xff\xff", "undecodable"), (b"", "empty"), (b"[1,2]", "undecodable")],
)
def test_a_bad_record_goes_to_the_dead_letters_and_the_stream_goes_on(
    value: bytes, reason: str
) -> None:
    """What cannot be read is kept with its reason and origin; its neighbours come through."""
    stream = Stream()
    stream.append(value, 0)
    stream.append(request(chat(1)), 0)
    assert len(stream.finish(6)) == 1
    [letter] = [output for output in stream.outputs if output.topic == DEAD_LETTER]
    assert letter.value == value
    assert letter.headers["reason"] == reason
    assert letter.headers["origin"] == "assay.spans/0/0"
    assert stream.done == {0, 1}
    assert stream.count("assay_assembly_dead_letters_total", reason=reason) == 1


def test_a_trace_that_no_reader_can_read_goes_to_the_dead_letters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A reader that fails on one trace loses that trace alone, with its spans kept."""
    from collector import dialects

    def fragile(spans, logs):
        if spans[0].trace_id[-1] in "24":
            raise RuntimeError("secret text")
        return dialects.read(spans, logs)

    stream = Stream(read=fragile)
    for trace in (1, 2, 3, 4):
        stream.append(request(chat(trace)), 0)
    assert len(stream.finish(6)) == 2
    assert len(caplog.records) == 1
    letter, _ = [output for output in stream.outputs if output.topic == DEAD_LETTER]
    assert letter.headers["reason"] == "unreadable"
    assert letter.headers["original-error"] == "RuntimeError"
    assert "secret text" not in str(letter.headers)
    assert b"Q?" in letter.value
    assert stream.done == {0, 1, 2, 3}


# Restart


def test_a_restart_reads_again_only_what_was_open() -> None:
    """Records whose traces are all closed are done; a record with an open trace keeps it, and the
    closed trace in it is recognised."""
    stream = Stream()
    stream.append(request(chat(1)), 0)
    stream.append(request([*chat(2), span(3, 2, 9, query="open?")]), 0)
    stream.clock(10)
    stream.commit()
    assert stream.done == {0}
    stream.crash()
    turns = stream.finish()
    assert sorted(turn.query for turn in turns) == ["Q?", "Q?", "open?"]
    assert stream.count("assay_late_spans_total", signal="traces") == 0


def test_a_trace_that_stays_open_does_not_hold_the_stream() -> None:
    """When many records have passed, an open trace moves into the state with its records done;
    after a restart it is still there, whole, and closing it clears the state."""
    stream = Stream(save_after=5)
    stream.append(request([span(1, 2, 1, query="slow?")]), 0)
    for n in range(10):
        stream.append(request(chat(100 + n)), 1 + n)
        stream.clock(1 + n)
        stream.commit()
    assert 0 in stream.done
    assert [key for key in stream.state if key.startswith("open/")]
    stream.append(request([span(1, 3, 1, query="slow?", response="Later.")]), 20)
    stream.clock(20)
    stream.commit()
    stream.crash()
    stream.append(request([span(1, 1), span(1, 3, 1, query="slow?", response="Later.")]), 60)
    turns = [turn for turn in stream.finish(66) if int(turn.trace_id, 16) == 1]
    assert not any(turn.orphan or turn.truncated for turn in turns)
    assert (turns[-1].query, turns[-1].response) == ("slow?", "Later.")
    assert turns[-1].arrived_at == (T0 + 60_000) * 1_000_000
    assert not [key for key in stream.state if key.startswith("open/")]
    assert stream.done == set(range(len(stream.records)))


def test_a_saved_trace_is_known_to_be_cut() -> None:
    """That items were left out survives with the trace."""
    stream = Stream(Config.model_validate({"assembly": {"max_spans": 1}}), save_after=0)
    stream.append(request([span(1, 2, 1, query="Q?"), span(1, 3, 1)]), 0)
    stream.append(request(chat(2)), 10)
    stream.clock(20)
    stream.commit()
    assert stream.done == {0, 1}
    stream.crash()
    assert all(turn.truncated for turn in stream.finish())


def test_a_trace_of_which_nothing_fits_holds_nothing() -> None:
    """A first span over the bound is left out; its record is done, saved or not."""
    for save_after in (0, 10_000):
        stream = Stream(
            Config.model_validate({"assembly": {"max_trace": 100}}), save_after=save_after
        )
        stream.append(request([span(1, 2, 1, query="x" * 500)]), 0)
        stream.append(request(chat(2)), 1)
        stream.clock(8)
        stream.commit()
        stream.crash()
        stream.finish()
        assert stream.done == {0, 1}
        assert stream.state.keys() == {key for key in stream.state if key.startswith("closed/")}


def test_the_memory_of_closed_traces_ends() -> None:
    """What was closed is forgotten after `late` and `max_age`, in memory and in the state."""
    stream = Stream()
    for trace in range(1, 50):
        stream.append(request(chat(trace)), trace)
        stream.clock(trace)
        stream.commit()
    stream.finish(100)
    assert len([key for key in stream.state if key.startswith("closed/")]) > 1
    stream.append(request(chat(99)), 2000)
    stream.finish(2010)
    assert len([key for key in stream.state if key.startswith("closed/")]) == 1


Spans = list[tuple[int, int, int | None]]


@st.composite
def schedules(draw: st.DrawFn):
    """Traces with and without root, each spread over at most 5 s, cut into records and resent."""
    arrivals: list[tuple[float, int]] = []
    spans = []
    for trace in range(1, draw(st.integers(1, 5)) + 1):
        start = draw(st.sampled_from([0.0, 1.0, 7.0, 30.0, 60.0]))
        rooted = draw(st.booleans())
        for number in range(1 if rooted else 2, draw(st.integers(2, 5)) + 1):
            made = span(
                trace, number, None if number == 1 else 1,
                query=f"{trace}.{number}" if number > 1 else None,
            )  # fmt: skip
            spans.append(made)
            at = start + draw(st.integers(0, 50)) / 10
            arrivals.append((at, len(spans) - 1))
            if draw(st.integers(0, 3)) == 0:
                arrivals.append((at + draw(st.integers(0, 900)) / 10, len(spans) - 1))
    records: list[tuple[float, list]] = []
    for at, index in sorted(arrivals):
        slot = at if draw(st.booleans()) else float(int(at))
        if records and records[-1][0] >= slot:
            records[-1][1].append(spans[index])
        else:
            records.append((slot, [spans[index]]))
    steps = draw(st.lists(st.sampled_from("ddddcx"), max_size=40))
    return spans, records, steps, draw(st.sampled_from([0, 2, 5, 10_000]))


@settings(max_examples=300, deadline=None)
@given(schedules())
def test_however_spans_come_each_turn_is_published_once(schedule) -> None:
    """Any interleaving, splitting and duplication of spans over records, with commits and crashes
    at any point, gives the same turns exactly once, and every record is done in the end."""
    spans, records, steps, save_after = schedule
    plain = Stream()
    for trace in {s.trace_id for s in spans}:
        plain.append(request([s for s in spans if s.trace_id == trace]), 0)
    expected = sorted((t.turn_id, t.query, t.response, t.orphan) for t in plain.finish())

    stream = Stream(save_after=save_after)
    for at, some in records:
        stream.append(request(some), at)
    for step in steps:
        if step == "d":
            stream.deliver()
        elif step == "c":
            stream.commit()
        else:
            stream.crash()
    turns = stream.finish()
    assert sorted((t.turn_id, t.query, t.response, t.orphan) for t in turns) == expected
    assert stream.done == set(range(len(records)))
    assert sum(tally.turns for tally in stream.tallies) == len(expected)
    assert not [key for key in stream.state if key.startswith("open/")]
    assert stream.partition.open.size == 0
