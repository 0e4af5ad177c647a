"""From a closed trace to the turns that go on to be scored.

In this order: decode, read (dialects), complete with what only the assembler knows, decide, redact,
fit into the bounds, encode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assay.bus.contract import Outgoing
from assay.bus.topics import TURNS
from assay.config import Config
from assay.records import SCHEMA_VERSION, Turn
from collector import decode
from collector.dialects import Reading
from collector.open_traces import Ending, OpenTrace
from collector.redaction import Redactor
from collector.spans import Log, Span
from collector.splitting import TRUNCATED
from collector.tail_sampling import Rates, TailSampling
from collector.texts import fit

MAX_LABEL = 120
"""Characters of a label's value."""
_HEADERS = {"schema": str(SCHEMA_VERSION)}
_ENVIRONMENT = ("deployment.environment.name", "deployment.environment")
_VERSION = ("service.version",)

Read = Callable[[Sequence[Span], Sequence[Log]], Reading]
"""What `collector.dialects.read` is."""


class Decision(NamedTuple):
    """What became of one turn."""

    turn: Turn
    kept: bool


class Finished(NamedTuple):
    """What became of one trace."""

    outputs: list[Outgoing]
    """The kept turns as records of `assay.turns`."""
    decisions: list[Decision]
    """By ordinal."""
    unreadable: dict[str, int]
    """Spans of model calls without readable content, by layout."""
    invalid: dict[str, int]
    """Spans with a value that cannot be, by field."""


class Finisher:
    """Makes turns of traces by the settings in force."""

    def __init__(
        self, config: Config, sampling: TailSampling, redactor: Redactor, read: Read
    ) -> None:
        self._sampling = sampling
        self._redactor = redactor
        self._read = read
        self._labels = config.collector.labels
        self._max_text = config.assembly.max_text

    def finish(self, trace: OpenTrace, ending: Ending, rates: Rates, minute: int) -> Finished:
        """The turns of `trace`. `minute` is that of the partition's clock.

        Counts each turn in `rates`, and may raise anything on data that the dialects cannot read.
        """
        spans = decode.spans(ExportTraceServiceRequest.FromString(trace.spans_request()))
        logs = decode.logs(ExportLogsServiceRequest.FromString(trace.logs_request()))
        reading = self._read(spans, logs)
        states = {span.trace_state for span in spans}
        outputs: list[Outgoing] = []
        decisions: list[Decision] = []
        for turn in reading.turns:
            turn = self._complete(turn, trace, ending, spans)
            verdict = self._sampling.decide(turn, states, rates, minute)
            if verdict.kept:
                turn = self._redactor.turn(
                    msgspec.structs.replace(
                        turn,
                        draw=verdict.draw,
                        inclusion_probability=verdict.probability,
                        stratum=verdict.stratum,
                    )
                )
                turn, value = fit(turn, self._max_text)
                outputs.append(Outgoing(TURNS, value, _key(turn), headers=_HEADERS))
            decisions.append(Decision(turn, verdict.kept))
        return Finished(outputs, decisions, reading.unreadable, reading.invalid)

    def _complete(
        self, turn: Turn, trace: OpenTrace, ending: Ending, spans: Sequence[Span]
    ) -> Turn:
        own = [span for span in spans if span.span_id == turn.span_id]
        resource = (own or spans)[0].resource if spans else {}
        labels = {}
        for name in self._labels:
            value = _attribute(name, own, spans)
            if value is not None:
                labels[name] = value
        return msgspec.structs.replace(
            turn,
            arrived_at=trace.arrived_at * 1_000_000,
            environment=turn.environment or _first(resource, _ENVIRONMENT),
            version=turn.version or _first(resource, _VERSION),
            labels=labels or turn.labels,
            truncated=turn.truncated
            or bool(trace.cut)
            or ending == "memory"
            or any(TRUNCATED in span.attributes for span in spans),
        )


def _key(turn: Turn) -> bytes:
    """Turns of a conversation meet on one partition."""
    if turn.conversation_id:
        return f"{turn.app}\x1f{turn.conversation_id}".encode(errors="replace")
    return turn.trace_id.encode()


def _attribute(name: str, own: Sequence[Span], spans: Sequence[Span]) -> str | None:
    """The attribute's value as a label: of the answering span, else of the first that has it, else
    of a resource."""
    for group in (own, spans):
        for span in group:
            if name in span.attributes:
                return _label(span.attributes[name])
    for span in spans:
        if name in span.resource:
            return _label(span.resource[name])
    return None


def _label(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[:MAX_LABEL] if isinstance(value, str | int | float) else None


def _first(attributes: dict[str, Any], names: Sequence[str]) -> str:
    return next((str(attributes[name]) for name in names if attributes.get(name)), "")
