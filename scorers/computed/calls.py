"""What the metrics of tool calls share: arguments decoded, calls compared."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import msgspec

from assay.records import ToolCall, Turn

_MAX_NESTING = 3
"""How often text may be JSON of text again before the arguments are taken as text."""


def arguments_of(call: ToolCall) -> Any:
    """The call's arguments, decoded where they are JSON text, also JSON text of JSON text.

    Nothing and empty text are no arguments: {}. Text that is no JSON stays text, and text inside
    the decoded object stays what it is.
    """
    value = call.arguments
    for _ in range(_MAX_NESTING):
        if not isinstance(value, str):
            break
        if not value.strip():
            return {}
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            break
    return {} if value is None else value


def comparable(value: Any) -> Hashable:
    """`value` in a form that is equal exactly when it says the same JSON.

    Numbers are equal as numbers (1 and 1.0), never to booleans or text; objects in any order.
    """
    match value:
        case bool() | None:
            return ("literal", value)
        case str() | int() | float():
            return value
        case dict():
            return frozenset((str(key), comparable(item)) for key, item in value.items())
        case list() | tuple():
            return tuple(map(comparable, value))
        case _:
            return str(value)


def identity(call: ToolCall, *, parameters: bool = True) -> Hashable:
    """What makes two calls the same: the name, and the arguments unless `parameters` is false."""
    return (call.name, comparable(arguments_of(call))) if parameters else call.name


def identities(calls: Iterable[ToolCall], *, parameters: bool = True) -> list[Hashable]:
    return [identity(call, parameters=parameters) for call in calls]


def content_was_captured(turn: Turn) -> bool:
    """Whether the app exports texts at all: without them missing arguments say nothing."""
    return turn.query is not None or turn.response is not None or bool(turn.messages)


def failed(call: ToolCall) -> bool | None:
    """Whether the call's recorded result is an error; none when nothing was recorded.

    An error is: the call's `error`; an object whose `error` is set, whose `isError` or `is_error`
    is true or whose `status` is "error"; text that begins with ERROR, `Error:` or a traceback.
    """
    if call.error is not None:
        return True
    result = call.result
    if result is None:
        return None
    if isinstance(result, dict):
        return bool(
            result.get("error")
            or result.get("isError") is True
            or result.get("is_error") is True
            or result.get("status") == "error"
        )
    if isinstance(result, str):
        return result.lstrip().startswith(_ERROR_WORDS)
    return False


_ERROR_WORDS = (
    "ERROR",
    "Error:",
    "error:",
    "Exception:",
    "Traceback (most recent call last)",
)
