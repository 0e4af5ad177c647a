"""Spans and log records as they came, to the steps of each trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from collector.dialects.span_reader import step_of, told_by
from collector.dialects.step import Step
from collector.spans import Log, Span


def traces(spans: Iterable[Span], logs: Iterable[Log]) -> list[list[Step]]:
    """The steps of each trace by start, each span once.

    A record that names no span of its trace belongs to the trace's first span.
    """
    by_span: dict[str, dict[str, Span]] = defaultdict(dict)
    for span in spans:
        known = by_span[span.trace_id].get(span.span_id)
        if known is None or _fuller(span, known):
            by_span[span.trace_id][span.span_id] = span
    records: dict[str, list[Log]] = defaultdict(list)
    for log in logs:
        records[log.trace_id].append(log)
    found = []
    for trace_id, held in by_span.items():
        ordered = sorted(held.values(), key=_place)
        told: dict[str, list[Log]] = defaultdict(list)
        for log in records.get(trace_id, ()):
            told[log.span_id if log.span_id in held else ordered[0].span_id].append(log)
        found.append([step_of(span, told_by(span, told.get(span.span_id, ()))) for span in ordered])
    return found


def _place(span: Span) -> tuple[int, str]:
    return (span.start, span.span_id)


def _fuller(span: Span, known: Span) -> bool:
    """Whether `span` is to be kept of two with one id: it ended later, else it holds more."""
    if span is known or span == known:
        return False
    mine = (span.end, len(span.attributes), len(span.events), repr(span))
    return mine > (known.end, len(known.attributes), len(known.events), repr(known))
