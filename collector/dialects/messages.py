"""One reader for every shape of message: OpenAI, GenAI parts, Bedrock, Gemini, LangChain and so on.

`conversation` takes whatever a library wrote as the input or output of a model and gives a flat
list of `Said`. It is driven by shape alone, so that a new library with a known shape needs nothing
here. Tool results always become sayings of their own, whatever message they travelled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.dialects import printed
from collector.dialects.finish import finish_reason
from collector.dialects.media import without_data
from collector.dialects.parts import (
    CALL_KEYS,
    CALL_TYPES,
    RESULT_KEYS,
    RESULT_TYPES,
    SILENT,
    Parts,
    tool_call,
)
from collector.dialects.said import ROLES, Said
from collector.dialects.torn import MARK, unclosed
from collector.dialects.values import decoded, dumped, hidden, plain

_CLASSES = {
    "systemmessage": "system",
    "humanmessage": "user",
    "aimessage": "assistant",
    "toolmessage": "tool",
    "functionmessage": "tool",
}
_LISTS = {
    "messages": "",
    "contents": "",
    "choices": "assistant",
    "generations": "assistant",
    "replies": "assistant",
    "candidates": "assistant",
    "response_messages": "assistant",
    "new_messages": "",
    "tool_messages": "tool",
    "items": "",
}
"""Keys of a request or response whose value is a list of messages, and who says them by default."""
_MESSAGE_KEYS = ("role", "content", "parts", "tool_calls", "author")
_KEYED = (*CALL_KEYS, *RESULT_KEYS)
_MAX_DEPTH = 12


def conversation(value: Any, role: str = "user") -> list[Said]:
    """All that is said in `value`; what names no role is said by `role`.

    Texts and texts inside JSON inside texts are read alike. Never raises; a shape that is none of a
    conversation gives an empty list, and so does an input that was cut before its question.
    """
    said: list[Said] = []
    found = decoded(value)
    _read(found, role, said, 0)
    cut = role == "user" and said and type(value) is str and type(found) in (list, dict)
    return [] if cut and _questionless(value, said[-1]) else said


def _questionless(text: str, last: Said) -> bool:
    """Whether the JSON of an input was cut so that its last question may be lost: what is left
    ends neither in the midst of a user's text nor in the work on a question."""
    if not unclosed(text):
        return False
    if last.role == "user":
        return not (last.text or "").endswith(MARK)
    return last.role != "tool" and not last.calls


def _read(value: Any, role: str, said: list[Said], depth: int) -> None:
    kind = type(value)
    if kind is dict:
        _dict(value, role, said, depth)
    elif kind is list or kind is tuple:
        if depth <= _MAX_DEPTH:
            _list(value, role, said, depth)
    elif kind is str:
        _text(value, role, said)


def _text(value: str, role: str, said: list[Said]) -> None:
    if hidden(value):
        return
    if found := printed.messages(value, role):
        said += found
        return
    said.append(Said(role, without_data(value)))


def _list(items: list[Any] | tuple[Any, ...], role: str, said: list[Said], depth: int) -> None:
    if not items:
        return
    if len(items) == 2 and type(items[0]) is str and type(items[1]) is str:
        spoken = ROLES.get(items[0].lower())
        if spoken:  # LangChain's (role, text)
            _text(items[1], spoken, said)
            return
    if type(items[0]) is dict and "role" not in items[0] and all(map(is_part, items)):
        _message({"content": items}, role, said, depth)
        return
    for item in items:
        if type(item) is dict:
            if (one := _simple(item)) is not None:
                said.append(one)
            else:
                _dict(item, role, said, depth + 1)
        else:
            _read(decoded(item), role, said, depth + 1)


def _simple(item: dict[str, Any]) -> Said | None:
    """The commonest message, a role with one text, at the least cost; None for any other."""
    role = ROLES.get(item["role"]) if type(item.get("role")) is str else None
    if role is None or role == "tool" or "message" in item:
        return None
    text = item.get("parts") or item.get("content")
    if type(text) is list:
        if len(text) != 1 or type(part := text[0]) is not dict or part.get("type") != "text":
            return None
        text = part.get("content", part.get("text"))
    elif type(text) is str and text[:1] in ("[", "{"):
        return None
    if type(text) is not str or hidden(text) or ";base64," in text:
        return None
    if _BESIDE.isdisjoint(item):
        return Said(role, text)
    if _CALLED.isdisjoint(item):
        return Said(role, text, finish=_finish(item))
    return None


_SPOKEN = frozenset({"role", "message", "kwargs", "models_usage"})
"""Keys of a message; the last one is autogen's."""


def is_part(item: Any) -> bool:
    """Whether this is a part of one message, rather than a message: nobody is named to say it."""
    if type(item) is not dict or not _SPOKEN.isdisjoint(item):
        return False
    kind = item.get("type")
    if type(kind) is str:
        return kind != "message" and kind.lower() not in ROLES and "data" not in item
    if any(key in item for key in _KEYED):
        return "content" not in item
    return "text" in item and "generation_info" not in item and "id" not in item


def _dict(value: dict[str, Any], role: str, said: list[Said], depth: int) -> None:
    if depth > _MAX_DEPTH:
        return
    if type(value.get("role")) is str and "message" not in value:
        _message(value, role, said, depth)
        return
    kind = value.get("type")
    kind = kind if type(kind) is str else None
    if "lc" in value and type(value.get("kwargs")) is dict:
        _langchain(value, role, said, depth)
        return
    if kind is not None and type(value.get("data")) is dict and kind.lower() in ROLES:
        _message(value["data"], ROLES[kind.lower()], said, depth)
        return
    message = value.get("message")
    if type(message) is dict or (type(message) is str and "role" not in value):
        start = len(said)
        _read(decoded(message), _role(value, role), said, depth + 1)
        if (finish := value.get("finish_reason")) and len(said) > start:
            said[-1].finish = finish_reason(finish)
        return
    if kind in SILENT:
        return
    if kind in CALL_TYPES or kind in RESULT_TYPES or type(value.get("function")) is dict:
        _message({"content": [value]}, role, said, depth)
        return
    for key, by in _LISTS.items():
        if key in value and type(inner := decoded(value[key])) is list:
            _read(inner, by or role, said, depth + 1)
            return
    if value.get("object") == "response" and "output" in value:  # OpenAI's Responses API
        _read(value["output"], "assistant", said, depth + 1)
    elif "model" in value and "input" in value:
        _read(decoded(value["input"]), "user", said, depth + 1)
    elif kind == "message" or any(key in value for key in _MESSAGE_KEYS):
        _message(value, role, said, depth)
    elif is_part(value):
        _message({"content": [value]}, role, said, depth)
    elif type(value.get("text")) is str:
        _text(value["text"], role, said)


def _langchain(value: dict[str, Any], role: str, said: list[Said], depth: int) -> None:
    """LangChain's serialised objects: the class names the role."""
    path = value.get("id")
    name = str(path[-1]).lower().removesuffix("chunk") if type(path) is list and path else ""
    held = value["kwargs"]
    if "messages" in held:
        _read(held["messages"], role, said, depth + 1)
    elif name in _CLASSES or "content" in held:
        _message(held, _CLASSES.get(name, role), said, depth)


def _role(message: Mapping[str, Any], default: str) -> str:
    for key in ("role", "type", "author", "_role", "source"):
        named = message.get(key)
        if type(named) is dict:
            named = named.get("label") or named.get("role") or named.get("name")
        if type(named) is str:
            role = ROLES.get(named) or ROLES.get(named.rpartition(".")[2].lower())
            if role:
                return role
    return "tool" if message.get("tool_call_id") else default


_BESIDE = frozenset(
    {
        "tool_calls",
        "toolCalls",
        "function_call",
        "refusal",
        "contents",
        "finish_reason",
        "finishReason",
        "stop_reason",
        "additional_kwargs",
    }
)
"""Keys that a message may carry beside its content."""
_CALLED = _BESIDE - {"finish_reason", "finishReason", "stop_reason"}


def _message(message: Mapping[str, Any], role: str, said: list[Said], depth: int) -> None:
    """One message. Results in it become sayings of their own, before its text, after its calls."""
    role = _role(message, role)
    content = message.get("parts") or message.get("content")
    parts = Parts()
    if type(content) is dict and ("parts" in content or "role" in content):  # Gemini
        start = len(said)
        _read(content, role, said, depth + 1)
        if len(said) > start:
            said[-1].finish = _finish(message) or said[-1].finish
        return
    if type(content) is str and role != "tool" and content[:2] in ("[{", '{"'):
        blocks = decoded(content)
        if type(blocks) is list and blocks and all(map(is_part, blocks)):
            content = blocks
    parts.add(content)
    finish = None
    if not _BESIDE.isdisjoint(message):
        finish = _finish(message)
        _beside(message, parts)
    text = "\n".join(parts.texts) if parts.texts else None
    if text is None and not parts.calls and message.get("content") == "":
        text = ""
    if role == "tool" and not parts.results:
        said.append(_tool_message(message, parts, text))
        return
    if parts.results:
        if parts.calls:
            said.append(Said("assistant", calls=tuple(parts.calls)))
        said += parts.results
        if text or parts.media:
            said.append(Said(role, text, tuple(parts.media), finish=finish))
        return
    if parts.calls and role == "user" and text is None:
        role = "assistant"
    said.append(Said(role, text, tuple(parts.media), tuple(parts.calls), finish=finish))


def _finish(message: Mapping[str, Any]) -> str | None:
    return finish_reason(
        message.get("finish_reason") or message.get("finishReason") or message.get("stop_reason")
    )


def _beside(message: Mapping[str, Any], parts: Parts) -> None:
    """What stands beside the content of a message: calls, a refusal, contents of their own."""
    if "contents" in message and not (parts.texts or parts.media):
        parts.add(message["contents"])
    more = message.get("additional_kwargs")
    for source in (message, more if type(more) is dict else {}):
        for key in ("tool_calls", "toolCalls"):
            asked = decoded(source.get(key)) if not parts.calls else None
            for item in asked if type(asked) is list else ():
                if type(item) is dict:
                    parts.calls.append(tool_call(item))
    alone = message.get("function_call")
    if type(alone) is dict and not parts.calls:
        parts.calls.append(tool_call(alone))
    if message.get("refusal") and not parts.texts:
        parts.add(dumped(message["refusal"]))


def _tool_message(message: Mapping[str, Any], parts: Parts, text: str | None) -> Said:
    answers = message.get("tool_call_id") or message.get("call_id") or message.get("id")
    return Said(
        "tool",
        text,
        tuple(parts.media),
        tuple(parts.calls),
        answers=plain(answers),
        name=plain(message.get("name")),
        result=decoded(text),
        failed=message.get("status") == "error" or message.get("is_error") is True,
    )
