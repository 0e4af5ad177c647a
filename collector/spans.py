"""Spans and log records as the dialects read them: plain values, no protobuf."""

from __future__ import annotations

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True):
    """A timed event of a span."""

    name: str
    time: int
    attributes: dict[str, Any]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span. Attribute values are str, bool, int, float, bytes, None, list or dict."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    """Empty for a root: missing and all-zero parents are the same."""
    name: str = ""
    kind: int = 0
    start: int = 0
    end: int = 0
    failed: bool = False
    """Status code ERROR."""
    status_message: str = ""
    attributes: dict[str, Any] = {}
    events: tuple[Event, ...] = ()
    resource: dict[str, Any] = {}
    scope: str = ""
    scope_version: str = ""
    trace_state: str = ""


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """One log record that belongs to a span by its ids."""

    trace_id: str
    span_id: str
    time: int = 0
    event_name: str = ""
    """`event_name` of the record, else its attribute `event.name`."""
    body: Any = None
    attributes: dict[str, Any] = {}
    resource: dict[str, Any] = {}
    scope: str = ""
