"""JSON Schema checks that fetch nothing and name no value."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import msgspec


def violations(schema: Any, value: Any) -> list[str]:
    """Where `value` breaks `schema`: path and keyword, without the value. Empty when it holds.

    `schema` may be JSON text. One that is no schema demands nothing.
    """
    if isinstance(schema, str):
        try:
            schema = msgspec.json.decode(schema)
        except msgspec.DecodeError:
            return []
    if not isinstance(schema, dict) or not schema:
        return []
    errors = _validator(msgspec.json.encode(schema)).iter_errors(value)
    return [_described(error) for error in errors]


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
