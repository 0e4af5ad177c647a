"""autogen teams: messages between agents, as JSON on the spans that process them."""

from __future__ import annotations

import re
from typing import Any

from collector.dialects import facts
from collector.dialects.messages import conversation
from collector.dialects.said import Said
from collector.dialects.step import Step
from collector.dialects.values import decoded

_KEY = re.compile(r"\.\((?P<key>[^()]+)\)-[AT]\Z")
"""The end of a destination: `type.(key)-A` for an agent, `type.(source)-T` for a topic."""


def read(step: Step) -> None:
    """Read the message that an agent or the team's manager processed, and the conversation: the
    key by which the runtime keeps one instance of each agent, a team's id or the app's session.

    A start carries the user's task; a response carries the answer with the tool calls before it.
    Messages published on the way repeat what the response holds, and are left alone.
    """
    kept = _KEY.search(str(step.span.attributes.get("messaging.destination", "")))
    if kept and kept["key"] != "default":
        step.conversation = step.conversation or kept["key"]
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
    return conversation(item, "assistant")
