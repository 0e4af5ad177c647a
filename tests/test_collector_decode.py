"""Protobuf to plain spans and log records."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from collector import decode


def _any(value):
    if value is None:
        return AnyValue()
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, bytes):
        return AnyValue(bytes_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[_any(item) for item in value]))
    pairs = [KeyValue(key=key, value=_any(item)) for key, item in value.items()]
    return AnyValue(kvlist_value=KeyValueList(values=pairs))


def _request(**span):
    request = ExportTraceServiceRequest()
    batch = request.resource_spans.add()
    batch.resource.attributes.add(key="service.name", value=_any("shop"))
    scoped = batch.scope_spans.add()
    scoped.scope.name, scoped.scope.version = "lib", "1.2"
    attributes = span.pop("attributes", {})
    made = scoped.spans.add(trace_id=b"\x0a" * 16, span_id=b"\x0b" * 8, **span)
    for key, value in attributes.items():
        made.attributes.add(key=key, value=_any(value))
    return request


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.binary()
    | TEXT
)
VALUES = st.recursive(SCALARS, lambda x: st.lists(x) | st.dictionaries(TEXT, x), max_leaves=20)


@given(st.dictionaries(TEXT, VALUES, max_size=8))
def test_attribute_values_keep_their_type(attributes):
    """Every kind of value comes out as it went in, empty and nested ones too."""
    (span,) = decode.spans(_request(attributes=attributes))
    assert span.attributes == attributes
    assert list(map(type, span.attributes.values())) == list(map(type, attributes.values()))


def test_a_span_keeps_ids_times_scope_and_resource():
    """Ids are lower-case hex; the scope and resource are those of its batch."""
    request = _request(
        name="chat",
        kind=3,
        parent_span_id=b"\xff" * 8,
        start_time_unix_nano=5,
        end_time_unix_nano=9,
        trace_state="ot=th:8",
    )
    request.resource_spans[0].scope_spans[0].spans[0].events.add(
        name="e", time_unix_nano=7
    ).attributes.add(key="k", value=_any(1))
    (span,) = decode.spans(request)
    assert (span.trace_id, span.span_id, span.parent_id) == ("0a" * 16, "0b" * 8, "ff" * 8)
    assert (span.name, span.kind, span.start, span.end) == ("chat", 3, 5, 9)
    assert (span.scope, span.scope_version, span.trace_state) == ("lib", "1.2", "ot=th:8")
    assert span.resource == {"service.name": "shop"}
    assert [(e.name, e.time, e.attributes) for e in span.events] == [("e", 7, {"k": 1})]
    assert not span.failed


def test_a_zero_parent_is_none():
    """A root may say so by an absent, an empty or an all-zero parent."""
    assert decode.spans(_request(parent_span_id=b"\0" * 8))[0].parent_id == ""
    assert decode.spans(_request())[0].parent_id == ""


def test_status_error_is_failed():
    """Only the code ERROR fails a span; its message stays."""
    request = _request()
    status = request.resource_spans[0].scope_spans[0].spans[0].status
    status.code, status.message = 2, "boom"
    (span,) = decode.spans(request)
    assert (span.failed, span.status_message) == (True, "boom")
    status.code = 1
    assert not decode.spans(request)[0].failed


def test_nul_characters_are_replaced():
    """Later stores refuse them: U+FFFD stands instead, also in nested values."""
    (span,) = decode.spans(_request(attributes={"a": "x\0y", "b": ["p\0", {"k": "q\0"}]}))
    assert span.attributes == {"a": "x\ufffdy", "b": ["p\ufffd", {"k": "q\ufffd"}]}


def test_a_key_that_comes_twice_keeps_the_last():
    """Duplicate keys are against the protocol; the last one counts."""
    request = _request(attributes={"a": 1})
    request.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="a", value=_any(2))
    assert decode.spans(request)[0].attributes == {"a": 2}


def test_nesting_is_bounded():
    """A value nested beyond the bound ends in None instead of in a crash."""
    value = "deep"
    for _ in range(40):
        value = [value]
    (span,) = decode.spans(_request(attributes={"a": value}))
    depth, held = 0, span.attributes["a"]
    while isinstance(held, list):
        depth, held = depth + 1, held[0]
    assert (depth < 36, held) == (True, None)


def test_records_name_their_event_in_either_place():
    """`event_name`, else the attribute `event.name`; records outside a trace are left out."""
    request = ExportLogsServiceRequest()
    scoped = request.resource_logs.add().scope_logs.add()
    ids = {"trace_id": b"\x0a" * 16, "span_id": b"\x0b" * 8}
    scoped.log_records.add(**ids, event_name="one", time_unix_nano=3, body=_any({"content": "x"}))
    second = scoped.log_records.add(**ids, observed_time_unix_nano=4)
    second.attributes.add(key="event.name", value=_any("two"))
    scoped.log_records.add(time_unix_nano=1)
    first, other = decode.logs(request)
    assert (first.event_name, first.time, first.body) == ("one", 3, {"content": "x"})
    assert (other.event_name, other.time, other.body) == ("two", 4, None)
    assert (first.trace_id, first.span_id) == ("0a" * 16, "0b" * 8)
