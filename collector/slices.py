"""An export request cut by partition, so that all spans of a trace meet in one.

The request is parsed once, which checks it and gives the ids; the slices are then cut from its
bytes, so that attributes are neither read nor copied twice and unknown fields pass through.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal, NamedTuple

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assay.bus.contract import Outgoing
from assay.bus.topics import SPANS, partition_of
from assay.errors import Permanent
from assay.sampling import draw
from collector import wire

RESERVED_SCOPE = "assay"
"""Instrumentation scope of all that Assay itself emits; so is every name below `assay.`."""

_NO_TRACE = bytes(16)
_NO_SPAN = bytes(8)


class Cut(NamedTuple):
    """What a request came to."""

    outgoing: list[Outgoing]
    """One record for each partition that gets something."""
    kept: int
    """Spans or log records in `outgoing`."""
    dropped: Counter[str]
    """Those that are not, by reason: malformed, invalid_trace_id and invalid_span_id are faults
    of the sender; head_sampling, reserved_scope and no_trace_id (logs only) are not."""
    unsampled_roots: int
    """Root spans among those dropped for head_sampling."""


def cut(
    signal: Literal["traces", "logs"], body: bytes, *, head_ratio: float, partitions: int
) -> Cut:
    """Cut the protobuf request `body` of `signal`.

    A trace is kept iff its draw is below `head_ratio`. Raises Permanent when the body is no such
    request; single items that are malformed are only dropped.
    """
    traces = signal == "traces"
    request, body, parts, malformed = _parse(
        ExportTraceServiceRequest if traces else ExportLogsServiceRequest, body
    )
    dropped = Counter({"malformed": malformed} if malformed else {})
    view = memoryview(body)
    places: dict[bytes, int] = {}
    keys: dict[int, bytes] = {}
    groups: dict[int, list[wire.Buffer]] = {}
    kept = unsampled_roots = 0

    group_messages = request.resource_spans if traces else request.resource_logs
    for group, group_parts in zip(group_messages, parts, strict=True):
        scopes: dict[int, list[wire.Buffer]] = {}
        scope_messages = group.scope_spans if traces else group.scope_logs
        for scope, scope_parts in zip(scope_messages, group_parts.scopes, strict=True):
            if _reserved(scope.scope.name):
                dropped["reserved_scope"] += len(scope_parts.items)
                continue
            items: dict[int, list[wire.Buffer]] = {}
            item_messages = scope.spans if traces else scope.log_records
            for item, (begin, _, end) in zip(item_messages, scope_parts.items, strict=True):
                trace_id = item.trace_id
                if traces:
                    fault = _span_fault(trace_id, item.span_id, item.parent_span_id)
                else:
                    fault = _log_fault(trace_id, item.span_id)
                if fault:
                    dropped[fault] += 1
                    continue
                if head_ratio < 1 and head_ratio <= draw(
                    trace_id, item.trace_state if traces else ""
                ):
                    dropped["head_sampling"] += 1
                    unsampled_roots += traces and item.parent_span_id in (b"", _NO_SPAN)
                    continue
                partition = places.get(trace_id)
                if partition is None:
                    partition = places[trace_id] = partition_of(trace_id, partitions)
                    keys.setdefault(partition, trace_id)
                items.setdefault(partition, []).append(view[begin:end])
                kept += 1
            for partition, fields in items.items():
                scopes.setdefault(partition, []).extend(
                    wire.field(wire.SCOPES, [scope_parts.head, *fields])
                )
        for partition, fields in scopes.items():
            groups.setdefault(partition, []).extend(
                wire.field(wire.GROUPS, [group_parts.head, *fields])
            )

    headers = {} if traces else {"signal": "logs"}
    outgoing = [
        Outgoing(SPANS, b"".join(fields), keys[partition], partition, headers)
        for partition, fields in groups.items()
    ]
    return Cut(outgoing, kept, dropped, unsampled_roots)


def _parse(request: Any, body: bytes) -> tuple[Any, bytes, list[wire.Group], int]:
    """The message, the bytes that it was read from, their parts, and how many were malformed."""
    try:
        parts = wire.take_apart(body)
        try:
            return request.FromString(body), body, parts, 0
        except DecodeError:
            body, malformed = wire.salvage(body, parts, request)
            if not malformed:
                raise
        return request.FromString(body), body, wire.take_apart(body), malformed
    except DecodeError as error:
        raise Permanent(f"the body is no {request.DESCRIPTOR.name}: {error}") from error


def _reserved(scope: str) -> bool:
    return scope == RESERVED_SCOPE or scope.startswith(RESERVED_SCOPE + ".")


def _span_fault(trace_id: bytes, span_id: bytes, parent_id: bytes) -> str:
    if len(trace_id) != 16 or trace_id == _NO_TRACE:
        return "invalid_trace_id"
    if len(span_id) != 8 or span_id == _NO_SPAN or len(parent_id) not in (0, 8):
        return "invalid_span_id"
    return ""


def _log_fault(trace_id: bytes, span_id: bytes) -> str:
    if not trace_id or trace_id == _NO_TRACE:
        return "no_trace_id"
    if len(trace_id) != 16:
        return "invalid_trace_id"
    return "" if len(span_id) in (0, 8) else "invalid_span_id"
