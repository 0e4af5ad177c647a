"""JSON Schema checks that fetch nothing and name no value."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import msgspec


class Unusable(ValueError):
    """The schema cannot be checked against: an unknown type, a reference that leads outside."""


def violations(schema: Any, value: Any) -> list[str]:
    """Where `value` breaks `schema`: path and keyword, without the value. Empty when it holds.

    `schema` may be JSON text. What is no JSON object demands nothing. Raises Unusable.
    """
    if isinstance(schema, str):
        try:
            schema = msgspec.json.decode(schema)
        except msgspec.DecodeError:
            return []
    if not isinstance(schema, dict) or not schema:
        return []
    if _plainly_valid(schema, value):
        return []
    try:
        errors = list(_validator(msgspec.json.encode(schema)).iter_errors(value))
    except Exception as error:  # a stranger's schema may break the validator in any way
        raise Unusable(type(error).__name__) from error
    return [_described(error) for error in errors]


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_ANNOTATIONS = frozenset(
    {"$schema", "default", "deprecated", "description", "examples", "format", "title"}
)


def _plainly_valid(schema: Any, value: Any) -> bool:
    """Whether `value` holds by the common keywords alone: a hundredth of the validator's time.

    False also where a keyword is not known here: then the validator decides.
    """
    if not isinstance(schema, dict):
        return False
    for keyword, wanted in schema.items():
        match keyword:
            case "type":
                allowed = _TYPES.get(wanted) if isinstance(wanted, str) else None
                if allowed is None or not isinstance(value, allowed):
                    return False
                if isinstance(value, bool) and bool not in allowed:
                    return False
            case "properties":
                if not isinstance(wanted, dict) or not isinstance(value, dict):
                    return False
                for name, inner in wanted.items():
                    if name in value and not _plainly_valid(inner, value[name]):
                        return False
            case "required":
                if not isinstance(wanted, list) or not isinstance(value, dict):
                    return False
                if any(name not in value for name in wanted):
                    return False
            case "additionalProperties":
                known = schema.get("properties", {})
                if not isinstance(value, dict) or not isinstance(known, dict):
                    return False
                if wanted is False and any(name not in known for name in value):
                    return False
                if wanted not in (True, False):
                    return False
            case "items":
                if not isinstance(value, list):
                    return False
                if not all(_plainly_valid(wanted, item) for item in value):
                    return False
            case "enum":
                if not isinstance(value, str) or value not in wanted:
                    return False
            case _:
                if keyword not in _ANNOTATIONS:
                    return False
    return True


def _described(error: Any) -> str:
    path = ".".join(map(str, error.absolute_path)) or "value"
    keyword, wanted = error.validator, error.validator_value
    if keyword == "required" and isinstance(error.instance, dict):
        missing = [str(name) for name in wanted if name not in error.instance]
        return f"{path} lacks {', '.join(missing)}"
    return f"{path} breaks {keyword}" + (f" {wanted}" if keyword == "type" else "")


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> Any:
    """A reference that leads outside the schema is an error, never a request."""
    validator, registry = _jsonschema()
    return validator(msgspec.json.decode(schema), registry=registry)


@cache
def _jsonschema() -> tuple[Any, Any]:
    from jsonschema import Draft202012Validator
    from referencing import Registry

    return Draft202012Validator, Registry()
