"""Dialects: from the spans and log records of a trace to its turns.

Every span is read by its own keys, never by what its neighbours use; all readers give one
intermediate form (`step.Step`); one composer makes turns of the tree of steps. The order of spans
and log records does not matter, nor does a span or record that comes twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from assay.records import Turn
from collector.dialects.compose import compose
from collector.dialects.reading import LAYOUTS, layout_of, step_of, told_by
from collector.dialects.segments import segments
from collector.dialects.step import Step
from collector.dialects.tree import units
from collector.spans import Log, Span

__all__ = ["LAYOUTS", "Reading", "read"]


class Reading(msgspec.Struct):
    """What a trace says."""

    turns: list[Turn]
    """By start. What the assembler knows alone is left at its default: arrival, draw, stratum,
    labels, truncation."""
    unreadable: dict[str, int]
    """Model calls whose input or output could not be read, by layout, one of `LAYOUTS`."""


def read(spans: Sequence[Span], logs: Sequence[Log] = ()) -> Reading:
    """The turns in the spans of a trace and in the log records that belong to them.

    Pure; never raises on what spans and records hold.
    """
    reading = Reading([], {})
    for steps in _traces(spans, logs):
        found: list[Turn] = []
        for unit in units(steps):
            for call in unit.calls:
                if not call.readable():
                    layout = layout_of(call)
                    reading.unreadable[layout] = reading.unreadable.get(layout, 0) + 1
            for segment in segments(unit):
                turn = compose(segment, len(found))
                if turn is not None:
                    found.append(turn)
        reading.turns += found
    return reading


def _traces(spans: Iterable[Span], logs: Iterable[Log]) -> list[list[Step]]:
    """The steps of each trace by start, each span once."""
    by_span: dict[tuple[str, str], Span] = {}
    for span in spans:
        key = (span.trace_id, span.span_id)
        known = by_span.get(key)
        if known is None or _fuller(span) > _fuller(known):
            by_span[key] = span
    records: dict[tuple[str, str], list[Log]] = defaultdict(list)
    for log in logs:
        records[log.trace_id, log.span_id].append(log)
    traces: dict[str, list[Step]] = defaultdict(list)
    for key, span in sorted(by_span.items(), key=lambda item: (item[1].start, item[0])):
        step = step_of(span, told_by(span, records.get(key, ())))
        traces[span.trace_id].append(step)
    return list(traces.values())


def _fuller(span: Span) -> tuple[int, int, int, str]:
    """Of two spans with one id the one that ended later and holds more is kept."""
    return (span.end, len(span.attributes), len(span.events), repr(span))
