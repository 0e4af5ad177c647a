"""One span, with its events and log records, to its `Step`."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects import facts
from collector.dialects.families import (
    autogen,
    flattened,
    genai,
    pydantic_ai,
    vercel,
    wrapped,
)
from collector.dialects.spellings import KINDS
from collector.dialects.step import Kind, Step, Told
from collector.spans import Log, Span

LAYOUTS = (
    "genai",
    "genai-events",
    "openinference",
    "indexed",
    "traceloop",
    "langfuse",
    "mlflow",
    "vercel",
    "pydantic-ai",
    "langsmith",
    "litellm",
    "haystack",
    "adk",
    "autogen",
    "laminar",
    "langwatch",
    "livekit",
    "genkit",
    "logfire",
    "generic",
    "unknown",
)
"""Every layout name: the values of a turn's `dialect` and of the counter of unreadable spans."""
_HINTS = (
    ("openinference.", "openinference"),
    ("langfuse.", "langfuse"),
    ("mlflow.", "mlflow"),
    ("langsmith.", "langsmith"),
    ("ai.", "vercel"),
    ("pydantic_ai.", "pydantic-ai"),
    ("litellm.", "litellm"),
    ("lmnr.", "laminar"),
    ("lk.", "livekit"),
    ("haystack.", "haystack"),
    ("genkit:", "genkit"),
    ("gcp.vertex.agent.", "adk"),
    ("gen_ai.prompt.", "indexed"),
    ("gen_ai.completion.", "indexed"),
    ("traceloop.", "traceloop"),
    ("gen_ai.", "genai"),
)
_VARIABLE = "gen_ai.prompt.variable."
_HEADS = {**dict.fromkeys(flattened.HEADS, "flat"), "gen_ai": "gen_ai", "ai": "ai"}
"""First words of keys that belong to a family which is read whole."""
_INDEXED = ("gen_ai.prompt.", "gen_ai.completion.")


def step_of(span: Span, told: list[Told]) -> Step:
    """Read a span by its own keys. `told` is what its events and log records carry, by time."""
    step = Step(span)
    found, others = facts.scan(span.attributes)
    facts.fill(step, found)
    flat: list[str] = []
    rows: set[int] = set()
    vercel_keys = pydantic_keys = False
    for key in others:
        row = wrapped.ROWS.get(key)
        if row is not None:
            rows.add(row)
            pydantic_keys |= key in pydantic_ai.KEYS
            continue
        family = _HEADS.get(key.partition(".")[0])
        if family == "flat":
            flat.append(key)
        elif family == "gen_ai":
            if key.startswith(_INDEXED):
                flat.append(key)
                if key.startswith(_VARIABLE) and type(span.attributes[key]) is str:
                    step.variables[key[len(_VARIABLE) :]] = span.attributes[key]
        elif family == "ai":
            vercel_keys = True
        elif key in pydantic_ai.KEYS:
            pydantic_keys = True
    groups = flattened.grouped(flat, span.attributes) if flat else {}
    if flat:
        flattened.openinference(step, groups)
    if vercel_keys:
        vercel.read(step)
    if pydantic_keys:
        pydantic_ai.read(step)
    if step.kind == "tool":
        flattened.tool(step)
    genai.read(step, told)
    if groups:
        flattened.indexed(step, groups)
    if "messaging.operation" in span.attributes:
        autogen.read(step)
    if rows:
        wrapped.read(step, sorted(rows))
    _settle(step, told)
    return step


def _settle(step: Step, told: list[Told]) -> None:
    """What follows from all that was read: the kind, the finish reason, times and errors."""
    if not step.kind:
        step.kind = _kind(step)
    if step.kind == "tool" and not step.tool:
        step.tool = wrapped.tool_name(step)
    if step.finish is None:
        step.finish = next((said.finish for said in step.said_out if said.finish), None)
    if step.kind == "model":
        facts.first_token(step, told)
    facts.failure(step, told)
    if step.error and any(step.error in (said.text or "") for said in step.said_out[-1:]):
        step.said_out = []  # some write the error where the answer would stand


def _kind(step: Step) -> Kind:
    span = step.span
    if step.tool:
        return "tool"
    if span.failed and not span.attributes:
        # A call that failed before its instrumentation wrote anything: `chat MODEL`.
        operation, _, model = span.name.partition(" ")
        if model and KINDS.get(operation) == "model":
            step.model = model
            return "model"
    if "agent_name" in span.attributes or span.attributes.get("final_result"):
        return "agent"
    if step.model or step.response_model:
        return "model"
    if span.scope == "gcp.vertex.agent":
        return "agent" if span.name.startswith("agent_run") else "chain"
    if step.said_in and step.said_out and any(said.role == "system" for said in step.said_in):
        return "model"
    return "chain" if step.said_in or step.said_out or step.agent else "other"


def layout_of(step: Step) -> str:
    """The layout that gave the content, else the one that the span's keys point to."""
    if step.layouts:
        return step.layouts[0]
    attributes = step.span.attributes
    for prefix, layout in _HINTS:
        if any(key.startswith(prefix) for key in attributes):
            return layout
    return "unknown"


def told_by(span: Span, logs: Sequence[Log]) -> list[Told]:
    """The events of a span and its log records, each once, in order of time."""
    if not span.events and not logs:
        return []
    told = [Told(event.name, event.time, event.attributes) for event in span.events]
    seen: set[str] = set()
    for log in logs:
        mark = repr((log.time, log.event_name, log.body, log.attributes))
        if mark not in seen:
            seen.add(mark)
            told.append(Told(log.event_name, log.time, log.attributes, log.body))
    if logs:
        told.sort(key=_place)
    return told


_ORDER = {
    "gen_ai.system.message": 0,
    "gen_ai.user.message": 1,
    "gen_ai.choice": 9,
}


def _place(told: Told) -> tuple[float, int, str]:
    """By time; what happened at the same time by its stated index, else in a fixed order."""
    index = told.attributes.get("CHAT_MESSAGE_INDEX")
    rank = index if type(index) is int else _ORDER.get(told.name, 5)
    return (told.time, rank, repr(told.body) if told.body is not None else repr(told.attributes))
