"""Whole requests and responses of model calls, tools and apps, as values of any shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from collector.dialects import facts
from collector.dialects.documents import documents, looks_retrieved
from collector.dialects.families.genai import prompt, response_format, system_text
from collector.dialects.finish import finish_reason
from collector.dialects.messages import conversation
from collector.dialects.parts import result_value, tool_arguments
from collector.dialects.speech import answered, asked
from collector.dialects.step import Step
from collector.dialects.tools import definitions, is_definition
from collector.dialects.values import decoded, dumped, hidden, plain

_ID = re.compile(r'\s*\{\s*"id"\s*:\s*"([^"\\]{1,200})"')
_SYSTEM = ("instructions", "system", "system_instruction", "systemInstruction", "system_prompt")


def taken(value: Any, step: Step, layout: str) -> None:
    """What a span of any kind was given."""
    flattened = step.kind == "model" and step.said_in and layout == "openinference"
    if flattened and not _offers(value, step):
        return  # the flattened keys hold all of the request that a turn has
    value = _untyped(decoded(value))
    if _absent(value):
        return
    if step.kind == "model":
        _request(value, step, layout)
    elif step.kind == "tool":
        if step.arguments is None:
            step.arguments, called = tool_arguments(value)
            step.tool_id = step.tool_id or called
            step.mark(layout)
    elif step.kind == "retriever":
        said = asked(value)
        if said and step.sought is None:
            step.sought = said[-1].text
            step.mark(layout)
    elif step.kind != "embedding" and not step.said_in:
        if type(value) is dict:
            _told_whose(value, step)
        step.said_in = asked(value)
        if step.said_in:
            step.mark(layout)
        elif step.kind == "chain" and looks_retrieved(value):
            step.documents = step.documents or documents(value)


def _offers(value: Any, step: Step) -> bool:
    """Whether a request holds definitions of tools that stand nowhere else."""
    return not step.definitions and type(value) is str and '"tools"' in value


def _told_whose(value: Mapping[str, Any], step: Step) -> None:
    """The session among an app function's arguments, or in a callback's metadata."""
    for held in (value, value.get("kwargs"), value.get("metadata")):
        if type(held) is dict:
            facts.whose(held, step)


def given(value: Any, step: Step, layout: str) -> None:
    """What a span of any kind gave back."""
    if layout == "openinference" and step.said_out and step.finish and _counted(step):
        # All but the response's id stands in flattened keys: the whole need not be parsed.
        named = _ID.match(value) if type(value) is str else None
        step.response_id = step.response_id or (named[1] if named else None)
        return
    value = _untyped(decoded(value))
    if _absent(value):
        return
    if step.kind == "model":
        _response(value, step, layout)
    elif step.kind == "tool":
        if step.result is None:
            step.result = result_value(value)
            step.mark(layout)
    elif step.kind == "retriever" or (step.kind == "chain" and looks_retrieved(value)):
        if found := documents(value):
            step.kind = "retriever"
            step.documents = step.documents or found
            said = step.question()
            step.sought = step.sought or (said.text if said else None)
            step.mark(layout)
    elif step.kind != "embedding" and not step.said_out:
        step.said_out = answered(value)
        if step.said_out:
            step.mark(layout)
        elif value not in ({}, []):
            step.rest = dumped(value)


def _counted(step: Step) -> bool:
    return step.kind == "model" and step.input_tokens is not None


def _untyped(value: Any) -> Any:
    """A value without LangWatch's word for its type."""
    return value["value"] if type(value) is dict and value.keys() == {"type", "value"} else value


def _absent(value: Any) -> bool:
    return value is None or value == "" or (type(value) is str and hidden(value))


def _request(value: Any, step: Step, layout: str) -> None:
    if type(value) is dict:
        _asked_with(value, step)
    elif type(value) is list:
        value = _without_definitions(value, step)
    if step.said_in:
        return
    if type(value) is dict:
        step.said_in = conversation(value)
        if not step.said_in:
            for key in ("prompt", "prompts", "input"):
                if value.get(key):
                    step.said_in = prompt(value[key])
                    break
            else:
                step.said_in = asked(value)
    else:
        step.said_in = prompt(value)
    if step.said_in:
        step.mark(layout)


def _without_definitions(messages: list[Any], step: Step) -> list[Any]:
    """The messages but for the tools that Langfuse's callback for LangChain puts among them, each
    as what a tool says."""
    offered = [
        message["content"]
        for message in messages
        if type(message) is dict and is_definition(message.get("content"))
    ]
    if not offered:
        return messages
    step.definitions = step.definitions or definitions(offered)
    return [m for m in messages if type(m) is not dict or not is_definition(m.get("content"))]


def _asked_with(request: Mapping[str, Any], step: Step) -> None:
    """What a request carries beside its messages."""
    config = request.get("config")
    for source in (request, config if type(config) is dict else {}):
        if step.system is None:
            for key in _SYSTEM:
                if source.get(key):
                    step.system = system_text(source[key])
                    break
        if not step.definitions and source.get("tools"):
            step.definitions = definitions(source["tools"])
        if step.response_format is None:
            declared = source.get("response_format")
            if declared is None and type(text := source.get("text")) is dict:
                declared = text.get("format")
            if declared is None:
                declared = source.get("response_mime_type", source.get("responseMimeType"))
            if declared is not None:
                step.response_format = response_format(declared)
        if step.model is None:
            step.model = plain(source.get("model"))


def _response(value: Any, step: Step, layout: str) -> None:
    if type(value) is dict:
        _answered_with(value, step)
    if step.said_out:
        return
    step.said_out = conversation(value, "assistant") or answered(value)
    if step.said_out:
        step.mark(layout)


def _answered_with(response: Mapping[str, Any], step: Step) -> None:
    """What a response carries beside its messages."""
    inner = response.get("message")
    sources: list[Any] = [response, response.get("llm_output"), response.get("meta")]
    sources.append(response.get("raw"))
    if type(inner) is dict:
        sources += [inner, inner.get("usage_metadata")]
    first = _first_reply(response)
    sources += [first, first.get("generation_info"), first.get("meta")]
    message = first.get("message")
    if type(message) is dict:
        held = message.get("kwargs", message)
        if type(held) is dict:
            sources += [held, held.get("response_metadata")]
    for source in sources:
        if type(source) is not dict:
            continue
        for key in ("usage", "usage_metadata", "usageMetadata", "token_usage", "usage_details"):
            if type(source.get(key)) is dict:
                facts.used(source[key], step)
        if step.finish is None:
            step.finish = finish_reason(
                source.get("finish_reason")
                or source.get("stop_reason")
                or source.get("finishReason")
                or source.get("stopReason")
            )
        if step.response_model is None:
            step.response_model = plain(source.get("model") or source.get("model_name"))
    if step.response_id is None:
        step.response_id = plain(response.get("id") or response.get("responseId"))


def _first_reply(response: Mapping[str, Any]) -> dict[str, Any]:
    for key in ("choices", "generations", "replies", "candidates"):
        value = response.get(key)
        while type(value) is list and value:
            value = value[0]
        if type(value) is dict:
            return value
    return {}
