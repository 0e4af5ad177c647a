"""OTLP/JSON to OTLP protobuf.

OTLP/JSON is protobuf's JSON mapping with three differences: trace and span ids are hexadecimal
text, enum values are numbers, and unknown fields are ignored. Senders bend it, so this reader also
takes ids in either case, 64-bit integers as text or number, enum names, the proto's own snake_case
field names, and nulls. NUL and lone surrogates, which later stages cannot store, become U+FFFD.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assay.errors import Permanent
from collector.wire import MAX_PARTS

Reject = Callable[[str, int], None]
"""Called with a reason and how many spans or log records were left out for it."""

MAX_DEPTH = 90
"""Messages within messages; protobuf's own readers stop at 100."""

_ALONE = {"ResourceSpans", "ScopeSpans", "Span", "ResourceLogs", "ScopeLogs", "LogRecord"}
_CHILDREN = (
    *("resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "spans"),
    *("resourceLogs", "resource_logs", "scopeLogs", "scope_logs", "logRecords", "log_records"),
)
_UNSAFE = re.compile("[\x00\ud800-\udfff]")
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


class _Bad(ValueError):
    """A value that its field cannot hold; the argument is the reason."""


class _Field(NamedTuple):
    name: str
    repeated: bool
    scalar: Callable[[Any], Any] | None
    """None for a message."""
    fields: dict[str, _Field]
    """Of a message, by both spellings."""
    alone: bool
    """A bad item is left out, not its whole parent."""


def parse_traces(
    body: bytes, reject: Reject = lambda reason, count: None
) -> ExportTraceServiceRequest:
    """The request in `body`. A span that cannot be read is left out and reported to `reject`.

    Ids of a wrong length are kept as they are. Raises Permanent when the body is no JSON
    object with a list of resources, or has too many parts.
    """
    return ExportTraceServiceRequest(**_request(_TRACES, body, reject))


def parse_logs(
    body: bytes, reject: Reject = lambda reason, count: None
) -> ExportLogsServiceRequest:
    """As `parse_traces`, for log records."""
    return ExportLogsServiceRequest(**_request(_LOGS, body, reject))


def _request(fields: dict[str, _Field], body: bytes, reject: Reject) -> dict[str, Any]:
    try:
        # Undecodable bytes can only stand inside a text: the others keep their value.
        root = json.loads(body.decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise Permanent(f"the body is not JSON: {error}") from error
    try:
        return _Reader(reject).message(fields, root, 0)
    except _Bad as error:
        raise Permanent("the body is not an OTLP/JSON request") from error


class _Reader:
    def __init__(self, reject: Reject) -> None:
        self._reject = reject
        self._parts = 0

    def message(self, fields: dict[str, _Field], source: Any, depth: int) -> dict[str, Any]:
        """The arguments that make the message which `source` describes."""
        if type(source) is not dict or depth > MAX_DEPTH:
            raise _Bad("malformed")
        made: dict[str, Any] = {}
        for name, value in source.items():
            field = fields.get(name)
            if field is None or value is None:
                continue
            if field.repeated:
                made[field.name] = self._items(field, value, depth + 1)
            elif field.scalar is not None:
                made[field.name] = field.scalar(value)
            else:
                made[field.name] = self.message(field.fields, value, depth + 1)
        return made

    def _items(self, field: _Field, values: Any, depth: int) -> list[Any]:
        if type(values) is not list:
            raise _Bad("malformed")
        if field.scalar is not None:
            return [field.scalar(value) for value in values if value is not None]
        if not field.alone:
            return [
                self.message(field.fields, value, depth) for value in values if value is not None
            ]
        self._parts += len(values)
        if self._parts > MAX_PARTS:
            raise Permanent(f"more than {MAX_PARTS} parts in one request")
        made = []
        for value in values:
            if value is not None:
                try:
                    made.append(self.message(field.fields, value, depth))
                except _Bad as bad:
                    self._reject(str(bad), _leaves(value))
        return made


def _leaves(value: Any) -> int:
    """How many spans or log records the JSON below a resource, scope, span or record holds."""
    count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        lists = [item.get(name) for name in _CHILDREN] if isinstance(item, dict) else []
        below = [child for children in lists if isinstance(children, list) for child in children]
        waiting += below
        count += not below
    return count


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _Bad("malformed")
    if "\x00" in value or not (value.isascii() or _encodes(value)):
        return _UNSAFE.sub("\ufffd", value)
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        whole = (
            type(value) is int
            or (type(value) is str and _INTEGER.fullmatch(value))
            or (type(value) is float and value.is_integer())
        )
        if not whole or not low <= (number := int(value)) <= high:
            raise _Bad("malformed")
        return number

    return read


def _number(value: Any) -> float:
    if type(value) not in (int, float, str):
        raise _Bad("malformed")
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise _Bad("malformed") from error


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise _Bad("malformed")


def _base64(value: Any) -> bytes:
    if type(value) is not str:
        raise _Bad("malformed")
    try:
        text = value.rstrip("=").translate({ord("-"): "+", ord("_"): "/"})
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _Bad("malformed") from error


def _hex(reason: str) -> Callable[[Any], bytes]:
    def read(value: Any) -> bytes:
        try:
            return binascii.unhexlify(value)
        except (binascii.Error, ValueError, TypeError) as error:
            raise _Bad(reason) from error

    return read


def _enum(descriptor: EnumDescriptor) -> Callable[[Any], int]:
    numbers = {value.name: value.number for value in descriptor.values}
    integer = _integer(-(2**31), 2**31 - 1)

    def read(value: Any) -> int:
        return numbers[value] if type(value) is str and value in numbers else integer(value)

    return read


_SCALARS: dict[int, Callable[[Any], Any]] = {
    FieldDescriptor.CPPTYPE_STRING: _text,
    FieldDescriptor.CPPTYPE_BOOL: _boolean,
    FieldDescriptor.CPPTYPE_DOUBLE: _number,
    FieldDescriptor.CPPTYPE_INT32: _integer(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: _integer(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: _integer(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: _integer(0, 2**64 - 1),
}
_IDS = {
    "trace_id": _hex("invalid_trace_id"),
    "span_id": _hex("invalid_span_id"),
    "parent_span_id": _hex("invalid_span_id"),
}


def _scalar(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _IDS.get(field.name, _base64)
    if field.enum_type is not None:
        return _enum(field.enum_type)
    return _SCALARS[field.cpp_type]


def _table(descriptor: Descriptor, seen: dict[str, dict[str, _Field]]) -> dict[str, _Field]:
    fields = seen.setdefault(descriptor.full_name, {})
    if not fields:
        for field in descriptor.fields:
            kind = field.message_type
            fields[field.json_name] = fields[field.name] = _Field(
                field.name,
                field.is_repeated,
                _scalar(field) if kind is None else None,
                {} if kind is None else _table(kind, seen),
                kind is not None and kind.name in _ALONE,
            )
    return fields


_TRACES = _table(ExportTraceServiceRequest.DESCRIPTOR, {})
_LOGS = _table(ExportLogsServiceRequest.DESCRIPTOR, {})
