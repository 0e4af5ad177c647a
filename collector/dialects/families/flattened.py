"""Layouts that flatten lists into numbered keys: OpenInference, and the older OpenLLMetry.

llm.input_messages.0.message.content     gen_ai.prompt.0.content
retrieval.documents.0.document.id        llm.request.functions.0.name
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.dialects.documents import documents, joined
from collector.dialects.families.genai import evaluation, response_format
from collector.dialects.messages import conversation
from collector.dialects.said import Said
from collector.dialects.step import Step
from collector.dialects.tools import definitions
from collector.dialects.values import decoded, nested, plain

_DOCUMENTS = ("retrieval.documents.", "reranker.output_documents.")
_JUDGED = ("evaluations.", "annotations.")


def openinference(step: Step) -> None:
    """Messages, documents, tools and judgements of an OpenInference span."""
    attributes = step.span.attributes
    for prefix, role in (("llm.input_messages.", "user"), ("llm.output_messages.", "assistant")):
        heads = nested(attributes, prefix)
        if not heads:
            continue
        said = conversation([_message(item) for item in heads], role)
        if role == "user" and not step.said_in:
            step.said_in = said
        elif role == "assistant" and not step.said_out:
            step.said_out = said
        step.mark("openinference")
    for kind in ("llm.prompts.", "llm.choices."):
        texts = nested(attributes, kind)
        if texts:
            _completions(step, texts, asked_for=kind == "llm.prompts.")
    if not step.definitions:
        step.definitions = definitions(nested(attributes, "llm.tools."))
    for prefix in _DOCUMENTS:
        if found := documents(nested(attributes, prefix)):
            told = documents(attributes.get("output.value"))
            step.documents = joined(found, told)
            step.kind = step.kind or "retriever"
            step.reranked = prefix.startswith("reranker.")
            step.mark("openinference")
            break
    parameters = attributes.get("llm.invocation_parameters")
    if type(parameters) is str and "format" in parameters:
        _format(decoded(parameters), step)
    variables = attributes.get("llm.prompt_template.variables")
    if variables is not None and type(held := decoded(variables)) is dict:
        step.variables = {key: text for key, text in held.items() if type(text) is str}
    if step.kind == "tool":
        step.tool = plain(attributes.get("tool.name")) or step.tool or step.span.name
        step.tool_id = plain(attributes.get("tool.id")) or step.tool_id
    _judgements(attributes, step)


def _message(item: Any) -> Any:
    """One message without its numbered wrappers."""
    message = item.get("message", item) if type(item) is dict else item
    if type(message) is not dict:
        return message
    out = dict(message)
    parts = message.get("contents")
    if type(parts) is list:
        # The same text may stand in `content` and in `contents`.
        spoken = out.pop("content", None)
        bare = [part for part in parts if type(part) is dict]
        out["parts"] = [_media(part.get("message_content", part)) for part in bare] or spoken
    calls = message.get("tool_calls")
    if type(calls) is list:
        out["tool_calls"] = [call for call in calls if type(call) is dict]
    elif "function_call_name" in message:
        out["tool_calls"] = [
            {
                "name": message["function_call_name"],
                "arguments": message.get("function_call_arguments_json"),
            }
        ]
    return out


def _media(part: Any) -> Any:
    if type(part) is dict and type(part.get("image")) is dict:
        return {**part, "image": part["image"].get("image", part["image"])}
    return part


def _completions(step: Step, texts: list[Any], *, asked_for: bool) -> None:
    role = "user" if asked_for else "assistant"
    said: list[Said] = []
    for item in texts:
        inner = item.get("prompt", item.get("completion", item)) if type(item) is dict else item
        said += conversation(inner, role)
    if asked_for and not step.said_in:
        step.said_in = said
    elif not asked_for and not step.said_out:
        step.said_out = said


def _format(parameters: Any, step: Step) -> None:
    if type(parameters) is not dict or step.response_format is not None:
        return
    declared = parameters.get("response_format")
    if declared is None and type(parameters.get("text")) is dict:
        declared = parameters["text"].get("format")
    if declared is None:
        declared = parameters.get("response_schema", parameters.get("response_mime_type"))
    step.response_format = response_format(declared)


def _judgements(attributes: Mapping[str, Any], step: Step) -> None:
    for key in attributes:
        if key.endswith((".score", ".label")) and any(word in key for word in _JUDGED):
            break
    else:
        return
    for scope in ("", "trace.", "session."):
        for plural, single in (("evaluations.", "evaluation"), ("annotations.", "annotation")):
            for item in nested(attributes, scope + plural):
                judged = item.get(single, item) if type(item) is dict else None
                if type(judged) is dict:
                    step.feedback.append(evaluation(judged, ""))


def indexed(step: Step) -> None:
    """`gen_ai.prompt.N.*` and `gen_ai.completion.N.*` of the older OpenLLMetry, and of litellm."""
    attributes = step.span.attributes
    asked_list = nested(attributes, "gen_ai.prompt.") or nested(attributes, "llm.prompts.")
    said_list = nested(attributes, "gen_ai.completion.") or nested(attributes, "llm.completions.")
    if asked_list and not step.said_in:
        step.said_in = conversation([m for m in asked_list if _speaks(m)])
        if step.said_in:
            step.mark("indexed")
    if said_list:
        said = conversation([m for m in said_list if _speaks(m)], "assistant")
        if not step.said_out:
            step.said_out = said
        elif not any(one.calls for one in step.said_out):
            # Calls may stand here alone, beside messages that lost them.
            calls = tuple(call for one in said for call in one.calls)
            if calls:
                step.said_out[-1].calls = calls
        step.mark("indexed")
    if not step.definitions:
        step.definitions = definitions(nested(attributes, "llm.request.functions."))


def _speaks(message: Any) -> bool:
    if type(message) is not dict:
        return False
    calls = message.get("tool_calls")
    if type(calls) is dict:
        message["tool_calls"] = list(calls.values())
    return any(key in message for key in ("content", "tool_calls", "function_call", "parts"))
