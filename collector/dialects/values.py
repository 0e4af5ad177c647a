"""Plain values out of what instrumentation libraries write: JSON in JSON, reprs, flattened keys."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from collector.dialects import torn

REDACTED = frozenset({"__REDACTED__", "[REDACTED]", "<REDACTED>", "<redacted>"})
"""What libraries write in place of content that they were told to hide."""

MAX_DEPTH = 64
_MAX_REPR = 200_000
_MAX_DIGITS = 6
_MAX_NESTING = 12
_from_json = msgspec.json.Decoder().decode


def decoded(value: Any) -> Any:
    """The value that a text holds as JSON or as a Python repr; anything else as it is.

    What is nested deeper than `MAX_DEPTH` stays a text.
    """
    if type(value) is bytes:
        value = value.decode("utf-8", "replace")
    if type(value) is not str:
        return value
    first = value[:1]
    if first not in '{["' and value[:1].isspace():
        first = value.lstrip()[:1]
    if first not in ("{", "[", '"'):
        return value
    try:
        found = _from_json(value)
    except (ValueError, RecursionError):
        found = _odd(value)
    if type(found) is str:
        # A dump of a dump; a text that only stood in quotes gets no shorter and ends here.
        return decoded(found) if len(found) < len(value) else found
    if value.count("[") + value.count("{") > MAX_DEPTH and _deeper(found):
        return value
    return found


def _deeper(value: Any) -> bool:
    """Whether containers are nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if type(item) is dict:
                inner += item.values()
            elif type(item) is list or type(item) is tuple:
                inner += item
        level = [item for item in inner if type(item) in (dict, list, tuple)]
        if not level:
            return False
    return True


def _odd(text: str) -> Any:
    """JSON that only a lenient reader takes (NaN, control characters), or that was cut, or a Python
    literal."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        pass
    if (found := torn.completed(text)) is not None:
        return found
    if "'" in text and len(text) <= _MAX_REPR:
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            pass
    return text


def hidden(text: str) -> bool:
    """Whether a text stands in place of content: a mark of redaction, or an object that was only
    printed, e.g. `<generator object answer at 0x7f1c2e>`."""
    return text in REDACTED or (text[:1] == "<" and text[-1:] == ">" and " at 0x" in text)


def plain(value: Any) -> str | None:
    """A short text such as an id or a name: unquoted when it was a JSON string; None if absent."""
    if type(value) is str:
        if value[:1] == '"':
            inner = decoded(value)
            value = inner if type(inner) is str else value
        return value if value and value not in REDACTED else None
    if type(value) is int:
        return str(value)
    return None


def count(value: Any) -> int | None:
    """A number of tokens: None for what is missing, negative, not whole or not a number."""
    kind = type(value)
    if kind is int:
        return value if value >= 0 else None
    if kind is float:
        return int(value) if math.isfinite(value) and value >= 0 else None
    if kind is str:
        return int(value) if len(value) < 16 and value.isdecimal() else None
    return None


def number(value: Any) -> float | None:
    """A finite number, also from its text; None otherwise."""
    if type(value) is str:
        try:
            value = float(value)
        except ValueError:
            return None
    if type(value) is float or type(value) is int:
        try:
            return float(value) if math.isfinite(value) else None
        except OverflowError:
            return None
    return None


def amount(value: Any) -> float | None:
    """A finite number that is not negative, also from its text; None otherwise."""
    found = number(value)
    return found if found is not None and found >= 0 else None


def dumped(value: Any) -> str:
    """A value as text: texts as they are, all else as JSON."""
    if type(value) is str:
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return str(value)


def first(source: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The first value among `keys` that is there and neither empty text nor redacted."""
    for key in keys:
        value = source.get(key)
        if value is not None and value != "" and not (type(value) is str and value in REDACTED):
            return value
    return None


def unescaped(text: str) -> str:
    """The text that a Python repr held between its quotes."""
    return text.replace("\\n", "\n").replace("\\'", "'").replace('\\"', '"')


def nested(flat: Mapping[str, Any] | None) -> list[Any]:
    """The list that was flattened into `flat`, e.g. `0.content` and `1.content`.

    Items are ordered by their number, not by arrival. Keys that end in a number make lists, others
    make dicts. A key that is both a value and a parent of others stays a parent.
    """
    if not flat:
        return []
    root: dict[str, Any] = {}
    for key, value in flat.items():
        place = root
        *parents, last = key.split(".", _MAX_NESTING)
        for part in parents:
            below = place.get(part)
            if type(below) is not dict:
                below = place[part] = {}
            place = below
        if type(place.get(last)) is not dict:
            # A map given whole is a value, not a parent: as text it cannot be taken for one.
            place[last] = dumped(value) if type(value) is dict else value
    listed = _listed(root)
    return listed if type(listed) is list else []


def _listed(tree: dict[str, Any]) -> Any:
    for key, value in tree.items():
        if type(value) is dict:
            tree[key] = _listed(value)
    if not next(iter(tree)).isdecimal() or not all(map(_is_index, tree)):
        return tree
    return [tree[key] for key in sorted(tree, key=int)]


def _is_index(key: str) -> bool:
    return key.isdecimal() and len(key) < _MAX_DIGITS
