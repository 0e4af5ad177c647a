from __future__ import annotations

import random
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from assay.bus.topics import SPANS, partition_of
from assay.errors import Permanent
from assay.sampling import draw
from collector.slices import Cut, cut

CASES = Path(__file__).parent / "data" / "cases"
PARTITIONS = 4


def span(trace: int = 1, number: int = 1, **fields) -> dict:
    return {
        "trace_id": trace.to_bytes(16, "big"),
        "span_id": number.to_bytes(8, "big"),
        "name": f"{trace}.{number}",
        **fields,
    }


def traces(*spans: dict, scope: str = "app") -> bytes:
    return ExportTraceServiceRequest(
        resource_spans=[{"scope_spans": [{"scope": {"name": scope}, "spans": spans}]}]
    ).SerializeToString()


def cut_traces(body: bytes, head_ratio: float = 1.0) -> Cut:
    return cut("traces", body, head_ratio=head_ratio, partitions=PARTITIONS)


def read(result: Cut) -> list[tuple]:
    """(partition, resource, schema, scope, span) of every span in the slices."""
    return [
        (record.partition, g.resource.SerializeToString(), g.schema_url, s.scope.name, item)
        for record in result.outgoing
        for g in ExportTraceServiceRequest.FromString(record.value).resource_spans
        for s in g.scope_spans
        for item in s.spans
    ]


def names(result: Cut) -> list[str]:
    return sorted(item.name for *_, item in read(result))


REQUESTS = st.lists(
    st.tuples(
        st.text(max_size=5),
        st.lists(
            st.tuples(
                st.text(max_size=5).filter(lambda name: not name.startswith("assay")),
                st.lists(st.tuples(st.integers(1, 9), st.integers(1, 99)), max_size=6),
            ),
            max_size=3,
        ),
    ),
    max_size=3,
)


@given(REQUESTS)
def test_every_span_arrives_once_in_its_traces_partition_under_its_resource(groups):
    """The slices together hold the request's spans, each under its own resource and scope."""
    request = ExportTraceServiceRequest(
        resource_spans=[
            {
                "resource": {"attributes": [{"key": "app", "value": {"string_value": app}}]},
                "schema_url": app,
                "scope_spans": [
                    {"scope": {"name": scope}, "spans": [span(*ids) for ids in spans]}
                    for scope, spans in scopes
                ],
            }
            for app, scopes in groups
        ]
    )
    result = cut_traces(request.SerializeToString())
    sent = [
        (
            partition_of(item.trace_id, PARTITIONS),
            g.resource.SerializeToString(),
            g.schema_url,
            s.scope.name,
            item,
        )
        for g in request.resource_spans
        for s in g.scope_spans
        for item in s.spans
    ]
    arrived = read(result)
    assert sorted(map(repr, arrived)) == sorted(map(repr, sent))
    assert result.kept == len(sent)
    assert len({record.partition for record in result.outgoing}) == len(result.outgoing)


def test_a_record_carries_the_topic_and_the_first_trace_id_as_its_key():
    """One record per partition, keyed by the first trace id that went there."""
    result = cut_traces(traces(*(span(trace) for trace in range(1, 30))))
    assert {record.topic for record in result.outgoing} == {SPANS}
    for record in result.outgoing:
        first = ExportTraceServiceRequest.FromString(record.value)
        assert record.key == first.resource_spans[0].scope_spans[0].spans[0].trace_id
        assert record.headers == {}


def test_unknown_fields_pass_through():
    """Fields of a later protocol version reach the bus as they came."""
    future = b"\xa2\x06\x05later"
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.MergeFromString(future)
    scope = group.scope_spans.add()
    scope.MergeFromString(future)
    scope.spans.add(**span()).MergeFromString(future)
    [record] = cut_traces(request.SerializeToString()).outgoing
    assert ExportTraceServiceRequest.FromString(record.value) == request
    assert record.value.count(b"later") == 3


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace_id": b"a" * 32}, "invalid_trace_id"),
        ({"trace_id": b""}, "invalid_trace_id"),
        ({"trace_id": bytes(16)}, "invalid_trace_id"),
        ({"span_id": b"a" * 16}, "invalid_span_id"),
        ({"span_id": bytes(8)}, "invalid_span_id"),
        ({"parent_span_id": b"abc"}, "invalid_span_id"),
    ],
)
def test_a_span_with_a_wrong_id_is_dropped_alone(fields, reason):
    """Wrong lengths and all-zero ids are dropped under their reason."""
    result = cut_traces(traces(span(1), span(2) | fields, span(3)))
    assert names(result) == ["1.1", "3.1"]
    assert result.dropped == {reason: 1}


def test_one_hexadecimal_id_in_protobuf_costs_one_span():
    """Nine of the ten traces of a request with one bad id are kept."""
    result = cut_traces((CASES / "B05.otlp.pb").read_bytes())
    assert (result.kept, result.dropped) == (9, {"invalid_trace_id": 1})


def test_a_malformed_span_is_dropped_alone():
    """Text that is no UTF-8 makes protobuf refuse the whole request; we lose the one span."""
    body = traces(span(1), span(2, name="bad!"), span(3)).replace(b"bad!", b"bad\xff")
    result = cut_traces(body)
    assert names(result) == ["1.1", "3.1"]
    assert result.dropped == {"malformed": 1}


def test_a_span_nested_too_deep_for_its_slice_is_dropped_alone():
    """A value that only fits without the levels above it does not poison its slice."""
    value: dict = {"string_value": "deep"}
    for _ in range(48):
        value = {"array_value": {"values": [value]}}
    deep = span(2, attributes=[{"key": "k", "value": value}])
    Span.FromString(Span(**deep).SerializeToString())
    with pytest.raises(DecodeError):
        ExportTraceServiceRequest.FromString(traces(deep))
    result = cut_traces(traces(span(1), deep, span(3)))
    assert names(result) == ["1.1", "3.1"]
    assert result.dropped == {"malformed": 1}


@pytest.mark.parametrize(
    "body", [b"\x00\x01not protobuf", traces(span(1))[:-3], b"\x0a\x7f", b"{}", b"\x0a\x02\x0a\xff"]
)
def test_a_body_that_is_no_request_is_refused(body):
    """A broken structure is Permanent: nothing of it is kept."""
    with pytest.raises(Permanent):
        cut_traces(body)


@given(st.binary(max_size=80))
def test_any_bytes_are_cut_or_refused(body):
    """No error but Permanent comes out, and what is published can be read."""
    for signal, kind in (("traces", ExportTraceServiceRequest), ("logs", ExportLogsServiceRequest)):
        try:
            result = cut(signal, body, head_ratio=0.5, partitions=PARTITIONS)
        except Permanent:
            continue
        for record in result.outgoing:
            kind.FromString(record.value)


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_request_never_publishes_what_cannot_be_read(data):
    """After any flipped bytes every record on the bus parses and holds only sound ids."""
    body = bytearray(traces(*(span(trace, parent_span_id=b"parent00") for trace in range(1, 5))))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        result = cut_traces(bytes(body))
    except Permanent:
        return
    arrived = read(result)
    assert len(arrived) == result.kept
    assert all(len(item.trace_id) == 16 and len(item.span_id) == 8 for *_, item in arrived)


@pytest.mark.parametrize(
    ("scope", "kept"), [("assay", 0), ("assay.judge", 0), ("assayer", 1), ("app.assay", 1)]
)
def test_what_assay_itself_emits_is_dropped(scope, kept):
    """The reserved scope and all below it never come back in."""
    result = cut_traces(traces(span(1), scope=scope))
    assert result.kept == kept
    assert result.dropped == ({} if kept else {"reserved_scope": 1})


def test_head_sampling_keeps_exactly_the_traces_whose_draw_is_below_the_ratio():
    """The decision is the trace's own, whole, and nested for growing ratios."""
    rng = random.Random(7)
    ids = [rng.randbytes(16) for _ in range(200)]
    spans = [span(number=n + 1) | {"trace_id": i, "name": i.hex()} for i in ids for n in range(2)]
    spans = [s | ({"parent_span_id": b"parent00"} if n % 2 else {}) for n, s in enumerate(spans)]
    previous: set[str] = set()
    for ratio in (0.0, 0.1, 0.5, 1.0):
        result = cut_traces(traces(*spans), ratio)
        kept = [i.hex() for i in ids if draw(i) < ratio]
        assert names(result) == sorted(kept * 2)
        assert result.dropped["head_sampling"] == 400 - 2 * len(kept)
        assert result.unsampled_roots == 200 - len(kept)
        assert previous <= set(kept)
        previous = set(kept)
    assert len(previous) == 200


def test_the_tracestates_random_value_decides_where_there_is_one():
    """Head sampling draws from `rv`, as the samplers before us did."""
    kept = span(1, trace_state="ot=rv:ffffffffffffff")
    lost = span(2, trace_state="ot=rv:00000000000000")
    assert names(cut_traces(traces(kept, lost), 0.5)) == ["1.1"]


def test_log_records_go_where_their_trace_goes():
    """Logs are cut like spans and marked as logs; those without a trace are dropped."""
    records = [
        {"trace_id": (1).to_bytes(16, "big"), "span_id": b"spanspan", "event_name": "a"},
        {"trace_id": (1).to_bytes(16, "big"), "event_name": "b"},
        {"event_name": "startup"},
        {"trace_id": bytes(16)},
        {"trace_id": b"short"},
        {"trace_id": (2).to_bytes(16, "big"), "span_id": b"short"},
    ]
    body = ExportLogsServiceRequest(
        resource_logs=[
            {
                "scope_logs": [
                    {"scope": {"name": "app"}, "log_records": records},
                    {"scope": {"name": "assay"}, "log_records": records[:1]},
                ]
            }
        ]
    ).SerializeToString()
    result = cut("logs", body, head_ratio=1.0, partitions=PARTITIONS)
    [record] = result.outgoing
    assert record.headers == {"signal": "logs"}
    assert record.partition == partition_of((1).to_bytes(16, "big"), PARTITIONS)
    request = ExportLogsServiceRequest.FromString(record.value)
    [scope] = request.resource_logs[0].scope_logs
    assert [r.event_name for r in scope.log_records] == ["a", "b"]
    assert result.dropped == {
        "no_trace_id": 2,
        "invalid_trace_id": 1,
        "invalid_span_id": 1,
        "reserved_scope": 1,
    }
