"""What was asked and what was answered, out of the values that apps hand to their tracer.

An app's own span carries whatever its function took and gave: a text, `{"question": ...}`,
`{"args": [...], "kwargs": {...}}`, a state with messages. Keys are tried by name, in one order.
"""

from __future__ import annotations

import re
from typing import Any

from collector.dialects import printed
from collector.dialects.messages import conversation
from collector.dialects.said import Said
from collector.dialects.values import decoded, hidden

_ASKED = (
    "inputs",
    "question",
    "query",
    "user_query",
    "userQuery",
    "user_question",
    "user_input",
    "userInput",
    "user_message",
    "user_msg",
    "user_text",
    "utterance",
    "input_text",
    "userMessage",
    "user_prompt",
    "input",
    "prompt",
    "message",
    "text",
    "content",
    "task",
    "topic",
    "goal",
    "request",
    "input_str",
    "query_str",
    "query_bundle",
    "new_message",
    "msg",
    "q",
    "value",
    "str_or_query_bundle",
    "description",
)
_ANSWERED = (
    "outputs",
    "answer",
    "final_answer",
    "finalAnswer",
    "final_output",
    "final_result",
    "response",
    "output",
    "result",
    "reply",
    "completion",
    "text",
    "content",
    "message",
    "raw",
    "value",
    "return_value",
    "generated_text",
    "output_text",
    "summary",
)
_CONVERSED = (
    "messages",
    "chat_history",
    "contents",
    "choices",
    "generations",
    "replies",
    "candidates",
    "history",
    "all_messages",
    "tool_messages",
)
_WRAPPERS = (
    "input",
    "kwargs",
    "input_args",
    "data",
    "state",
    "body",
    "payload",
    "params",
    "output",
    "result",
    "response",
    "update",
    "llm",
    "generator",
    "return_values",
)
_FIELD = re.compile(r"\[\[ ## (?P<name>\w+) ## \]\]\s*\n?")
_TASK = re.compile(
    r"^\s*(?:Current Task|New task):\s*(?P<task>.+?)"
    r"(?=\n\n?(?:This is the expect|Begin!|You have been provided)|\Z)",
    re.DOTALL,
)
"""How agent frameworks (CrewAI, smolagents) put a task to the model."""
_MAX_DEPTH = 5
_UNSPOKEN = ("completed", "reasoning", "next_thought", "trajectory", "context")


def asked(value: Any) -> list[Said]:
    """The conversation up to the question that `value` holds; empty when it holds none."""
    value = decoded(value)
    return _find(value, _ASKED, "user", 0)


def answered(value: Any) -> list[Said]:
    """The conversation that ends in the answer that `value` holds; empty when it holds none."""
    value = decoded(value)
    return _find(value, _ANSWERED, "assistant", 0)


def _find(value: Any, keys: tuple[str, ...], role: str, depth: int) -> list[Said]:
    if type(value) is str:
        if hidden(value):
            return []
        if printed.is_repr(value):
            return printed.spoken(value, role)
        return (printed.is_fields(value) and printed.spoken(value, role)) or [Said(role, value)]
    if depth > _MAX_DEPTH:
        return []
    if type(value) is list:
        return _of_list(value, keys, role, depth)
    if type(value) is not dict or not value:
        return []
    if any(key in value for key in _CONVERSED) or "lc" in value or _is_message(value):
        said = conversation(value, role)
        if said:
            return said
    arguments = value.get("args")
    if type(arguments) is list and ("kwargs" in value or len(value) == 1):
        for item in arguments:
            if said := _find(decoded(item), keys, role, depth + 1):
                return said
        return _find(value.get("kwargs"), keys, role, depth + 1)
    for key in keys:
        inner = value.get(key)
        if type(inner) is str and not hidden(inner):
            below = decoded(inner)
            if type(below) is not str and (said := _find(below, keys, role, depth + 1)):
                return said
            return [Said(role, below if type(below) is str else inner)]
    for key in (*keys, *_WRAPPERS):
        inner = value.get(key)
        if type(inner) in (dict, list) and (said := _find(inner, keys, role, depth + 1)):
            return said
    return _only(value, keys, role, depth)


def _of_list(items: list[Any], keys: tuple[str, ...], role: str, depth: int) -> list[Said]:
    if not items:
        return []
    if len(items) == 1 or type(items[0]) is str:
        inner = decoded(items[0])
        if type(inner) is dict and _is_message(inner):
            return conversation(items, role)
        found = _find(inner, keys, role, depth + 1)
        return found or conversation(items, role)
    return conversation(items, role) if _is_message(items[0]) or type(items[0]) is list else []


def _is_message(value: Any) -> bool:
    if type(value) is not dict:
        return False
    return (
        ("role" in value and ("content" in value or "parts" in value))
        or ("type" in value and ("data" in value or "content" in value or "text" in value))
        or ("kwargs" in value and "lc" in value)
    )


def _only(value: dict[str, Any], keys: tuple[str, ...], role: str, depth: int) -> list[Said]:
    """A dict without a known key: its one text, or its first part that holds a known key and does
    not describe an agent."""
    texts = [item for item in value.values() if type(item) is str and not hidden(item)]
    if len(value) == 1 and texts:
        return [Said(role, texts[0])]
    for name, item in value.items():
        if name == "agent" or type(item) is not dict:
            continue
        if any(type(item.get(key)) is str for key in keys):
            return _find(item, keys, role, depth + 1)
    return []


def fields(text: str) -> dict[str, str]:
    """The fields of a prompt or reply in marked sections (`[[ ## question ## ]]`), by name."""
    marks = list(_FIELD.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)][: len(marks)]
    return {
        mark["name"]: text[mark.end() : end].strip()
        for mark, end in zip(marks, ends, strict=True)
        if mark["name"] != "completed"
    }


def unmarked(text: str, *, asked: bool) -> str:
    """The question or answer out of an agent's frame: marked sections, `Current Task:`, or
    `Final Answer:`; a text without any as it is."""
    if "[[ ## " in text:
        found = fields(text)
        for key in _ASKED if asked else _ANSWERED:
            if found.get(key):
                return _first_paragraph(found[key]) if asked else found[key]
        spoken = [part for name, part in found.items() if name not in _UNSPOKEN and part]
        return spoken[-1] if spoken else text
    if asked:
        framed = _TASK.search(text) if "ask:" in text else None
        return framed["task"].strip() if framed else text
    _, mark, answer = text.rpartition("Final Answer:")
    return answer.strip() if mark and answer.strip() else text


def _first_paragraph(text: str) -> str:
    return text.partition("\n\nRespond with")[0].strip()
