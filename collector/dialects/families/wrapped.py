"""Families that put a whole value under one key for the input and one for the output.

A row names the layout and its keys. What the value means depends on the kind of the span, its shape
is anybody's: `exchange` reads it.
"""

from __future__ import annotations

from typing import NamedTuple

from collector.dialects.exchange import given, taken
from collector.dialects.step import Kind, Step
from collector.dialects.values import first


class Family(NamedTuple):
    """One row: where a layout keeps what went in and what came out."""

    layout: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kind: Kind = ""
    """What spans with these keys are when they do not say so."""


FAMILIES = (
    Family("langfuse", ("langfuse.observation.input",), ("langfuse.observation.output",), "chain"),
    Family("mlflow", ("mlflow.spanInputs",), ("mlflow.spanOutputs",), "chain"),
    Family(
        "traceloop",
        ("traceloop.entity.input", "gen_ai.task.input"),
        ("traceloop.entity.output", "gen_ai.task.output"),
        "chain",
    ),
    Family(
        "openinference", ("input.value", "crew_inputs", "crew_tasks"), ("output.value",), "chain"
    ),
    Family("langsmith", ("gen_ai.prompt",), ("gen_ai.completion",), "chain"),
    Family(
        "litellm",
        ("llm.openai.messages", "llm.anthropic.messages", "llm.request.messages"),
        ("llm.openai.choices", "llm.anthropic.content", "llm.response.choices"),
        "model",
    ),
    Family(
        "haystack",
        ("haystack.component.input",),
        ("haystack.component.output",),
        "other",
    ),
    Family(
        "haystack",
        ("haystack.pipeline.input_data", "haystack.agent.input"),
        ("haystack.pipeline.output_data", "haystack.agent.output"),
        "agent",
    ),
    Family(
        "adk", ("gcp.vertex.agent.tool_call_args",), ("gcp.vertex.agent.tool_response",), "tool"
    ),
    Family("adk", ("gcp.vertex.agent.llm_request",), ("gcp.vertex.agent.llm_response",), "model"),
    Family("laminar", ("lmnr.span.input",), ("lmnr.span.output",), "chain"),
    Family("langwatch", ("langwatch.input",), ("langwatch.output",), "chain"),
    Family("livekit", ("lk.function_tool.arguments",), ("lk.function_tool.output",), "tool"),
    Family("livekit", ("lk.chat_ctx",), ("lk.response.text",), "model"),
    Family("livekit", ("lk.user_input", "lk.user_transcript"), (), "agent"),
    Family("genkit", ("genkit:input",), ("genkit:output",), "chain"),
    Family("logfire", ("request_data",), ("response_data",), "model"),
)
GENERIC = Family(
    "generic",
    (
        "input",
        "inputs",
        "question",
        "query",
        "user_input",
        "prompt",
        "llm.input",
        "llm.prompt",
        "ai.input",
        "app.input",
        "request.body",
        "user.message",
        "input.text",
        "chat.input",
    ),
    (
        "llm.generated_message",
        "output",
        "outputs",
        "answer",
        "response",
        "completion",
        "llm.output",
        "llm.completion",
        "llm.response",
        "ai.output",
        "app.output",
        "response.body",
        "assistant.message",
        "output.text",
        "chat.output",
        "final_result",
    ),
    "chain",
)
_HAYSTACK: tuple[tuple[str, Kind], ...] = (
    ("Generator", "model"),
    ("Retriever", "retriever"),
    ("Ranker", "retriever"),
    ("Embedder", "embedding"),
    ("WebSearch", "retriever"),
    ("ToolInvoker", "chain"),
    ("Agent", "agent"),
)


_ALL = (*FAMILIES, GENERIC)
ROWS: dict[str, int] = {
    key: row for row, family in enumerate(_ALL) for key in (*family.inputs, *family.outputs)
}
"""Every key that a row names, and the number of the row."""
_LAST = len(FAMILIES)


def read(step: Step, rows: list[int]) -> None:
    """Read the rows of which a span has keys, in order; the generic one only when no layout gave
    anything."""
    attributes = step.span.attributes
    for row in rows:
        if row == _LAST and (step.layouts or step.kind == "other"):
            break
        family = _ALL[row]
        asked, said = first(attributes, family.inputs), first(attributes, family.outputs)
        if asked in (None, "{}") and said in (None, "{}"):  # ADK puts these on tool spans
            continue
        if not step.kind and (row != _LAST or (asked is not None and said is not None)):
            named = family.layout == "langsmith" and (step.model or step.response_model)
            step.kind = "model" if named else family.kind
        component = attributes.get("haystack.component.type")
        if type(component) is str and step.kind == "other":
            step.kind = next((kind for end, kind in _HAYSTACK if component.endswith(end)), "other")
        if step.kind == "other":
            continue
        if step.kind == "model" and step.model is None and "genkit:name" in attributes:
            provider, _, step.model = str(attributes["genkit:name"]).partition("/")
            step.provider = step.provider or provider
        taken(asked, step, family.layout)
        given(said, step, family.layout)
    if step.kind == "tool" and step.tool is None:
        step.tool = tool_name(step)


_TOOL_NAMES = (
    "gen_ai.tool.name",
    "tool.name",
    "traceloop.entity.name",
    "ai.toolCall.name",
    "lk.function_tool.name",
    "haystack.tool.name",
)


def tool_name(step: Step) -> str:
    """The name of the tool that a span ran, from any key, else from the name of the span."""
    name = step.span.name
    if name.endswith(".tool"):  # OpenLLMetry's; its keys may hold the path of the tool
        return name.removesuffix(".tool")
    named = first(step.span.attributes, _TOOL_NAMES)
    if type(named) is str:
        return named
    for prefix in ("execute_tool ", "running tool: ", "tool "):
        name = name.removeprefix(prefix)
    return name
