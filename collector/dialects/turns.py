"""From the spans and log records of a trace to its turns."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.records import Turn
from collector.dialects.compose import compose, streamed_elsewhere
from collector.dialects.segment import segments
from collector.dialects.span_reader import layout_of
from collector.dialects.trace import traces
from collector.dialects.tree import units
from collector.spans import Log, Span


class Reading(msgspec.Struct):
    """What a trace says."""

    turns: list[Turn]
    """By start. What the assembler knows alone is left at its default: arrival, draw, stratum,
    labels, truncation."""
    unreadable: dict[str, int]
    """Model calls whose input or output could not be read, by layout, one of `LAYOUTS`."""
    invalid: dict[str, int] = {}
    """Spans with a value that cannot be, such as a negative number of tokens, by the field that
    goes without it, one of `INVALID_FIELDS`."""


def read(spans: Sequence[Span], logs: Sequence[Log] = ()) -> Reading:
    """The turns in the spans of a trace and in the log records that belong to them.

    Pure; never raises on what spans and records hold.
    """
    reading = Reading([], {})
    for steps in traces(spans, logs):
        for step in steps:
            for field in step.invalid:
                reading.invalid[field] = reading.invalid.get(field, 0) + 1
        found: list[Turn] = []
        for unit in units(steps):
            for call in unit.calls:
                if not (call.readable() or call.by_sdk() or streamed_elsewhere(call)):
                    layout = layout_of(call)
                    reading.unreadable[layout] = reading.unreadable.get(layout, 0) + 1
            for segment in segments(unit):
                turn = compose(segment, len(found))
                if turn is not None:
                    found.append(turn)
        reading.turns += found
    return reading
