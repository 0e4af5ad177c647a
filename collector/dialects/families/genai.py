"""The OpenTelemetry GenAI conventions: structured attributes, and events of every generation.

Content stands in span attributes (JSON text or native arrays), in one details event or log record
per call, in one event or record per message, or in the two oldest events with a whole prompt. A
span that has attributes is read from those; events fill what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from assay.records import Feedback
from collector.dialects import facts
from collector.dialects.documents import document, documents
from collector.dialects.finish import finish_reason
from collector.dialects.messages import conversation
from collector.dialects.parts import result_value, tool_arguments
from collector.dialects.said import ROLES, Said
from collector.dialects.speech import answered
from collector.dialects.step import Step, Told
from collector.dialects.tools import definitions
from collector.dialects.values import decoded, dumped, first, number, plain

_DETAILS = "gen_ai.client.inference.operation.details"
_FOUND = ("db.query.result", "db.search.result")
_INPUT = ("gen_ai.input.messages", "gen_ai.input_messages", "gen_ai.request.messages")
_OUTPUT = ("gen_ai.output.messages", "gen_ai.output_messages", "gen_ai.response.messages")
_DEFINITIONS = (
    "gen_ai.tool.definitions",
    "mlflow.chat.tools",
    "model_request_parameters",
    "haystack.agent.tools",
    "langwatch.params",
)
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.args",
    "gen_ai.tool.arguments",
    "tool_arguments",
    "spring.ai.tool.call.arguments",
    "tool.arguments",
)
_RESULT = (
    "gen_ai.tool.call.result",
    "gen_ai.tool.output",
    "gen_ai.tool.result",
    "tool_response",
    "spring.ai.tool.call.result",
)
_SCHEMA = ("gen_ai.tool.json_schema", "spring.ai.tool.definition.schema")
_MESSAGE_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_TRANSCRIPT = re.compile(
    r"^[ \t]*(?P<role>system|user|human|assistant|ai|tool):[ \t]*", re.I | re.M
)
_FORMATS = ("gen_ai.openai.request.response_format", "openai.request.response_format")


def read(step: Step, told: list[Told]) -> None:
    """Read what a span says by these conventions."""
    attributes = step.span.attributes
    structured(attributes, step, "genai")
    if step.kind in ("tool", "") and step.tool is None:
        _tool(attributes, step)
    if step.kind in ("retriever", ""):
        _retrieval(attributes, step)
    if told:
        events(step, told)


def structured(attributes: Mapping[str, Any], step: Step, layout: str) -> None:
    """The attributes that one call has in the newest convention, on a span, event or record."""
    if not step.said_in and (value := first(attributes, _INPUT)) is not None:
        step.said_in = conversation(value)
        if step.said_in:
            step.mark(layout)
    if not step.said_out and (value := first(attributes, _OUTPUT)) is not None:
        step.said_out = conversation(value, "assistant")
        if step.said_out:
            step.mark(layout)
    if (value := attributes.get("gen_ai.response.tool_calls")) and not step.said_out:
        step.said_out = conversation({"tool_calls": decoded(value)}, "assistant")
    if step.system is None:
        value = attributes.get("gen_ai.system_instructions")
        if value:
            step.system = system_text(value)
    if not step.definitions and (value := first(attributes, _DEFINITIONS)) is not None:
        step.definitions = definitions(value)
    if step.response_format is None:
        named = first(attributes, _FORMATS) or attributes.get("gen_ai.output.type")
        if named not in (None, "text", "image", "speech"):
            step.response_format = response_format(named)


def system_text(value: Any) -> str | None:
    """System instructions out of a text, a list of parts, or messages."""
    texts = [said.text for said in conversation(value, "system") if said.text]
    return "\n".join(texts) or None


def response_format(value: Any) -> Any:
    """A declared response format as an object; None for plain text."""
    value = decoded(value)
    if type(value) is str:
        word = value.lower()
        if word in ("json", "json_object", "application/json", "object"):
            return {"type": "json_object"}
        return {"type": word} if word == "json_schema" else None
    if type(value) is dict and value.get("type") not in (None, "text"):
        return value
    return None


def _tool(attributes: Mapping[str, Any], step: Step) -> None:
    named = first(attributes, ("gen_ai.tool.name", "spring.ai.tool.definition.name"))
    if named is None and step.kind != "tool":
        return
    step.tool = plain(named)
    step.tool_id = plain(attributes.get("gen_ai.tool.call.id"))
    step.arguments, called = tool_arguments(first(attributes, _ARGUMENTS))
    step.tool_id = step.tool_id or called
    step.result = result_value(first(attributes, _RESULT))
    schema = first(attributes, _SCHEMA)
    if schema is not None and not step.definitions:
        described = attributes.get("gen_ai.tool.description")
        told = {"name": step.tool, "description": described, "parameters": schema}
        step.definitions = definitions([told])
    if step.tool and (step.arguments is not None or step.result is not None):
        step.mark("genai")


def _retrieval(attributes: Mapping[str, Any], step: Step) -> None:
    value = attributes.get("gen_ai.retrieval.documents")
    if value is None:
        value = first(
            attributes,
            (
                "db.vector.query.response.documents",
                "spring.ai.vectorstore.query.response.documents",
                "langwatch.contexts",
                "langwatch.rag_contexts",
            ),
        )
    sought = first(attributes, ("gen_ai.retrieval.query.text", "db.vector.query.content"))
    if value is None and sought is None:
        return
    step.kind = "retriever"
    if not step.documents:
        step.documents = documents(value)
    step.sought = step.sought or plain(sought)
    step.mark("genai")


def events(step: Step, told: list[Told]) -> None:
    """Fill `step` from its span events and log records, which stand in order of time.

    A message is the body of a record, or attributes of an event, or (in Azure's SDKs) JSON in one
    attribute.
    """
    heard: list[Said] = []
    spoken: list[Said] = []
    tools = step.kind == "tool"
    for event in told:
        name = event.name
        if event.body is None and "gen_ai.event.content" in event.attributes:
            event = Told(
                name,
                event.time,
                event.attributes,
                decoded(event.attributes["gen_ai.event.content"]),
            )
        if name == _DETAILS:
            _details(event, step, tools)
        elif name in _MESSAGE_ROLES:
            if tools and name == "gen_ai.tool.message":
                step.arguments = step.arguments or decoded(event.attributes.get("content"))
            else:
                heard += _said(event, _MESSAGE_ROLES[name])
        elif name == "gen_ai.choice":
            if tools:
                step.result = step.result or result_value(event.attributes.get("message"))
            else:
                spoken += _choice(event)
        elif name == "gen_ai.content.prompt":
            heard += prompt(event.attributes.get("gen_ai.prompt", event.body))
        elif name == "gen_ai.content.completion":
            value = event.attributes.get("gen_ai.completion", event.body)
            spoken += answered(None if value == "None" else value)
        elif name == "gen_ai.evaluation.result":
            step.feedback.append(evaluation(event.attributes))
        elif name in _FOUND:
            _found(event.attributes, step)
    if heard and not step.said_in:
        step.said_in = heard
        step.mark("genai-events")
    if spoken and not step.said_out:
        step.said_out = spoken
        step.mark("genai-events")


def _details(event: Told, step: Step, tools: bool) -> None:
    attributes = event.attributes
    if type(event.body) is dict:
        attributes = {**event.body, **attributes}
    if not tools:
        structured(attributes, step, "genai-events")
    facts.fill(step, facts.scan(attributes)[0])


def _found(attributes: Mapping[str, Any], step: Step) -> None:
    """One hit of a vector database, as OpenLLMetry writes them."""
    hit = document({key.rpartition(".result.")[2]: value for key, value in attributes.items()})
    if hit is not None:
        step.kind = step.kind or "retriever"
        step.documents.append(hit)
        step.mark("traceloop")


def _said(event: Told, role: str) -> list[Said]:
    body = decoded(event.body)
    if type(body) is dict:
        return conversation({"role": role, **body}, role)
    if type(body) is str and "content" not in event.attributes:
        return [Said(role, body)]
    attributes = event.attributes
    if not ("content" in attributes or "tool_calls" in attributes or "id" in attributes):
        return []
    said = {key: attributes.get(key) for key in ("content", "tool_calls", "id", "name")}
    if type(said["content"]) is str:
        said["content"] = _blocks(said["content"])
    return conversation({"role": attributes.get("role", role), **said}, role)


def _blocks(content: str) -> Any:
    """Message blocks that were dumped as JSON; the text itself when it is no list of them."""
    value = decoded(content)
    return value if type(value) is list and value and type(value[0]) is dict else content


def _choice(event: Told) -> list[Said]:
    choice = decoded(event.body)
    if type(choice) is not dict:
        choice = event.attributes
    message = decoded(choice.get("message", choice.get("content")))
    if type(message) is dict:
        said = conversation({"role": "assistant", **message}, "assistant")
    elif message is None and "tool_calls" in choice:
        said = conversation({"role": "assistant", "tool_calls": choice["tool_calls"]}, "assistant")
    else:
        said = conversation(message, "assistant")
    finish = finish_reason(choice.get("finish_reason"))
    if said and finish:
        said[-1].finish = finish
    return said


def prompt(value: Any) -> list[Said]:
    """A whole prompt: messages in JSON, or a transcript whose paragraphs begin with roles."""
    value = decoded(value)
    if type(value) is not str:
        return conversation(value)
    marks = list(_TRANSCRIPT.finditer(value))
    if not marks or value[: marks[0].start()].strip():
        return [Said("user", value)]
    ends = [mark.start() for mark in marks[1:]] + [len(value)]
    return [
        Said(ROLES[mark["role"].lower()], value[mark.end() : end].strip())
        for mark, end in zip(marks, ends, strict=True)
    ]


def evaluation(attributes: Mapping[str, Any], prefix: str = "gen_ai.evaluation.") -> Feedback:
    """A judgement that came with the trace, by the names of the convention."""
    comment = attributes.get(f"{prefix}explanation")
    return Feedback(
        name=plain(attributes.get(f"{prefix}name")) or "feedback",
        value=number(
            first(attributes, (f"{prefix}score.value", f"{prefix}score", f"{prefix}value"))
        ),
        label=plain(first(attributes, (f"{prefix}score.label", f"{prefix}label"))),
        comment=dumped(comment) if comment is not None else None,
    )
