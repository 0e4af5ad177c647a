"""From what pydantic and YAML say to one line a fault: key, what stands there, what is allowed."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, get_args

import yaml
from pydantic import BaseModel, SecretStr, ValidationError

_ALLOWED = {
    "missing": "it is required",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "path_type": "a path",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number from {ge}",
    "less_than_equal": "a number up to {le}",
    "too_long": "at most {max_length} entries",
    "string_pattern_mismatch": "text that matches {pattern}",
    "literal_error": "{expected}",
}


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key that stands twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.MarkedYAMLError(None, None, f"key {key!r} stands twice", node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def parse_yaml(text: str) -> Any:
    """The document in `text`. Raises ValueError that names line and column, never content."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{where}{error.problem}") from error
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        raise ValueError(f"not YAML: {type(error).__name__}") from error


def tag_by_type(value: Any) -> str:
    """The union tag of a list entry; parentheses keep it out of the key of a fault."""
    return "(text)" if isinstance(value, str) else "(mapping)"


def path_of(fault: Mapping[str, Any]) -> list[int | str]:
    """The keys and indices that lead to what a fault is about."""
    return [part for part in fault["loc"] if not str(part).startswith("(")]


def without(values: dict[str, Any], wrong: Iterable[Sequence[int | str]]) -> dict[str, Any]:
    """`values` without what these paths lead to. Of a list nothing is left: what is said of its
    other entries would name them by other numbers."""
    kept = copy.deepcopy(values)
    for path in wrong:
        keys = list(takewhile(lambda part: not str(part).isdigit(), path))
        place: Any = kept
        for key in keys[:-1]:
            place = place.get(key) if isinstance(place, dict) else None
        if keys and isinstance(place, dict):
            place.pop(keys[-1], None)
    return kept


def describe(error: ValidationError, model: type[BaseModel], raw: Any) -> Iterator[str]:
    """One line per fault. `raw` is the document before `${ENV}` was expanded: what is shown of a
    value is what stands in the file, and nothing at all where the setting is a secret."""
    for fault in error.errors(include_url=False, include_input=False):
        path = path_of(fault)
        key = ".".join(map(str, path))
        if fault["type"] == "extra_forbidden":
            yield f"{key}: unknown key; {_keys_of(model, path)}"
            continue
        context = fault.get("ctx", {})
        allowed = _ALLOWED.get(fault["type"], fault["msg"]).format(**context)
        if fault["type"] == "value_error":
            allowed = str(context["error"])
        if fault["type"] == "missing":
            yield f"{key}: {allowed}"
        elif _secret(model, path):
            yield f"{key}: allowed: {allowed} (a secret: its value is not shown)"
        else:
            yield f"{key}: got {_kind(_value_at(raw, path))}; allowed: {allowed}"


def _kind(value: Any) -> str:
    match value:
        case None | "":
            return "nothing"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {value[:40]!r}"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"a {type(value).__name__}"


def _value_at(raw: Any, path: Sequence[int | str]) -> Any:
    for part in path:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return None
    return raw


def _models(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is built of."""
    yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _walk(model: type[BaseModel], path: Sequence[int | str]) -> Iterator[tuple[Any, Any]]:
    """Pairs of (model, annotation of the field) along `path`."""
    current: type[BaseModel] | None = model
    for part in path:
        if current is None or part not in current.model_fields:
            continue
        annotation = current.model_fields[str(part)].annotation
        yield current, annotation
        inner = [t for t in _models(annotation) if isinstance(t, type) and issubclass(t, BaseModel)]
        current = inner[0] if inner else None


def _secret(model: type[BaseModel], path: Sequence[int | str]) -> bool:
    """Whether the value may be a secret, by its type or by where users put keys."""
    if any(part == "options" or str(part).endswith("url") for part in path):
        return True
    return any(SecretStr in _models(annotation) for _, annotation in _walk(model, path))


def _keys_of(model: type[BaseModel], path: Sequence[int | str]) -> str:
    owner: type[BaseModel] = model
    for _, annotation in _walk(model, path[:-1]):
        inner = [t for t in _models(annotation) if isinstance(t, type) and issubclass(t, BaseModel)]
        owner = inner[0] if inner else owner
    keys = list(owner.model_fields)
    close = difflib.get_close_matches(str(path[-1]), keys, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}allowed here: {', '.join(keys)}"
