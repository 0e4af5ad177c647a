"""autogen teams: messages between agents, as JSON on the spans that process them."""

from __future__ import annotations

from typing import Any

from collector.dialects import facts
from collector.dialects.parts import tool_call, tool_result
from collector.dialects.said import Said
from collector.dialects.step import Step
from collector.dialects.values import decoded


def read(step: Step) -> None:
    """Read the message that an agent or the team's manager processed.

    A start carries the user's task; a response carries the answer with the tool calls before it.
    Messages published on the way repeat what the response holds, and are left alone.
    """
    message = decoded(step.span.attributes.get("message"))
    if type(message) is not dict:
        return
    response = message.get("response")
    if type(response) is dict and type(response.get("chat_message")) is dict:
        inner = response.get("inner_messages")
        for item in inner if type(inner) is list else ():
            step.said_out += _said(item, step)
        step.said_out += _said(response["chat_message"], step)
        step.kind = "agent"
        step.mark("autogen")
    elif type(messages := message.get("messages")) is list:
        for item in messages:
            step.said_in += _said(item, step)


def _said(item: Any, step: Step) -> list[Said]:
    if type(item) is not dict:
        return []
    if type(item.get("models_usage")) is dict:
        spent = Step(step.span)
        facts.used(item["models_usage"], spent)
        step.input_tokens = (step.input_tokens or 0) + (spent.input_tokens or 0)
        step.output_tokens = (step.output_tokens or 0) + (spent.output_tokens or 0)
    content = item.get("content")
    if item.get("type") == "ToolCallRequestEvent" and type(content) is list:
        calls = tuple(tool_call(call) for call in content if type(call) is dict)
        return [Said("assistant", calls=calls)]
    if item.get("type") == "ToolCallExecutionEvent" and type(content) is list:
        return [tool_result(part) for part in content if type(part) is dict]
    role = "user" if item.get("source") == "user" else "assistant"
    return [Said(role, content)] if type(content) is str else []
