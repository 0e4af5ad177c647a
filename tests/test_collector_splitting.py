from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from assay.bus.contract import Outgoing
from collector.splitting import TRUNCATED, split

SPAN = st.tuples(st.integers(0, 4), st.integers(0, 3000))
"""Which trace, and how much text."""


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def request(groups: list[list[tuple[int, int]]]) -> bytes:
    body = ExportTraceServiceRequest()
    number = 0
    for index, spans in enumerate(groups):
        group = body.resource_spans.add()
        group.resource.attributes.append(text("service.name", f"app{index}"))
        scope = group.scope_spans.add()
        scope.scope.name = f"scope{index}"
        for trace, size in spans:
            number += 1
            scope.spans.add(
                trace_id=bytes([trace + 1]) * 16,
                span_id=number.to_bytes(8, "big"),
                name=f"span {number}",
                attributes=[text("prompt", "x" * size)],
            )
    return body.SerializeToString()


def spans_of(records: list[Outgoing]) -> list[tuple[str, str, bytes, bytes, str]]:
    """App, scope, trace, span and prompt of each span, in order."""
    found = []
    for record in records:
        for group in ExportTraceServiceRequest.FromString(record.value).resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    found.append(
                        (
                            group.resource.attributes[0].value.string_value,
                            scope.scope.name,
                            span.trace_id,
                            span.span_id,
                            span.attributes[0].value.string_value,
                        )
                    )
    return found


@given(st.lists(st.lists(SPAN, min_size=1, max_size=6), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_pieces_hold_the_same_and_fit(groups) -> None:
    """Every span is in one piece, unchanged, under its own resource and scope; spans of a trace
    keep their order; no piece is too large; all stay on the partition."""
    most = 4000
    whole = Outgoing("assay.spans", request(groups), b"k", 3, {})
    pieces = list(split(whole, most))
    assert sorted(spans_of(pieces)) == sorted(spans_of([whole]))
    assert all(len(piece.value) <= most and piece.partition == 3 for piece in pieces)
    for trace in range(1, 6):
        own = [s for s in spans_of(pieces) if s[2] == bytes([trace]) * 16]
        assert own == [s for s in spans_of([whole]) if s[2] == bytes([trace]) * 16]


def test_what_fits_is_left_alone() -> None:
    """A record that is small enough is passed on as it is."""
    record = Outgoing("assay.spans", request([[(0, 10)]]), b"k", 1, {})
    assert list(split(record, 10_000)) == [record]


def test_traces_are_broken_only_when_one_alone_is_too_large() -> None:
    """Small traces stay whole; a large one is broken between its spans."""
    groups = [[(0, 900), (0, 900), (1, 900), (2, 1800), (2, 1800), (2, 1800)]]
    pieces = list(split(Outgoing("assay.spans", request(groups), b"k", 0, {}), 4000))
    by_piece = [{s[2][0] - 1 for s in spans_of([piece])} for piece in pieces]
    assert by_piece == [{0, 1}, {2}, {2}]
    assert [piece.key for piece in pieces] == [b"\x01" * 16, b"\x03" * 16, b"\x03" * 16]


def test_a_span_that_alone_is_too_large_is_cut_and_marked() -> None:
    """Its longest text loses its middle; ids, names and short texts stay."""
    (piece,) = split(Outgoing("assay.spans", request([[(0, 50_000)]]), b"k", 0, {}), 8000)
    (group,) = ExportTraceServiceRequest.FromString(piece.value).resource_spans
    span = group.scope_spans[0].spans[0]
    assert len(piece.value) <= 8000
    assert (span.name, span.span_id) == ("span 1", (1).to_bytes(8, "big"))
    assert "characters cut" in span.attributes[0].value.string_value
    assert span.attributes[-1].key == TRUNCATED


def test_even_a_span_of_very_many_attributes_fits() -> None:
    """When cutting texts does not help, attributes go; the span itself stays."""
    body = ExportTraceServiceRequest()
    span = (
        body.resource_spans.add()
        .scope_spans.add()
        .spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="many")
    )
    span.attributes.extend(text(f"key{n}", "v") for n in range(5000))
    (piece,) = split(Outgoing("assay.spans", body.SerializeToString(), b"k", 0, {}), 5000)
    (group,) = ExportTraceServiceRequest.FromString(piece.value).resource_spans
    assert len(piece.value) <= 5000
    assert [a.key for a in group.scope_spans[0].spans[0].attributes] == [TRUNCATED]


def test_log_records_are_split_alike() -> None:
    """Logs are split by their own trace ids."""
    body = ExportLogsServiceRequest()
    records = body.resource_logs.add().scope_logs.add().log_records
    for number in range(6):
        records.add(
            trace_id=bytes([number % 2 + 1]) * 16,
            body=AnyValue(string_value="y" * 900 + str(number)),
        )
    whole = Outgoing("assay.spans", body.SerializeToString(), b"k", 0, {"signal": "logs"})
    pieces = list(split(whole, 3200))
    assert len(pieces) == 2
    assert all(piece.headers == {"signal": "logs"} for piece in pieces)
    for piece in pieces:
        (group,) = ExportLogsServiceRequest.FromString(piece.value).resource_logs
        assert len({r.trace_id for r in group.scope_logs[0].log_records}) == 1
