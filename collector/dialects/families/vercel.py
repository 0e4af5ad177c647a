"""The Vercel AI SDK's own keys, `ai.*`: versions 4 to 6, and 7 in its legacy mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.dialects.exchange import taken
from collector.dialects.messages import conversation
from collector.dialects.parts import result_value, tool_call
from collector.dialects.said import Said
from collector.dialects.step import Step
from collector.dialects.tools import definitions
from collector.dialects.values import decoded, first, plain


def read(step: Step) -> None:
    """Read an `ai.*` span: a call's wrapper, a model call, or a tool."""
    attributes = step.span.attributes
    if step.kind == "tool":
        _tool(attributes, step)
        return
    if not step.said_in:
        if (value := attributes.get("ai.prompt.messages")) is not None:
            step.said_in = conversation(value)
        elif (value := attributes.get("ai.prompt")) is not None:
            _prompt(decoded(value), step)
        if step.said_in:
            step.mark("vercel")
    if not step.said_out:
        _response(attributes, step)
    if not step.definitions and (tools := attributes.get("ai.prompt.tools")) is not None:
        step.definitions = definitions(tools)
    if step.response_format is None and (schema := attributes.get("ai.schema")) is not None:
        step.response_format = {"type": "json_schema", "schema": decoded(schema)}
    elif step.response_format is None and attributes.get("ai.settings.output") == "object":
        step.response_format = {"type": "json_object"}


def _prompt(value: Any, step: Step) -> None:
    """The call's own arguments: `system` with `prompt` or `messages`."""
    if type(value) is not dict:
        taken(value, step, "vercel")
        return
    step.system = step.system or plain(value.get("system"))
    asked = value.get("messages", value.get("prompt"))
    step.said_in = conversation(asked)


def _response(attributes: Mapping[str, Any], step: Step) -> None:
    text = first(attributes, ("ai.response.text", "ai.result.text"))
    if text is None:
        text = first(attributes, ("ai.response.object", "ai.result.object"))
    calls = decoded(first(attributes, ("ai.response.toolCalls", "ai.result.toolCalls")))
    asked = calls if type(calls) is list else []
    if text is None and "ai.response.text" in attributes and not asked:
        text = attributes["ai.response.text"]
    if type(text) is not str and not asked:
        return
    step.said_out = [
        Said(
            "assistant",
            text if type(text) is str else None,
            calls=tuple(tool_call(call) for call in asked if type(call) is dict),
            finish=step.finish,
        )
    ]
    step.mark("vercel")


def _tool(attributes: Mapping[str, Any], step: Step) -> None:
    step.tool = step.tool or plain(attributes.get("ai.toolCall.name"))
    step.tool_id = step.tool_id or plain(attributes.get("ai.toolCall.id"))
    if step.arguments is None:
        step.arguments = decoded(attributes.get("ai.toolCall.args"))
    if step.result is None:
        step.result = result_value(attributes.get("ai.toolCall.result"))
    if step.tool:
        step.mark("vercel")
