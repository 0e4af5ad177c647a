"""A record too large for the stream in several that are not: by trace, then by span.

All pieces go to the record's own partition, in order. Only a single span that alone is too large is
cut: its longest texts lose their middle, and it is marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from assay.bus.contract import Outgoing
from collector import wire
from collector.texts import cut

TRUNCATED = "assay.truncated"
"""Attribute of a span or log record of which text was cut."""
ROOM = 64
"""Bytes for the lengths of the messages around an item."""
SHORTEST = 64


class _Item(NamedTuple):
    """A span or log record with what stands around it."""

    trace_id: bytes
    group: bytes
    scope: bytes
    field: bytes

    @property
    def size(self) -> int:
        return len(self.group) + len(self.scope) + len(self.field) + ROOM


def split(record: Outgoing, most: int) -> Iterator[Outgoing]:
    """`record`, or the records of at most `most` bytes that hold the same in its place."""
    if len(record.value) <= most:
        yield record
        return
    logs = record.headers.get("signal") == "logs"
    for trace_id, items in _packed(_items(record.value, logs, most), most):
        yield record._replace(value=_joined(items), key=trace_id)


def _items(body: bytes, logs: bool, most: int) -> list[_Item]:
    """The items, those of a trace together, in the order in which the traces begin."""
    request: Any = (ExportLogsServiceRequest if logs else ExportTraceServiceRequest).FromString(
        body
    )
    messages = request.resource_logs if logs else request.resource_spans
    traces: dict[bytes, list[_Item]] = {}
    for group, parts in zip(messages, wire.take_apart(body), strict=True):
        scopes = group.scope_logs if logs else group.scope_spans
        for scope, scope_parts in zip(scopes, parts.scopes, strict=True):
            found = scope.log_records if logs else scope.spans
            for message, (begin, _, end) in zip(found, scope_parts.items, strict=True):
                item = _Item(message.trace_id, parts.head, scope_parts.head, body[begin:end])
                if item.size > most:
                    item = _shortened(item, message, most)
                traces.setdefault(message.trace_id, []).append(item)
    return [item for items in traces.values() for item in items]


def _packed(items: Sequence[_Item], most: int) -> Iterator[tuple[bytes, list[_Item]]]:
    """Runs of items that fit, broken between traces where that can be, with their first trace."""
    piece: list[_Item] = []
    size = 0
    start = 0
    while start < len(items):
        end = start
        while end < len(items) and items[end].trace_id == items[start].trace_id:
            end += 1
        trace = items[start:end]
        whole = sum(item.size for item in trace)
        if piece and size + whole > most:
            yield piece[0].trace_id, piece
            piece, size = [], 0
        for item in trace:
            if piece and size + item.size > most:
                yield piece[0].trace_id, piece
                piece, size = [], 0
            piece.append(item)
            size += item.size
        start = end
    if piece:
        yield piece[0].trace_id, piece


def _joined(items: Sequence[_Item]) -> bytes:
    """The request of the items; neighbours under one scope share it."""
    parts: list[wire.Buffer] = []
    start = 0
    while start < len(items):
        end = start
        while end < len(items) and items[end][1:3] == items[start][1:3]:
            end += 1
        scope = wire.field(
            wire.SCOPES, [items[start].scope, *(item.field for item in items[start:end])]
        )
        parts += wire.field(wire.GROUPS, [items[start].group, *scope])
        start = end
    return b"".join(parts)


def _shortened(item: _Item, message: Span | LogRecord, most: int) -> _Item:
    """The item with its longest texts cut until it fits; without what stands around it, and at
    last without attributes, where even that is too large."""
    changed = type(message)()
    changed.CopyFrom(message)  # type: ignore[arg-type]
    changed.attributes.append(KeyValue(key=TRUNCATED, value=AnyValue(bool_value=True)))
    group, scope = item.group, item.scope
    if len(group) + len(scope) > most // 2:
        group = scope = b""
    limit = most // 2
    while True:
        field = b"".join(wire.field(wire.ITEMS, [changed.SerializeToString()]))
        shorter = _Item(item.trace_id, group, scope, field)
        if shorter.size <= most:
            return shorter
        if limit < SHORTEST:
            for name in ("attributes", "events", "links", "body"):
                if name in changed.DESCRIPTOR.fields_by_name:
                    changed.ClearField(name)  # type: ignore[arg-type]
            changed.attributes.append(KeyValue(key=TRUNCATED, value=AnyValue(bool_value=True)))
            limit = most
            continue
        _cut_texts(changed, limit)
        limit //= 2


def _cut_texts(message: Message, limit: int) -> None:
    """Cut every text and byte string of the message, at any depth, to `limit`."""
    for field, value in message.ListFields():
        many = list(value) if field.is_repeated else [value]
        if field.message_type is not None:
            for each in many:
                _cut_texts(each, limit)
        elif field.type == field.TYPE_STRING and not field.is_repeated:
            setattr(message, field.name, cut(value, limit))
        elif field.type == field.TYPE_BYTES and len(value) > max(limit, 16):
            setattr(message, field.name, value[:limit])
