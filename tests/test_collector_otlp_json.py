from __future__ import annotations

import base64
import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from assay.errors import Permanent
from collector.otlp_json import parse_logs, parse_traces
from collector.wire import MAX_PARTS

DATA = Path(__file__).parent / "data"
TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"


def spans(body: bytes | dict) -> list[Span]:
    request = parse_traces(body if isinstance(body, bytes) else json.dumps(body).encode())
    return [s for g in request.resource_spans for scope in g.scope_spans for s in scope.spans]


def case(name: str) -> list[Span]:
    return spans((DATA / "cases" / name).read_bytes())


def wrap(*items: object) -> dict:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(items)}]}]}


def span(**fields: object) -> dict:
    return {"traceId": TRACE, "spanId": SPAN, **fields}


def attribute(value: object) -> dict:
    return span(attributes=[{"key": "k", "value": value}])


def value_of(value: object):
    return spans(wrap(attribute(value)))[0].attributes[0].value


def test_hexadecimal_ids_of_either_case_are_the_bytes_that_protobuf_carries():
    """An upper-case JSON id is the id of its protobuf sibling."""
    [root] = case("B02.otlp.json")
    child = ExportTraceServiceRequest.FromString((DATA / "cases/B02.otlp.pb").read_bytes())
    sibling = child.resource_spans[0].scope_spans[0].spans[0]
    assert root.trace_id == sibling.trace_id
    assert root.span_id == sibling.parent_span_id
    assert len(root.trace_id) == 16


def test_64_bit_integers_are_exact_as_text_and_as_number():
    """Nanoseconds and token counts keep their last digit in both spellings."""
    first, second = case("B03.otlp.json")
    assert first.start_time_unix_nano == 1796040000000000000
    assert second.start_time_unix_nano == 1796040002000000000
    for item in (first, second):
        tokens = [a for a in item.attributes if a.key == "gen_ai.usage.input_tokens"]
        assert tokens[0].value.int_value == 41
    [odd] = spans(
        wrap(span(startTimeUnixNano=1796040000000000001, endTimeUnixNano="18446744073709551615"))
    )
    assert (odd.start_time_unix_nano, odd.end_time_unix_nano) == (1796040000000000001, 2**64 - 1)


def test_enum_names_are_read_so_that_an_error_never_hides():
    """Names of enum values count as their numbers."""
    [item] = case("B04.names.otlp.json")
    assert item.kind == Span.SPAN_KIND_CLIENT
    assert item.status.code == Status.STATUS_CODE_ERROR
    assert item.status.message == "upstream said no"


def test_snake_case_reads_as_lower_camel_case():
    """The proto's own field names give the same span."""
    [snake] = case("B04.snake.otlp.json")
    assert snake.trace_id.hex() == "d088f468b93bc72ccc09c29ee26d05fb"
    assert snake.end_time_unix_nano == 1796040001000000000
    assert snake.attributes[0].value.string_value == "chat"


def test_unknown_fields_and_nulls_are_ignored():
    """What a newer sender adds, and null on every level, changes nothing."""
    [item] = case("B04.future.otlp.json")
    assert (item.flags, item.trace_state) == (257, "vendor=1")
    nulls = wrap(span(name=None, status=None, attributes=[None], links=None), None)
    assert spans(nulls)[0].name == ""
    assert spans({"resourceSpans": None}) == []


def test_text_that_later_stages_cannot_store_is_replaced():
    """NUL and lone surrogates become U+FFFD; the clean neighbours are untouched."""
    nul, surrogates, clean, control = case("B11.otlp.json")
    texts = [[a.value.string_value for a in item.attributes] for item in (nul, surrogates)]
    assert "Read the attached file \ufffd\ufffd please" in texts[0]
    assert "Nice \ufffd" in texts[1]
    assert clean.attributes[-1].value.string_value == "Yes, with a surcharge."
    assert control.attributes[-2].value.string_value == "tab\t bell\x07 esc\x1b[31m"
    assert value_of({"stringValue": "\U0001f600"}).string_value == "\U0001f600"


def test_bytes_that_are_not_utf_8_damage_only_their_own_text():
    """An undecodable byte becomes U+FFFD inside its text."""
    body = json.dumps(wrap(span(name="caf@"), span(name="ok"))).encode().replace(b"@", b"\xe9")
    assert [item.name for item in spans(body)] == ["caf\ufffd", "ok"]


def test_odd_attribute_values_keep_their_type():
    """Maps, mixed lists, empty values, bytes and non-finite numbers are what protobuf would say."""
    odd, structured = case("B12.otlp.json")
    values = {a.key: a.value for a in odd.attributes}
    kinds = [v.WhichOneof("value") for v in values["app.tags"].array_value.values]
    assert kinds == ["string_value", "int_value", "bool_value", "kvlist_value"]
    assert values["app.none"].WhichOneof("value") is None
    assert structured.attributes
    assert math.isnan(value_of({"doubleValue": "NaN"}).double_value)
    assert value_of({"doubleValue": "-Infinity"}).double_value == -math.inf
    assert value_of({"bytesValue": "aGk="}).bytes_value == b"hi"
    assert (
        value_of({"bytesValue": base64.urlsafe_b64encode(b"\xff\xfe").decode()}).bytes_value
        == b"\xff\xfe"
    )
    assert value_of({"intValue": "0"}).WhichOneof("value") == "int_value"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (span(traceId="xyz"), "invalid_trace_id"),
        (span(spanId=5), "invalid_span_id"),
        (span(parentSpanId="abc"), "invalid_span_id"),
        (span(startTimeUnixNano="soon"), "malformed"),
        (span(startTimeUnixNano=-1), "malformed"),
        (span(startTimeUnixNano=2**64), "malformed"),
        (span(kind="SPAN_KIND_OF_SORT"), "malformed"),
        (span(name=7), "malformed"),
        (span(attributes={}), "malformed"),
        (attribute({"boolValue": 1}), "malformed"),
        (attribute({"intValue": 1.5}), "malformed"),
        (attribute({"intValue": True}), "malformed"),
        (attribute({"doubleValue": "many"}), "malformed"),
        (attribute({"bytesValue": "?"}), "malformed"),
        ("span", "malformed"),
    ],
)
def test_a_bad_span_is_left_out_alone(bad, reason):
    """A span that cannot be read is reported with its reason and harms no neighbour."""
    rejected = []
    body = json.dumps(wrap(span(name="a"), bad, span(name="b"))).encode()
    request = parse_traces(body, lambda *why: rejected.append(why))
    assert [s.name for s in request.resource_spans[0].scope_spans[0].spans] == ["a", "b"]
    assert rejected == [(reason, 1)]


def test_a_bad_resource_takes_its_own_spans_with_it_and_no_others():
    """The spans below what cannot be read are counted one by one."""
    bad = wrap(span(), span())["resourceSpans"][0] | {"resource": {"attributes": 3}}
    rejected = []
    body = json.dumps({"resourceSpans": [bad, *wrap(span())["resourceSpans"]]}).encode()
    request = parse_traces(body, lambda *why: rejected.append(why))
    assert len(request.resource_spans) == 1
    assert rejected == [("malformed", 2)]


def test_values_nested_deeper_than_protobuf_reads_are_left_out():
    """What is accepted can be read again from its bytes."""
    value: dict = {"stringValue": "deep"}
    for _ in range(20):
        value = {"arrayValue": {"values": [value]}}
    [item] = spans(wrap(attribute(value)))
    for _ in range(30):
        value = {"arrayValue": {"values": [value]}}
    rejected = []
    parse_traces(json.dumps(wrap(attribute(value))).encode(), lambda *why: rejected.append(why))
    assert rejected == [("malformed", 1)]
    assert Span.FromString(item.SerializeToString()) == item


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe{\x00}\x00", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(body):
    """The whole body is at fault: Permanent."""
    with pytest.raises(Permanent):
        parse_traces(body)


def test_more_parts_than_a_request_may_have_are_refused():
    """Spans of a few bytes cannot take much memory."""
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}'
    assert parse_traces(body % b",".join([b"{}"] * (MAX_PARTS - 2)))
    with pytest.raises(Permanent, match="more than"):
        parse_traces(body % b",".join([b"{}"] * (MAX_PARTS - 1)))


def test_log_records_are_read_by_the_same_rules():
    """Ids, times, severity names and structured bodies of log records."""
    record = {
        "traceId": TRACE.upper(),
        "spanId": SPAN,
        "timeUnixNano": "1796040000000000001",
        "severityNumber": "SEVERITY_NUMBER_INFO",
        "eventName": "gen_ai.choice",
        "body": {"kvlistValue": {"values": [{"key": "index", "value": {"intValue": 0}}]}},
    }
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record, {"traceId": "-"}]}]}]}
    rejected = []
    request = parse_logs(json.dumps(body).encode(), lambda *why: rejected.append(why))
    [read] = request.resource_logs[0].scope_logs[0].log_records
    assert read.trace_id.hex() == TRACE
    assert (read.time_unix_nano, read.severity_number) == (1796040000000000001, 9)
    assert read.body.kvlist_value.values[0].value.int_value == 0
    assert rejected == [("invalid_trace_id", 1)]


def test_every_capture_is_read_whole():
    """Nothing that a library really sent is left out."""
    count = 0
    for path in sorted((DATA / "captures").glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            entry = json.loads(line)
            if entry.get("signal") in ("traces", "logs"):
                rejected = []
                parse = parse_traces if entry["signal"] == "traces" else parse_logs
                parse(json.dumps(entry["body"]).encode(), lambda *why, to=rejected: to.append(why))
                assert not rejected, path.name
                count += 1
    assert count > 100


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([TRACE, SPAN, "NaN", "aGk=", "SPAN_KIND_SERVER", "18446744073709551616"])
)
WORDS = (
    "resourceSpans resource_spans scopeSpans spans resource scope attributes key value traceId "
    "spanId kind startTimeUnixNano status code events links stringValue intValue doubleValue "
    "boolValue bytesValue arrayValue kvlistValue values resourceLogs scopeLogs logRecords body "
    "flags entityRefs idKeys schemaUrl traceState severityNumber"
)
NAMES = st.sampled_from(WORDS.split())
TREES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=4),
    max_leaves=20,
)


@given(
    span_tree=st.dictionaries(NAMES, TREES, max_size=6),
    value_tree=st.dictionaries(NAMES, TREES, max_size=3),
    anything=TREES,
)
def test_any_json_gives_a_request_that_can_be_read_again(span_tree, value_tree, anything):
    """Whatever the body holds, the answer is a request or Permanent, and never another error."""
    bodies = [
        wrap(span_tree, attribute(value_tree)),
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [span_tree, anything]}]}]},
        {"resourceSpans": anything, "resourceLogs": anything},
        anything,
    ]
    for body in bodies:
        raw = json.dumps(body).encode()
        for parse, kind in (
            (parse_traces, ExportTraceServiceRequest),
            (parse_logs, ExportLogsServiceRequest),
        ):
            try:
                request = parse(raw)
            except Permanent:
                continue
            kind.FromString(request.SerializeToString())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body):
    """Bytes that are no JSON raise Permanent, and never another error."""
    try:
        parse_traces(body)
    except Permanent:
        return
