"""The parts of one message, in every library's shape: texts, media, tool calls and tool results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from assay.records import ToolCall
from collector.dialects.media import placeholder, without_data
from collector.dialects.said import Said
from collector.dialects.values import decoded, dumped, hidden, plain, unescaped

CALL_TYPES = frozenset(
    {"tool_call", "tool_use", "tool-call", "function_call", "server_tool_use", "mcp_call"}
)
RESULT_TYPES = frozenset(
    {
        "tool_call_response",
        "tool_call_result",
        "tool_result",
        "tool-result",
        "tool-error",
        "tool_response",
        "function_response",
        "function_call_output",
    }
)
CALL_KEYS = ("toolUse", "tool_call", "functionCall", "function_call", "toolRequest")
RESULT_KEYS = (
    "toolResult",
    "tool_call_result",
    "functionResponse",
    "function_response",
    "toolResponse",
)
_TEXT_TYPES = frozenset({None, "text", "output_text", "input_text", "markdown"})
SILENT = frozenset(
    {
        "reasoning",
        "thinking",
        "redacted_thinking",
        "summary_text",
        "step-start",
        "ThoughtEvent",
    }
)
"""Types of parts that a model does not say to anybody."""
_SILENT_KEYS = ("reasoning", "reasoningContent", "thinking")
_MEDIA_KEYS = ("inline_data", "inlineData", "file_data", "fileData", "image", "document", "video")


class Parts(msgspec.Struct):
    """What one message holds, sorted by nature, each in its order."""

    texts: list[str] = []
    media: list[str] = []
    calls: list[ToolCall] = []
    results: list[Said] = []

    def add(self, content: Any) -> None:
        """Sort a content: a text, a part, or a list of these. What is unknown is left out."""
        if type(content) is str:
            if not hidden(content):
                self.texts.append(without_data(content))
        elif type(content) is list:
            for item in content:
                self.add(item)
        elif type(content) is dict:
            self._part(content)

    def _part(self, part: dict[str, Any]) -> None:
        kind = part.get("type")
        if kind is None and "call_id" in part:
            self.results.append(tool_result(part))
            return
        if kind == "text" or kind is None:
            text = part.get("text", part.get("content"))
            if type(text) is str:
                self.add(text)
                return
        if type(kind) is not str:
            kind = None
        if kind in CALL_TYPES or type(part.get("function")) is dict:
            self.calls.append(tool_call(part))
        elif kind in RESULT_TYPES:
            self.results.append(tool_result(part))
        elif kind not in SILENT:
            self._keyed(part, kind)

    def _keyed(self, part: dict[str, Any], kind: str | None) -> None:
        """A part that is told by its keys rather than by its type."""
        for key in CALL_KEYS:
            if type(part.get(key)) is dict:
                self.calls.append(tool_call(part[key]))
                return
        for key in RESULT_KEYS:
            if type(part.get(key)) is dict:
                self.results.append(tool_result(part[key]))
                return
        if kind is None and "name" in part and "arguments" in part:
            self.calls.append(tool_call(part))
            return
        if any(key in part for key in _SILENT_KEYS):
            return
        text = part.get("text")
        if type(text) is dict:
            text = text.get("value")
        if text is None and kind in _TEXT_TYPES:
            text = part.get("content", part.get("value"))
        if type(text) is str:
            self.add(text)
        elif kind == "refusal":
            self.add(part.get("refusal"))
        elif kind not in _TEXT_TYPES or any(key in part for key in _MEDIA_KEYS):
            label = plain(part.get("modality")) or kind or "file"
            self.media.append(placeholder(part, label))


def tool_call(call: Mapping[str, Any]) -> ToolCall:
    """A call of a tool in any library's shape; arguments are decoded where they are JSON."""
    inner = call.get("tool_call")
    if type(inner) is dict:
        call = inner
    function = call.get("function")
    facts = function if type(function) is dict else call
    name = next(
        (
            facts[key]
            for key in ("name", "toolName", "tool_name")
            if type(facts.get(key)) is str and facts[key]
        ),
        function if type(function) is str else "",
    )
    arguments = None
    for key in ("arguments", "args", "input", "parameters"):
        if facts.get(key) is not None:
            arguments = decoded(facts[key])
            break
    ids = (
        call.get(key) for key in ("call_id", "toolCallId", "toolUseId", "tool_call_id", "id", "ref")
    )
    return ToolCall(
        name=name, id=next((i for i in map(plain, ids) if i), None), arguments=arguments
    )


def tool_result(part: Mapping[str, Any]) -> Said:
    """A tool's result in any library's shape."""
    value = None
    for key in ("response", "result", "output", "content", "error"):
        if part.get(key) is not None:
            value = result_value(part[key])
            break
    origin = part.get("origin")
    origin = origin if type(origin) is dict else {}
    ids = [part.get(k) for k in ("call_id", "toolCallId", "toolUseId", "tool_call_id")]
    ids += [part.get("tool_use_id"), part.get("id"), part.get("ref"), origin.get("id")]
    names = [part.get(key) for key in ("name", "toolName", "tool_name")] + [origin.get("tool_name")]
    return Said(
        "tool",
        dumped(value) if value is not None else None,
        answers=next((i for i in map(plain, ids) if i), None),
        name=next((n for n in map(plain, names) if n), None),
        result=value,
        failed=(
            part.get("status") == "error"
            or part.get("is_error") is True
            or part.get("isError") is True
            or part.get("error") not in (None, False)
            or part.get("type") == "tool-error"
        ),
    )


def result_value(value: Any) -> Any:
    """A tool's result itself, out of the text blocks, messages and callbacks around it."""
    value = decoded(value)
    for _ in range(4):
        inner = _inside(value)
        if inner is value:
            break
        value = decoded(inner)
    return value


_MESSAGE_REPR = re.compile(
    r"content=(?P<quote>['\"])(?P<text>.*?)(?<!\\)(?P=quote) (?:name|tool_call_id|id|status)=",
    re.DOTALL,
)
"""LangChain's tool message as text."""


def _inside(value: Any) -> Any:
    if type(value) is str:
        found = _MESSAGE_REPR.match(value) if value[:8] == "content=" else None
        return unescaped(found["text"]) if found else value
    if type(value) is list and len(value) == 1 and type(value[0]) is dict:
        block = value[0]
        if set(block) <= {"text", "type", "content", "annotations"}:
            if block.get("type", "text") == "text":
                return block.get("text", block.get("content"))
        elif set(block) == {"json"}:
            return block["json"]
    elif type(value) is dict:
        if set(value) == {"type", "value"}:  # Vercel's typed outputs
            return value["value"]
        if "tool_name" in value and value.get("raw_output") is not None:  # LlamaIndex
            return value["raw_output"]
        for key in ("output", "outputs"):
            if key in value and set(value) <= {key, "kwargs"}:  # LangChain's callback
                return value[key]
        held = value.get("kwargs") if "lc" in value else value.get("data", value)
        tool = value.get("type") == "tool" or "lc" in value
        if type(held) is dict and tool and "content" in held:
            return held["content"]
    return value


def tool_arguments(value: Any) -> tuple[Any, str | None]:
    """A tool's arguments out of what a decorator or callback wrapped them in, and the call's id
    where it stands there."""
    value = decoded(value)
    if type(value) is not dict:
        return value, None
    named = value.get("kwargs")
    if type(named) is dict and "args" in value:
        listed = value["args"]
        return (named if named or not listed else {"args": listed}), None
    if "input_str" in value:  # LangChain's callback
        called = plain(named.get("tool_call_id")) if type(named) is dict else None
        inner = value.get("inputs")
        return (decoded(value["input_str"]) if inner is None else inner), called
    if set(value) == {"input"}:
        return decoded(value["input"]), None
    return value, None
