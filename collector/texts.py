"""Every text of a turn passed through a function, and texts cut to a length."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from assay.records import Message, Turn, encode

MARK = "\n[... {} characters cut ...]\n"
"""Stands where the middle of a text was."""
SHORTEST = 1000
"""No text is cut shorter than to about half of this."""
MAX_ITEMS = 20

_NAMES: dict[type[msgspec.Struct], tuple[str, ...]] = {
    Turn: (
        *("turn_id", "trace_id", "span_id", "response_id", "app", "environment", "version"),
        *("prompt_version", "model", "provider", "language", "dialect", "stratum", "finish_reason"),
    ),
    Message: ("role",),
}
"""Fields that hold ids and names of the app's own, not what people wrote."""


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with `change` applied to each text in it, at any depth, keys of mappings too.

    Takes a record or plain JSON values, and returns the same object where nothing changed. Whole
    numbers are shown to `change` as text, and replaced if that changes.
    """
    if isinstance(value, str):
        changed = change(value)
        return value if changed == value else changed
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        text = str(value)
        changed = change(text)
        return value if changed == text else changed
    if isinstance(value, list | tuple):
        items = [map_texts(item, change) for item in value]
        same = all(a is b for a, b in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if isinstance(value, dict):
        pairs = {map_texts(key, change): map_texts(item, change) for key, item in value.items()}
        same = all(a is b for a, b in zip(pairs, value, strict=False)) and all(
            a is b for a, b in zip(pairs.values(), value.values(), strict=False)
        )
        return value if same and len(pairs) == len(value) else pairs
    if isinstance(value, msgspec.Struct):
        skip = _NAMES.get(type(value), ())
        new = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            if name not in skip and isinstance(old, str | list | tuple | dict):
                changed = map_texts(old, change)
                if changed is not old:
                    new[name] = changed
        return msgspec.structs.replace(value, **new) if new else value
    return value


def cut(text: str, limit: int) -> str:
    """`text` in at most about `limit` characters: its start and its end, the middle marked."""
    if len(text) <= limit:
        return text
    half = max(0, limit // 2)
    return text[:half] + MARK.format(len(text) - 2 * half) + text[len(text) - half :]


def mend(text: str) -> str:
    """`text` with lone surrogate halves, which no encoding holds, as U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def fit(turn: Turn, max_text: int) -> tuple[Turn, bytes]:
    """The turn with no text longer than `max_text`, and its JSON in about 4 x `max_text` bytes.

    Long texts lose their middle; while the whole is too large, further ones do; and if that does
    not help, only the `MAX_ITEMS` latest messages and first documents and calls stay. What is cut
    is marked, and so is the turn.
    """
    value = _encode(turn)
    if len(value) <= max_text:
        return turn, value
    limit = max_text
    whole = turn
    while True:
        turn = map_texts(whole, partial(cut, limit=limit))
        if turn is not whole:
            turn = msgspec.structs.replace(turn, truncated=True)
            value = _encode(turn)
        if len(value) <= 4 * max_text:
            return turn, value
        if limit < SHORTEST:
            turn = msgspec.structs.replace(
                turn,
                messages=turn.messages[-MAX_ITEMS:],
                documents=turn.documents[:MAX_ITEMS],
                tool_calls=turn.tool_calls[:MAX_ITEMS],
                tool_definitions=turn.tool_definitions[:MAX_ITEMS],
                truncated=True,
            )
            return turn, _encode(turn)
        limit //= 2


def _encode(turn: Turn) -> bytes:
    try:
        return encode(turn)
    except UnicodeEncodeError:
        return encode(map_texts(turn, mend))
