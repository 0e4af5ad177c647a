"""Rows of a data set as Turns, in the forms that METRICS.md section 8 names.

A row is a JSON object. Its texts may stand under the names of several tools (`_NAMES`); context is
text, a list, or citations; a prediction with tool calls, its list of calls, and each call's
arguments may each be JSON text. A row with messages holds one turn per user message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.records import Document, Message, ToolCall, ToolDefinition, Turn, turn_id_of

Row = Mapping[str, Any]

_NAMES = {
    "query": ("query", "question", "instruction", "input", "prompt"),
    "response": ("response", "answer", "prediction", "output"),
    "context": ("context", "documents", "retrieved_documents", "contexts"),
    "ground_truth": ("ground_truth", "reference", "expected", "target", "references"),
    "baseline": ("baseline_response", "baseline_prediction"),
    "expected_calls": ("reference_tool_calls", "expected_tool_calls", "reference_trajectory"),
    "calls": ("tool_calls", "predicted_trajectory"),
}
_KEPT = (
    "app",
    "environment",
    "version",
    "model",
    "provider",
    "system",
    "conversation_id",
    "response_format",
    "finish_reason",
    "error",
    "usage",
    "feedback",
    "labels",
    "started_at",
    "ended_at",
    "time_to_first_token",
    "language",
)
"""Fields that keep the Turn's own name and form."""


def to_turns(row: Row, number: int = 0) -> list[Turn]:
    """The turns of a row, in order. Raises ValueError that says what is wrong, without its content.

    Turns get ids that follow from the row's `id` or its `number`, so the same file gives the same.
    """
    if not isinstance(row, Mapping):
        raise ValueError("not an object")
    try:
        if "turn_id" in row and "trace_id" in row:
            return [msgspec.convert(dict(row), Turn)]
        return _turns(row, number)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _turns(row: Row, number: int) -> list[Turn]:
    name = str(row.get("turn_id") or row.get("id") or number)
    trace_id = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=16).hexdigest()
    conversation = row.get("conversation")
    messages = conversation if isinstance(conversation, Mapping) else row
    listed = messages.get("messages") or ()
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise ValueError("messages: not a list")
    shared = {
        **{key: row[key] for key in _KEPT if row.get(key) is not None},
        "trace_id": trace_id,
        "app": row.get("app") or "rows",
        "tool_definitions": _definitions(row.get("tool_definitions", row.get("tools"))),
    }
    exchanges = _exchanges(listed)
    if _first(row, "response") is not None or not exchanges:
        exchanges = [_single(row, listed)]
    exchanges[-1] |= _judged_against(row)
    return [
        msgspec.convert(
            shared | exchange | {"turn_id": turn_id_of(trace_id, ordinal), "ordinal": ordinal}, Turn
        )
        for ordinal, exchange in enumerate(exchanges)
    ]


def _single(row: Row, listed: Sequence[Any]) -> dict[str, Any]:
    """The turn of a row that names its response; listed messages are the history."""
    text, calls = _prediction(_first(row, "response"))
    own = _first(row, "calls")
    history = tuple(_message(item) for item in listed)
    query, _ = _prediction(_first(row, "query"))
    return {
        "query": query,
        "response": text,
        "documents": _documents(_first(row, "context")),
        "tool_calls": calls if own is None else _calls(own),
        "messages": tuple(m for m in history if m.role != "system"),
    }


def _judged_against(row: Row) -> dict[str, Any]:
    truth = _first(row, "ground_truth")
    expected = _first(row, "expected_calls")
    found: dict[str, Any] = {"baseline_response": _first(row, "baseline")}
    decoded = _decoded(truth)
    if isinstance(decoded, Mapping):
        truth, calls = _prediction(decoded)
        if expected is None:
            found["reference_tool_calls"] = calls
    elif isinstance(truth, list):
        truth = tuple(map(str, truth))
    elif truth is not None and not isinstance(truth, str):
        truth = str(truth)
    if expected is not None:
        found["reference_tool_calls"] = _calls(expected)
    if truth is not None:
        found["ground_truth"] = truth
    return found


def _exchanges(listed: Sequence[Any]) -> list[dict[str, Any]]:
    """One turn per user message: its last answer, and all calls and documents on the way."""
    found: list[dict[str, Any]] = []
    history: list[Message] = []
    system: str | None = None
    for item in listed:
        message = _message(item)
        if message.role == "system":
            system = message.content
            continue
        if message.role == "user":
            found.append({"query": message.content, "messages": tuple(history), "tool_calls": ()})
        history.append(message)
        if not found:
            continue
        turn = found[-1]
        if message.role == "assistant":
            turn["response"] = message.content
            turn["tool_calls"] += message.tool_calls
        elif message.role == "tool":
            turn["tool_calls"] = _with_result(turn["tool_calls"], message)
        documents = _documents(item.get("context"))
        if documents:
            turn["documents"] = turn.get("documents", ()) + documents
    if system is not None:
        for turn in found:
            turn["system"] = system
    return found


def _message(item: Any) -> Message:
    if not isinstance(item, Mapping) or not isinstance(item.get("role"), str):
        raise ValueError("messages: one is no object with a role")
    text, calls = _prediction(
        {"content": item.get("content"), "tool_calls": item.get("tool_calls")}
    )
    return Message(
        role=item["role"],
        content=text or "",
        tool_calls=calls,
        tool_call_id=item.get("tool_call_id"),
    )


def _with_result(calls: tuple[ToolCall, ...], message: Message) -> tuple[ToolCall, ...]:
    return tuple(
        msgspec.structs.replace(call, result=message.content)
        if call.id is not None and call.id == message.tool_call_id
        else call
        for call in calls
    )


def _prediction(value: Any) -> tuple[str | None, tuple[ToolCall, ...]]:
    """Text and calls of a prediction: text, `{"content", "tool_calls"}`, parts, or JSON of it."""
    decoded = _decoded(value)
    if isinstance(decoded, Mapping) and ("tool_calls" in decoded or "content" in decoded):
        return _text(decoded.get("content")), _calls(decoded.get("tool_calls"))
    return _text(value), ()


def _text(value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case [*parts]:
            texts = [part if isinstance(part, str) else _part(part) for part in parts]
            return "\n".join(filter(None, texts))
        case _:
            return msgspec.json.encode(value).decode()


def _part(part: Any) -> str:
    text = part.get("text", part.get("content", "")) if isinstance(part, Mapping) else ""
    return text if isinstance(text, str) else ""


def _calls(value: Any) -> tuple[ToolCall, ...]:
    decoded = _decoded(value)
    if decoded is None:
        return ()
    if not isinstance(decoded, list):
        raise ValueError("tool calls: not a list")
    return tuple(map(_call, decoded))


def _call(value: Any) -> ToolCall:
    value = _decoded(value)
    if not isinstance(value, Mapping):
        raise ValueError("tool calls: one is no object")
    inner = value.get("function")
    call = inner if isinstance(inner, Mapping) else value
    name = call.get("name", call.get("tool_name"))
    arguments = next(
        (call[key] for key in ("arguments", "tool_input", "args", "parameters") if key in call),
        None,
    )
    return ToolCall(
        name=name if isinstance(name, str) else "",
        id=value.get("id", value.get("tool_call_id")),
        arguments=arguments,
        result=value.get("result", value.get("tool_result")),
        error=value.get("error"),
    )


def _definitions(value: Any) -> tuple[ToolDefinition, ...]:
    decoded = _decoded(value)
    listed = decoded if isinstance(decoded, list) else [] if decoded is None else [decoded]
    found = []
    for item in map(_decoded, listed):
        inner = item.get("function") if isinstance(item, Mapping) else None
        tool = inner if isinstance(inner, Mapping) else item
        if isinstance(tool, Mapping) and isinstance(tool.get("name"), str):
            found.append(
                ToolDefinition(
                    name=tool["name"],
                    description=tool.get("description"),
                    parameters=_decoded(tool.get("parameters", tool.get("input_schema"))),
                )
            )
    return tuple(found)


def _documents(value: Any) -> tuple[Document, ...]:
    match _decoded(value):
        case None:
            return ()
        case {"citations": list(citations)}:
            return tuple(map(_document, citations))
        case [*items]:
            return tuple(map(_document, items))
        case str() as text:
            return (Document(content=text),) if text.strip() else ()
        case Mapping() as single:
            return (_document(single),)
        case other:
            return (Document(content=_text(other) or ""),)


def _document(item: Any) -> Document:
    if not isinstance(item, Mapping):
        return Document(content=_text(item) or "")
    identity = item.get("id", item.get("document_id"))
    relevance = item.get("relevance", item.get("query_relevance_label"))
    score = item.get("score", item.get("relevance_score"))
    return Document(
        id=None if identity is None else str(identity),
        title=item.get("title"),
        content=_text(item.get("content", item.get("text"))) or "",
        score=None if score is None else float(score),
        relevance=None if relevance is None else float(relevance),
    )


def _decoded(value: Any) -> Any:
    """`value`, or what it holds where it is JSON text of an object or a list."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
    return value


def _first(row: Row, field: str) -> Any:
    return next((row[name] for name in _NAMES[field] if row.get(name) is not None), None)
