"""From OTLP protobuf to the plain values that the dialects read.

Ids become lower-case hex, all-zero parents become empty, NUL characters become U+FFFD. Attribute
values keep their type; a key that comes twice keeps its last value, an unset value becomes None.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.spans import Event, Log, Span

_ERROR = 2  # Status.STATUS_CODE_ERROR
_MAX_DEPTH = 32


def spans(request: ExportTraceServiceRequest) -> list[Span]:
    """The spans of a request, in its order."""
    out: list[Span] = []
    for batch in request.resource_spans:
        resource = _attributes(batch.resource.attributes)
        for scoped in batch.scope_spans:
            name, version = scoped.scope.name, scoped.scope.version
            for span in scoped.spans:
                status = span.status
                out.append(
                    Span(
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent_id=_parent(span.parent_span_id),
                        name=span.name,
                        kind=span.kind,
                        start=span.start_time_unix_nano,
                        end=span.end_time_unix_nano,
                        failed=status.code == _ERROR,
                        status_message=status.message,
                        attributes=_attributes(span.attributes),
                        events=tuple(
                            Event(event.name, event.time_unix_nano, _attributes(event.attributes))
                            for event in span.events
                        ),
                        resource=resource,
                        scope=name,
                        scope_version=version,
                        trace_state=span.trace_state,
                    )
                )
    return out


def logs(request: ExportLogsServiceRequest) -> list[Log]:
    """The log records of a request that belong to a trace, in its order."""
    out: list[Log] = []
    for batch in request.resource_logs:
        resource = _attributes(batch.resource.attributes)
        for scoped in batch.scope_logs:
            for record in scoped.log_records:
                if not record.trace_id:
                    continue
                attributes = _attributes(record.attributes)
                named = record.event_name or attributes.get("event.name")
                out.append(
                    Log(
                        trace_id=record.trace_id.hex(),
                        span_id=_parent(record.span_id),
                        time=record.time_unix_nano or record.observed_time_unix_nano,
                        event_name=named if isinstance(named, str) else "",
                        body=_value(record.body, 0),
                        attributes=attributes,
                        resource=resource,
                        scope=scoped.scope.name,
                    )
                )
    return out


def _parent(raw: bytes) -> str:
    return raw.hex() if raw.strip(b"\0") else ""


def _attributes(pairs: Iterable[Any], depth: int = 0) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for pair in pairs:
        value = pair.value
        # Most values are texts: asking for the text first spares the look-up of the type.
        text = value.string_value
        if not text:
            out[pair.key] = _value(value, depth)
        elif "\0" in text:
            out[pair.key] = text.replace("\0", "\ufffd")
        else:
            out[pair.key] = text
    return out


def _value(value: Any, depth: int) -> Any:
    which = value.WhichOneof("value")
    if which is None:
        return None
    if which == "array_value":
        if depth > _MAX_DEPTH:
            return None
        return [_value(item, depth + 1) for item in value.array_value.values]
    if which == "kvlist_value":
        return _attributes(value.kvlist_value.values, depth + 1) if depth <= _MAX_DEPTH else None
    plain = getattr(value, which)
    return plain.replace("\0", "\ufffd") if which == "string_value" else plain
