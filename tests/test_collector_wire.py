from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import wire


@given(st.binary(max_size=100), st.integers(1, 15))
def test_field_writes_what_protobuf_reads(payload, times):
    """A written field is split again into its payload, whatever its length."""
    payload = payload * times
    body = b"".join(wire.field(wire.SCOPES, [payload, b"!"]))
    head, [(begin, start, end)] = wire.split(body, 0, len(body), wire.SCOPES, 9)
    assert (head, begin, body[start:end], end) == (b"", 0, payload + b"!", len(body))


def test_split_keeps_every_other_field_in_the_head():
    """Unknown fields of all wire types, groups too, go to the head in their order."""
    varint, fixed64, text, group, fixed32 = (
        b"\x18\xff\x01",
        b"\x21" + bytes(8),
        b"\x2a\x02hi",
        b"\x33\x3b\x08\x01\x3c\x34",
        b"\x3d" + bytes(4),
    )
    child, padded_tag = b"\x12\x01a", b"\x92\x00\x01b"
    body = varint + child + fixed64 + text + padded_tag + group + fixed32
    head, children = wire.split(body, 0, len(body), wire.SCOPES, 9)
    assert head == varint + fixed64 + text + group + fixed32
    assert [body[start:end] for _, start, end in children] == [b"a", b"b"]


@pytest.mark.parametrize(
    "body",
    [
        b"\x12",
        b"\x12\x05abc",
        b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x18",
        b"\x21\x00",
        b"\x00\x01",
        b"\x34",
        b"\x33\x08\x01",
        b"\x16",
    ],
)
def test_split_refuses_what_is_no_sequence_of_fields(body):
    """Cut, unnumbered and unbalanced fields raise DecodeError."""
    with pytest.raises(DecodeError):
        wire.split(body, 0, len(body), wire.SCOPES, 9)


@given(st.binary(max_size=60), st.sampled_from([wire.GROUPS, wire.SCOPES]))
def test_split_of_any_bytes_covers_them_or_raises(body, tag):
    """No byte is lost, and no error but DecodeError comes out."""
    try:
        head, children = wire.split(body, 0, len(body), tag, 99)
    except DecodeError:
        return
    assert len(head) + sum(end - begin for begin, _, end in children) == len(body)


@given(st.data())
def test_salvage_of_damaged_bytes_parses_or_raises(data):
    """Whatever bytes were flipped, what is salvaged can be read."""
    request = ExportTraceServiceRequest(
        resource_spans=[
            {
                "resource": {"attributes": [{"key": "a", "value": {"string_value": "text"}}]},
                "scope_spans": [
                    {
                        "scope": {"name": "scope"},
                        "spans": [
                            {"trace_id": bytes(16), "name": "one"},
                            {"trace_id": bytes(16), "name": "two"},
                        ],
                    }
                ],
            }
        ]
        * 2
    )
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        parts = wire.take_apart(bytes(body))
        good, bad = wire.salvage(bytes(body), parts, ExportTraceServiceRequest)
    except DecodeError:
        return
    ExportTraceServiceRequest.FromString(good)
    assert bad >= 0


def test_more_parts_than_a_request_may_have_are_refused():
    """Parts of a few bytes cannot take much memory: the bound holds over all levels together."""
    for items, scopes in ((wire.MAX_PARTS - 2, 1), (100, 900)):
        scope = wire.field(wire.SCOPES, [b"\x12\x00" * items])
        wire.take_apart(b"".join(wire.field(wire.GROUPS, scope * scopes)))
    for items, scopes in ((wire.MAX_PARTS - 1, 1), (100, 1000)):
        scope = wire.field(wire.SCOPES, [b"\x12\x00" * items])
        with pytest.raises(DecodeError, match="more than"):
            wire.take_apart(b"".join(wire.field(wire.GROUPS, scope * scopes)))
