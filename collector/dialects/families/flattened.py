"""Layouts that flatten lists into numbered keys: OpenInference, and the older OpenLLMetry.

llm.input_messages.0.message.content     gen_ai.prompt.0.content
retrieval.documents.0.document.id        llm.request.functions.0.name
"""

from __future__ import annotations

from typing import Any

from collector.dialects.documents import documents, joined
from collector.dialects.families.genai import evaluation, response_format
from collector.dialects.messages import conversation
from collector.dialects.said import Said
from collector.dialects.step import Step
from collector.dialects.tools import definitions
from collector.dialects.values import decoded, nested, plain

Groups = dict[str, dict[str, Any]]
"""Name of a flattened list to the rest of each key below it, and its value."""
GROUPS = frozenset(
    {
        "llm.input_messages",
        "llm.output_messages",
        "llm.prompts",
        "llm.choices",
        "llm.completions",
        "llm.tools",
        "message.tool_calls",
        "retrieval.documents",
        "reranker.output_documents",
        "gen_ai.prompt",
        "gen_ai.completion",
        "trace.evaluations",
        "trace.annotations",
        "session.evaluations",
        "session.annotations",
    }
)
HEADS = frozenset(
    {"llm", "message", "retrieval", "reranker", "trace", "session", "evaluations", "annotations"}
)
"""First words of the keys that may belong to a group."""
_FUNCTIONS = "llm.request.functions"
_CALLED_BY_ITSELF = "automatic_function_calling_history"
_JUDGED = frozenset(
    scope + judged
    for scope in ("", "trace.", "session.")
    for judged in ("evaluations", "annotations")
)


def grouped(keys: list[str], attributes: dict[str, Any]) -> Groups:
    """The flattened lists among `keys`."""
    groups: Groups = {}
    for key in keys:
        head, _, rest = key.partition(".")
        second, _, below = rest.partition(".")
        name = f"{head}.{second}"
        if name in GROUPS:
            rest = below
        elif key.startswith(_FUNCTIONS):
            name, rest = _FUNCTIONS, key[len(_FUNCTIONS) + 1 :]
        elif head in ("evaluations", "annotations"):
            name = head
        else:
            continue
        if rest:
            groups.setdefault(name, {})[rest] = attributes[key]
    return groups


def openinference(step: Step, groups: Groups) -> None:
    """Messages, documents, tools and judgements of an OpenInference span."""
    attributes = step.span.attributes
    if heard := nested(groups.get("llm.input_messages")):
        step.said_in = step.said_in or conversation([_message(item) for item in heard])
        step.mark("openinference")
    if spoken := nested(groups.get("llm.output_messages")):
        said = conversation([_message(item) for item in spoken], "assistant")
        step.said_out = step.said_out or said
        step.mark("openinference")
    if called := nested(groups.get("message.tool_calls")):
        step.said_out = [*_called(called, attributes.get("output.value")), *step.said_out]
    if not step.said_in:
        step.said_in = _completions(groups.get("llm.prompts"), "user")
    if not step.said_out:
        step.said_out = _completions(groups.get("llm.choices"), "assistant")
    if not step.definitions:
        step.definitions = definitions(nested(groups.get("llm.tools")))
    for name in ("reranker.output_documents", "retrieval.documents"):
        if found := documents(nested(groups.get(name))):
            step.documents = joined(found, documents(attributes.get("output.value")))
            step.kind = step.kind or "retriever"
            step.reranked = name.startswith("reranker")
            step.mark("openinference")
            break
    parameters = attributes.get("llm.invocation_parameters")
    if type(parameters) is str and _tells(parameters, step):
        _parameters(decoded(parameters), step)
    variables = attributes.get("llm.prompt_template.variables")
    if variables is not None and type(held := decoded(variables)) is dict:
        step.variables = {key: text for key, text in held.items() if type(text) is str}
    for name in sorted(_JUDGED & groups.keys()):
        single = name.rpartition(".")[2].removesuffix("s")
        for item in nested(groups[name]):
            judged = item.get(single, item) if type(item) is dict else None
            if type(judged) is dict:
                step.feedback.append(evaluation(judged, ""))


def _called(called: list[Any], output: Any) -> list[Said]:
    """The calls that Google's SDK made by itself before the answer, with their results where the
    whole response tells of them."""
    response = decoded(output) if type(output) is str and _CALLED_BY_ITSELF in output else None
    if type(response) is dict:
        said = conversation(response.get(_CALLED_BY_ITSELF))
        acts = [one for one in said if one.calls or one.role == "tool"]
        for one in acts:
            if type(one.result) is dict and set(one.result) == {"result"}:
                one.result = one.result["result"]  # the SDK's own wrapping
        if acts:
            return acts
    return conversation({"tool_calls": called}, "assistant")


def tool(step: Step) -> None:
    """The name, id and definition of the tool that an OpenInference span ran."""
    attributes = step.span.attributes
    step.tool = step.tool or plain(attributes.get("tool.name"))
    step.tool_id = step.tool_id or plain(attributes.get("tool.id"))
    schema = decoded(attributes.get("tool.parameters"))
    if type(schema) is dict and "properties" in schema:  # some write the arguments there
        described = attributes.get("tool.description")
        told = {"name": step.tool, "description": described, "parameters": schema}
        step.definitions = step.definitions or definitions([told])


def _message(item: Any) -> Any:
    """One message without its numbered wrappers."""
    message = item.get("message", item) if type(item) is dict else item
    if type(message) is not dict:
        return message
    out = dict(message)
    parts = out.pop("contents", None)
    if type(parts) is list:
        # The same text may stand in `content` and in `contents`.
        spoken = out.pop("content", None)
        bare = [part for part in parts if type(part) is dict]
        out["parts"] = [_part(part) for part in bare] or spoken
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


def _part(part: dict[str, Any]) -> Any:
    """One of a message's contents. A tool call stands beside the content that names its type."""
    if type(part.get("tool_call")) is dict:
        return {"tool_call": part["tool_call"]}
    content = part.get("message_content", part)
    if type(content) is dict and type(content.get("image")) is dict:
        return {**content, "image": content["image"].get("image", content["image"])}
    return content


def _completions(flat: dict[str, Any] | None, role: str) -> list[Said]:
    """Prompts or answers of a completions call, which has no messages."""
    said: list[Said] = []
    for item in nested(flat):
        inner = item.get("prompt", item.get("completion", item)) if type(item) is dict else item
        said += conversation(inner, role)
    return said


def _tells(parameters: str, step: Step) -> bool:
    """Whether the parameters of a call hold more than numbers."""
    return (
        step.model is None
        or "format" in parameters
        or (not step.definitions and ('"tools"' in parameters or '"functions"' in parameters))
    )


def _parameters(parameters: Any, step: Step) -> None:
    """The model, the tools and the response format that a call asked for."""
    if type(parameters) is not dict:
        return
    if not step.definitions:
        step.definitions = definitions(parameters.get("tools") or parameters.get("functions"))
    step.model = step.model or plain(parameters.get("model") or parameters.get("model_name"))
    if step.response_format is not None:
        return
    declared = parameters.get("response_format")
    if declared is None and type(parameters.get("text")) is dict:
        declared = parameters["text"].get("format")
    if declared is None:
        declared = parameters.get("response_schema", parameters.get("response_mime_type"))
    step.response_format = response_format(declared)


def indexed(step: Step, groups: Groups) -> None:
    """`gen_ai.prompt.N.*` and `gen_ai.completion.N.*` of the older OpenLLMetry, and of litellm."""
    asked_list = nested(groups.get("gen_ai.prompt"))
    said_list = nested(groups.get("gen_ai.completion")) or nested(groups.get("llm.completions"))
    if asked_list and not step.said_in:
        step.said_in = conversation([m for m in asked_list if _speaks(m)])
        if step.said_in:
            step.mark("indexed")
    if said_list:
        said = conversation([m for m in said_list if _speaks(m)], "assistant")
        if not (said or step.finish) and step.said_in:
            step.finish = "tool_calls"  # of an answer that only asks for tools some write the role
        if not step.said_out:
            step.said_out = said
        elif not any(one.calls for one in step.said_out):
            # Calls may stand here alone, beside messages that lost them.
            calls = tuple(call for one in said for call in one.calls)
            if calls:
                step.said_out[-1].calls = calls
        step.mark("indexed")
    if not step.definitions:
        step.definitions = definitions(nested(groups.get(_FUNCTIONS)))


def _speaks(message: Any) -> bool:
    if type(message) is not dict:
        return False
    calls = message.get("tool_calls")
    if type(calls) is dict:
        message["tool_calls"] = list(calls.values())
    return any(key in message for key in ("content", "tool_calls", "function_call", "parts"))
