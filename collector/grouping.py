"""A record of `assay.spans` taken apart by trace, without reading attributes.

What is kept of a span or log record is its own bytes; those of its resource and scope are shared by
all that stood under them. `join` makes a request of such pieces again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assay.bus.contract import Record
from collector import wire

_REMOTE = 0x300  # SpanFlags: CONTEXT_HAS_IS_REMOTE and CONTEXT_IS_REMOTE
_NO_SPAN = bytes(8)


class Item(NamedTuple):
    """A span or log record."""

    id: bytes
    """What makes two of them the same one: a span's id, and all of a log record."""
    parent: bytes
    """A span's parent; empty for a root, and for log records."""
    remote: bool
    """The parent is known to be in another process."""
    field: bytes
    """The item as a field of its scope."""


class Fragment(NamedTuple):
    """What one scope of a record holds of one trace."""

    trace_id: bytes
    service: str
    """`service.name`; empty when there is none."""
    resource: bytes
    """The fields of the resource's message but for its scopes."""
    scope: bytes
    """The fields of the scope's message but for its items."""
    items: list[Item]


class Piece(NamedTuple):
    """What is kept of a fragment."""

    now: int
    """When it came, milliseconds of the bus."""
    logs: bool
    resource: bytes
    scope: bytes
    fields: list[bytes]


def is_logs(record: Record) -> bool:
    """Whether the record holds log records rather than spans."""
    return record.headers.get("signal") == "logs"


def by_trace(record: Record) -> list[Fragment]:
    """The record's items by scope and trace, in order.

    Raises DecodeError when the value is no export request of its signal.
    """
    logs = is_logs(record)
    body = record.value
    request: Any = (ExportLogsServiceRequest if logs else ExportTraceServiceRequest).FromString(
        body
    )
    messages = request.resource_logs if logs else request.resource_spans
    fragments: list[Fragment] = []
    for message, group in zip(messages, wire.take_apart(body), strict=True):
        service = _service(message.resource)
        scope_messages = message.scope_logs if logs else message.scope_spans
        for scope_message, scope in zip(scope_messages, group.scopes, strict=True):
            traces = (
                _logs(scope_message.log_records, scope.items, body)
                if logs
                else _spans(scope_message.spans, scope.items, body)
            )
            fragments += [
                Fragment(trace_id, service, group.head, scope.head, items)
                for trace_id, items in traces.items()
            ]
    return fragments


def _spans(
    spans: Iterable[Any], places: list[tuple[int, int, int]], body: bytes
) -> dict[bytes, list[Item]]:
    traces: dict[bytes, list[Item]] = {}
    for span, (start, _, end) in zip(spans, places, strict=True):
        parent = span.parent_span_id
        traces.setdefault(span.trace_id, []).append(
            Item(
                span.span_id,
                b"" if parent == _NO_SPAN else parent,
                span.flags & _REMOTE == _REMOTE,
                body[start:end],
            )
        )
    return traces


def _logs(
    records: Iterable[Any], places: list[tuple[int, int, int]], body: bytes
) -> dict[bytes, list[Item]]:
    traces: dict[bytes, list[Item]] = {}
    for record, (start, _, end) in zip(records, places, strict=True):
        field = body[start:end]
        traces.setdefault(record.trace_id, []).append(Item(field, b"", False, field))
    return traces


def join(pieces: Iterable[Piece]) -> bytes:
    """The export request that the pieces, all of one signal, make together."""
    request: list[wire.Buffer] = []
    for piece in pieces:
        inner = wire.field(wire.SCOPES, [piece.scope, *piece.fields])
        request += wire.field(wire.GROUPS, [piece.resource, *inner])
    return b"".join(request)


def _service(resource: Any) -> str:
    for pair in resource.attributes:
        if pair.key == "service.name":
            return str(pair.value.string_value)
    return ""
