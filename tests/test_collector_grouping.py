from __future__ import annotations

import pytest
from assembly_drive import LOCAL, REMOTE, T0, logs_request, request, span
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from assay.bus.contract import Record
from collector.grouping import Piece, by_trace, join


def record(value: bytes, signal: str = "traces") -> Record:
    headers = {"signal": "logs"} if signal == "logs" else {}
    return Record("assay.spans", 0, 0, T0, None, value, headers)


def pieces(value: bytes, trace: int) -> list[Piece]:
    return [
        Piece(0, False, f.resource, f.scope, [item.field for item in f.items])
        for f in by_trace(record(value))
        if int.from_bytes(f.trace_id, "big") == trace
    ]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), max_size=20))
def test_what_is_taken_apart_and_joined_is_the_same(ids: list[tuple[int, int]]) -> None:
    """Of each trace the joined pieces hold its spans, unchanged and in order, under the resource
    and scope that they came with."""
    spans = [span(trace, number, 1, note="x" * number) for trace, number in ids]
    value = request(spans, service="shop", zone="eu")
    whole = ExportTraceServiceRequest.FromString(value)
    for trace in {trace for trace, _ in ids}:
        again = ExportTraceServiceRequest.FromString(join(pieces(value, trace)))
        [group] = again.resource_spans
        assert group.resource == whole.resource_spans[0].resource
        [scope] = group.scope_spans
        assert scope.scope.name == "test"
        wanted = [s for s in spans if int.from_bytes(s.trace_id, "big") == trace]
        assert list(scope.spans) == wanted


def test_unknown_fields_pass_through() -> None:
    """What a later version of the protocol adds to a span, scope or resource is kept."""
    unknown = b"\xfa\x07\x03new"  # field 127
    one = ExportTraceServiceRequest.FromString(request([span(1, 1)]))
    group = one.resource_spans[0]
    group.scope_spans[0].spans[0].MergeFromString(unknown)
    group.scope_spans[0].MergeFromString(unknown)
    group.MergeFromString(unknown)
    assert join(pieces(one.SerializeToString(), 1)).count(unknown) == 3


def test_ids_parents_and_services_are_read() -> None:
    """All-zero parents are none; a parent is remote only where the flags say so."""
    spans = [
        span(1, 1, 0), span(1, 2, 1, flags=REMOTE), span(1, 3, 1, flags=LOCAL), span(1, 4, 1)
    ]  # fmt: skip
    [fragment] = by_trace(record(request(spans, service="bot")))
    assert fragment.service == "bot"
    assert [item.parent[-1:] for item in fragment.items] == [b"", b"\1", b"\1", b"\1"]
    assert [item.remote for item in fragment.items] == [False, True, False, False]
    assert [item.id[-1] for item in fragment.items] == [1, 2, 3, 4]


def test_log_records_are_told_apart_by_what_they_hold() -> None:
    """Two equal log records are one; two that differ anywhere are two."""
    logs = [LogRecord(trace_id=bytes(15) + b"\1", time_unix_nano=n) for n in (1, 1, 2)]
    [fragment] = by_trace(record(logs_request(logs), "logs"))
    assert len({item.id for item in fragment.items}) == 2


@given(st.binary(max_size=200), st.sampled_from(["traces", "logs"]))
def test_any_value_is_taken_apart_or_refused(value: bytes, signal: str) -> None:
    """Arbitrary bytes raise nothing but DecodeError."""
    try:
        by_trace(record(value, signal))
    except DecodeError:
        return


@given(st.data())
def test_a_damaged_request_is_taken_apart_or_refused(data: st.DataObject) -> None:
    """So do requests with a few changed bytes."""
    value = bytearray(request([span(1, 1, query="Q?"), span(2, 2, 1)]))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    try:
        by_trace(record(bytes(value)))
    except DecodeError:
        return


@pytest.mark.parametrize("value", [b"\xff", request([span(1, 1)])[:-3]])
def test_what_is_no_request_is_refused(value: bytes) -> None:
    """A cut request is not read in part."""
    with pytest.raises(DecodeError):
        by_trace(record(value))
