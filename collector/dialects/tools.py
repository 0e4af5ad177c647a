"""Definitions of tools, in every provider's shape."""

from __future__ import annotations

import functools
from typing import Any

from assay.records import ToolDefinition
from collector.dialects.values import decoded, plain

_SCHEMAS = (
    "parameters",
    "input_schema",
    "inputSchema",
    "args_schema",
    "parametersJsonSchema",
    "parameters_json_schema",
    "json_schema",
)
_SETS = (
    "function_declarations",
    "functionDeclarations",
    "tools",
    "function_tools",
)
_WRAPPERS = ("function", "tool", "toolSpec", "data", "json_schema")
_MAX_TOOLS = 1000


def definitions(value: Any) -> list[ToolDefinition]:
    """The tools in `value`, each name once; what is no definition is left out."""
    return list(_from_text(value) if type(value) is str else _from_value(value))


def is_definition(value: Any) -> bool:
    """Whether this defines one tool, rather than calls it: a name with a schema of arguments."""
    if type(value) is not dict:
        return False
    inner = value.get("function")
    facts = inner if type(inner) is dict else value
    return type(facts.get("name")) is str and any(type(facts.get(key)) is dict for key in _SCHEMAS)


@functools.lru_cache(maxsize=256)
def _from_text(text: str) -> tuple[ToolDefinition, ...]:
    """Every call of an app repeats the same definitions: they are parsed once."""
    return _from_value(text)


def _from_value(value: Any) -> tuple[ToolDefinition, ...]:
    found: dict[str, ToolDefinition] = {}
    _add(decoded(value), found, 0)
    return tuple(found.values())


def _add(value: Any, found: dict[str, ToolDefinition], depth: int) -> None:
    if depth > 6 or len(found) >= _MAX_TOOLS:
        return
    if type(value) is str:
        value = decoded(value) if depth == 0 else [*_from_text(value)]
    if type(value) is list:
        for item in value:
            if type(item) is ToolDefinition:
                found.setdefault(item.name, item)
            else:
                _add(item, found, depth + 1)
    elif type(value) is dict:
        _one(value, found, depth)


def _one(value: dict[str, Any], found: dict[str, ToolDefinition], depth: int) -> None:
    for key in _SETS:
        if key in value and type(inner := decoded(value[key])) is list:
            _add(inner, found, depth + 1)
            return
    for key in _WRAPPERS:
        if key not in value or (key == "json_schema" and "name" in value):
            continue
        inner = value[key]
        if type(inner) is dict or (type(inner) is str and inner[:1] == "{"):
            _add(inner, found, depth + 1)
            return
    name = plain(value.get("name"))
    if name is None:
        return
    schema = next((decoded(value[key]) for key in _SCHEMAS if value.get(key) is not None), None)
    if type(schema) is dict and set(schema) == {"json"}:  # Bedrock
        schema = schema["json"]
    found.setdefault(
        name,
        ToolDefinition(
            name=name,
            description=plain(value.get("description")),
            parameters=schema if type(schema) in (dict, bool) else None,
        ),
    )
