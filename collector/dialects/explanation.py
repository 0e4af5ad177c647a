"""How each span was read: what `assay doctor dialects FILE` shows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from collector.dialects.compose import compose
from collector.dialects.segment import Segment, segments
from collector.dialects.span_reader import layout_of
from collector.dialects.step import Step
from collector.dialects.trace import traces
from collector.dialects.tree import units
from collector.spans import Log, Span

_TAKEN = {
    "said_in": "input",
    "said_out": "output",
    "system": "system",
    "definitions": "tool definitions",
    "arguments": "tool arguments",
    "result": "tool result",
    "documents": "documents",
    "sought": "search query",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "model": "model",
    "conversation": "conversation",
    "user": "user",
    "first_token": "first token",
    "response_format": "response format",
    "feedback": "feedback",
    "error": "error",
}
_USES = {
    "agent": "speaks for the turn",
    "chain": "speaks for the turn",
    "model": "counts as a model call",
    "tool": "ran a tool",
    "retriever": "gave documents",
    "embedding": "is left out: an embedding",
    "other": "is left out: no content of a turn, or the wrapper of a call that counts",
}


class Explanation(msgspec.Struct, frozen=True):
    """One span: who read it, what was taken, what came of it."""

    trace_id: str
    span_id: str
    name: str
    kind: str
    layouts: tuple[str, ...]
    """The readers that gave content; the layout that the keys point to where none did."""
    taken: tuple[str, ...]
    """What was read."""
    turn_id: str | None
    """The turn that the span went into; none when it went into none."""
    use: str
    """What came of the span, or why it was left out."""


def explain(spans: Sequence[Span], logs: Sequence[Log] = ()) -> list[Explanation]:
    """One line a span, by trace and start. Reads like `read`, and as purely."""
    found: list[Explanation] = []
    for steps in traces(spans, logs):
        ordinal = 0
        for unit in units(steps):
            for segment in segments(unit):
                turn = compose(segment, ordinal)
                ordinal += turn is not None
                found += [
                    _explained(step, segment, turn.turn_id if turn is not None else None)
                    for step in segment.steps
                ]
    return found


def _explained(step: Step, segment: Segment, turn_id: str | None) -> Explanation:
    return Explanation(
        trace_id=step.span.trace_id,
        span_id=step.span.span_id,
        name=step.span.name,
        kind=step.kind,
        layouts=tuple(step.layouts) or (layout_of(step),),
        taken=tuple(label for name, label in _TAKEN.items() if getattr(step, name)),
        turn_id=turn_id,
        use=_use(step, segment, turn_id),
    )


def _use(step: Step, segment: Segment, turn_id: str | None) -> str:
    if turn_id is None:
        return "is left out: there is no turn in what belongs together with it"
    if step.kind == "model" and not (step.readable() or step.by_sdk()):
        return "counts as a model call, but its input or output could not be read"
    if step.kind in ("agent", "chain") and all(top is not step for top in segment.tops):
        return "is left out: it stands above no model call"
    return _USES.get(step.kind, _USES["other"])
