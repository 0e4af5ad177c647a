"""Documents of other tools as OTLP/JSON: spans of Phoenix, traces and observations of Langfuse,
traces of MLflow.

Only the envelope is translated: ids, times, parents, status, and the keys under which the dialects
know the tool's content. What the content means is left to the dialects.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]

_HEX = re.compile(r"(?:0x|tr-)?([0-9a-fA-F]+)")
_WHOLE = {"metadata", "value", "json_schema", "arguments", "invocation_parameters", "parameters"}
"""Last parts of OpenInference keys whose values are JSON text even where an export decoded them."""
_ERROR = 2


def to_otlp(document: Row) -> dict[str, Any]:
    """The document as an OTLP/JSON trace request. Raises ValueError when no tool is known by it."""
    if isinstance(document.get("info"), Mapping) and isinstance(document.get("data"), Mapping):
        return _request(_mlflow(document["info"], document["data"]))
    if isinstance(document.get("data"), list):
        return _request(span for item in document["data"] for span in _langfuse_any(item))
    if "context" in document or "context.trace_id" in document:
        return _request([_phoenix(document)])
    return _request(_langfuse_any(document))


def _phoenix(row: Row) -> tuple[str, dict[str, Any]]:
    context = row.get("context") or {
        name: row.get(f"context.{name}") for name in ("trace_id", "span_id")
    }
    attributes = dict(row.get("attributes") or {})
    attributes |= {
        key.removeprefix("attributes."): value
        for key, value in row.items()
        if key.startswith("attributes.") and not _missing(value)
    }
    if row.get("span_kind"):
        attributes.setdefault("openinference.span.kind", row["span_kind"])
    resource = row.get("resource") or {}
    app = row.get("service.name") or _service(resource) or row.get("project_name")
    return app or "", _span(
        trace=context.get("trace_id"),
        span=context.get("span_id"),
        parent=row.get("parent_id"),
        name=row.get("name"),
        start=row.get("start_time"),
        end=row.get("end_time"),
        failed=str(row.get("status_code")).upper() == "ERROR",
        message=row.get("status_message"),
        attributes=dict(_flat("", attributes)),
    )


def _mlflow(info: Row, data: Row) -> Iterator[tuple[str, dict[str, Any]]]:
    shared: dict[str, Any] = dict(info.get("trace_metadata") or info.get("request_metadata") or {})
    tags = info.get("tags") or {}
    app = tags.get("service.name") or tags.get("mlflow.traceName") or ""
    for row in data.get("spans") or ():
        context = row.get("context") or row
        status = row.get("status") or {}
        code = status.get("code") if isinstance(status, Mapping) else row.get("status_code")
        attributes = {
            key: value if isinstance(value, str) else _json(value)
            for key, value in (row.get("attributes") or {}).items()
        }
        parent = row.get("parent_span_id") or row.get("parent_id")
        if not parent:
            attributes = {
                key: _json(value) for key, value in shared.items() if key.startswith("mlflow.trace")
            } | attributes
        yield (
            app,
            _span(
                trace=context.get("trace_id") or info.get("trace_id") or info.get("request_id"),
                span=context.get("span_id"),
                parent=parent,
                name=row.get("name"),
                start=row.get("start_time_unix_nano") or row.get("start_time"),
                end=row.get("end_time_unix_nano") or row.get("end_time"),
                failed="ERROR" in str(code).upper(),
                message=status.get("message") if isinstance(status, Mapping) else None,
                attributes=attributes,
            ),
        )


def _langfuse_any(row: Row) -> Iterator[tuple[str, dict[str, Any]]]:
    observations = row.get("observations")
    if isinstance(observations, list) and all(isinstance(o, Mapping) for o in observations):
        yield from _langfuse(row, observations)
    elif "traceId" in row and "type" in row:
        yield from _langfuse({"id": row["traceId"]}, [row])
    else:
        raise ValueError("no trace of a tool that is known")


def _langfuse(trace: Row, observations: list[Row]) -> Iterator[tuple[str, dict[str, Any]]]:
    shared = {
        "session.id": trace.get("sessionId"),
        "user.id": trace.get("userId"),
        "langfuse.environment": trace.get("environment"),
    }
    app = _service((trace.get("metadata") or {}).get("resourceAttributes")) or trace.get("name")
    known = {row.get("id") for row in observations}
    roots = [row for row in observations if row.get("parentObservationId") not in known]
    top = None
    if len(roots) != 1 and (trace.get("input") is not None or trace.get("output") is not None):
        top = f"{trace.get('id')}/root"
        yield (
            str(app or ""),
            _observation(
                trace,
                {"id": top, "type": "SPAN", "name": trace.get("name")}
                | {name: trace.get(name) for name in ("input", "output")}
                | {"startTime": trace.get("timestamp"), "endTime": _latest(observations)},
                None,
                shared,
            ),
        )
    for row in observations:
        parent = row.get("parentObservationId")
        yield (
            str(app or ""),
            _observation(trace, row, parent if parent in known else top, shared),
        )


def _observation(trace: Row, row: Row, parent: Any, shared: Row) -> dict[str, Any]:
    usage = row.get("usageDetails") or row.get("usage") or {}
    tokens = {
        name: usage[key]
        for name, key in (("prompt_tokens", "input"), ("completion_tokens", "output"))
        if usage.get(key) is not None
    }
    facts = {
        "langfuse.observation.type": str(row.get("type") or "span").lower(),
        "langfuse.observation.input": _text(row.get("input")),
        "langfuse.observation.output": _text(row.get("output")),
        "langfuse.observation.model.name": row.get("model"),
        "langfuse.observation.usage_details": _json(tokens) if tokens else None,
        "langfuse.observation.level": row.get("level"),
        "langfuse.observation.status_message": row.get("statusMessage"),
        "langfuse.observation.prompt.name": row.get("promptName"),
        "langfuse.observation.prompt.version": row.get("promptVersion"),
        "langfuse.observation.completion_start_time": row.get("completionStartTime"),
    }
    return _span(
        trace=trace.get("id"),
        span=row.get("id"),
        parent=parent,
        name=row.get("name"),
        start=row.get("startTime") or trace.get("timestamp"),
        end=row.get("endTime") or row.get("startTime") or trace.get("timestamp"),
        failed=row.get("level") == "ERROR",
        message=row.get("statusMessage"),
        attributes={key: value for key, value in {**shared, **facts}.items() if value is not None},
    )


def _latest(observations: list[Row]) -> Any:
    times = [row.get("endTime") or row.get("startTime") for row in observations]
    return max((time for time in times if time is not None), key=_nanoseconds, default=None)


def _span(
    *,
    trace: Any,
    span: Any,
    parent: Any,
    name: Any,
    start: Any,
    end: Any,
    failed: bool,
    message: Any,
    attributes: Row,
) -> dict[str, Any]:
    if _missing(trace) or _missing(span):
        raise ValueError("a span without ids")
    return {
        "traceId": _id(trace, 16),
        "spanId": _id(span, 8),
        "parentSpanId": "" if _missing(parent) else _id(parent, 8),
        "name": str(name or ""),
        "startTimeUnixNano": str(_nanoseconds(start)),
        "endTimeUnixNano": str(_nanoseconds(end)),
        "status": {"code": _ERROR, "message": str(message or "")} if failed else {},
        "attributes": [
            {"key": key, "value": _value(value)}
            for key, value in attributes.items()
            if not _missing(value)
        ],
    }


def _request(spans: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for app, span in spans:
        groups.setdefault(app, []).append(span)
    return {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [{"key": "service.name", "value": {"stringValue": app}}]
                    if app
                    else []
                },
                "scopeSpans": [{"spans": own}],
            }
            for app, own in groups.items()
        ]
    }


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Nested attributes under dotted keys; lists of objects under numbers."""
    if isinstance(value, Mapping) and (not prefix or prefix.rsplit(".", 1)[-1] not in _WHOLE):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    elif isinstance(value, Mapping):
        yield prefix, _json(value)
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            yield from _flat(f"{prefix}.{index}", item)
    elif not _missing(value):
        yield prefix, value


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case list() | tuple():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case Mapping():
            return {"stringValue": _json(value)}
        case _:
            return {"stringValue": str(value)}


def _id(value: Any, size: int) -> str:
    """`value` as hex of `size` bytes; an id of another kind gives a hash of it."""
    text = str(value)
    match = _HEX.fullmatch(text)
    if match is not None and len(match[1]) == 2 * size:
        return match[1].lower()
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) == size:
        return raw.hex()
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()


def _nanoseconds(value: Any) -> int:
    """Since the epoch, from ISO text, a datetime, or a number in seconds to nanoseconds."""
    if _missing(value):
        return 0
    if isinstance(value, str) and not re.fullmatch(r"[0-9.]+", value):
        value = datetime.datetime.fromisoformat(value)
    if isinstance(value, datetime.datetime):
        when = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        elapsed = when - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return elapsed // datetime.timedelta(microseconds=1) * 1000
    number = float(value)
    for limit, factor in ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3)):
        if number < limit:
            return int(number * factor)
    return int(value)


def _missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _service(resource: Any) -> Any:
    """`service.name` of a resource's attributes, nested or flat."""
    if not isinstance(resource, Mapping):
        return None
    inner = resource.get("attributes")
    found = resource.get("service.name")
    return found if found is not None or not isinstance(inner, Mapping) else _service(inner)
