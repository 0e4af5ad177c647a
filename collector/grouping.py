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


def is_logs(record: Record) -> bool:
    """Whether the record holds log records rather than spans."""
    return record.headers.get("signal") == "logs"


def take_apart(record: Record) -> list[Fragment]:
    """The record's items by scope and trace, in order.

    Raises DecodeError when the value is no export request of its signal.
    """
    logs = is_logs(record)
    body = record.value
    request: Any = (ExportLogsServiceRequest if logs else ExportTraceServiceRequest).FromString(
        body
    )
    fragments: list[Fragment] = []
    group_parts = wire.split(body, 0, len(body), wire.GROUPS).children
    groups = request.resource_logs if logs else request.resource_spans
    for group, (_, start, end) in zip(groups, group_parts, strict=True):
        service = _service(group.resource)
        resource, scope_parts = wire.split(body, start, end, wire.SCOPES)
        for scope, (_, start, end) in zip(
            group.scope_logs if logs else group.scope_spans, scope_parts, strict=True
        ):
            head, item_parts = wire.split(body, start, end, wire.ITEMS)
            by_trace: dict[bytes, list[Item]] = {}
            if logs:
                for record_, (begin, _, end) in zip(scope.log_records, item_parts, strict=True):
                    field = body[begin:end]
                    by_trace.setdefault(record_.trace_id, []).append(Item(field, b"", False, field))
            else:
                for span, (begin, _, end) in zip(scope.spans, item_parts, strict=True):
                    parent = span.parent_span_id
                    by_trace.setdefault(span.trace_id, []).append(
                        Item(
                            span.span_id,
                            b"" if parent == _NO_SPAN else parent,
                            span.flags & _REMOTE == _REMOTE,
                            body[begin:end],
                        )
                    )
            fragments += [
                Fragment(trace_id, service, resource, head, items)
                for trace_id, items in by_trace.items()
            ]
    return fragments


def join(parts: Iterable[tuple[bytes, bytes, list[bytes]]]) -> bytes:
    """The export request that holds the fields of each (resource, scope, fields)."""
    request: list[wire.Buffer] = []
    for resource, scope, fields in parts:
        inner = wire.field(wire.SCOPES, [scope, *fields])
        request += wire.field(wire.GROUPS, [resource, *inner])
    return b"".join(request)


def _service(resource: Any) -> str:
    for pair in resource.attributes:
        if pair.key == "service.name":
            return str(pair.value.string_value)
    return ""
