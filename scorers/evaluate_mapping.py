"""Column mappings: which column of the data, or output of the target, each input is taken from.

The spellings of several tools mean the same: `${data.x}`, `${data$x}` and `{{item.x}}` a column,
`${run.outputs.x}`, `${target.x}` and `{{sample.x}}` an output of the target; a bare name is a
column. Parts after further dots lead into nested values. Text around a reference makes a template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from assay.errors import ConfigError

_REFERENCE = re.compile(
    r"\$\{\s*(data|target|run\.outputs|run\.inputs)[.$]([^}]+?)\s*\}"
    r"|\{\{\s*(item|sample)\.([^}]+?)\s*\}\}"
)
_OUTPUTS = ("target", "run.outputs", "sample")
_ANY = re.compile(r"\$\{|\{\{")


class Missing(ValueError):
    """A row lacks a column that the mapping names."""


class _Part(NamedTuple):
    """A piece of a template: text, or where a value stands."""

    text: str
    path: tuple[str, ...] = ()
    output: bool = False


class Mapper:
    """Takes inputs from rows. Without pairs a row is its own input, outputs over columns."""

    def __init__(self, pairs: Iterable[str] = ()) -> None:
        """`pairs` are `input=expression`. Raises ConfigError with each that is wrong."""
        self._inputs: dict[str, list[_Part]] = {}
        faults = []
        for pair in pairs:
            name, equals, expression = pair.partition("=")
            parts = _parts(expression.strip())
            if not equals or not name.strip() or parts is None:
                allowed = "input=${data.column}, input={{item.column}} or input=column"
                faults.append(f"--map: got {pair!r}; allowed: {allowed}")
            else:
                self._inputs[name.strip()] = parts
        if faults:
            raise ConfigError(faults)

    def apply(self, data: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of a row. Raises Missing for a column or output that it does not have."""
        found = {**data, **outputs}
        for name, parts in self._inputs.items():
            values = [_value(part, data, outputs) for part in parts]
            found[name] = values[0] if len(values) == 1 else "".join(map(_text, values))
        return found


def _parts(expression: str) -> list[_Part] | None:
    """What an expression is made of; none when it is empty or has a reference of another kind."""
    if not expression:
        return None
    found: list[_Part] = []
    end = 0
    for match in _REFERENCE.finditer(expression):
        before = expression[end : match.start()]
        if _ANY.search(before):
            return None
        if before:
            found.append(_Part(before))
        root, path = match[1] or match[3], match[2] or match[4]
        found.append(_Part("", tuple(path.split(".")), root in _OUTPUTS))
        end = match.end()
    rest = expression[end:]
    if _ANY.search(rest):
        return None
    if not found:
        return [_Part("", tuple(rest.split(".")))]
    return found + ([_Part(rest)] if rest else [])


def _value(part: _Part, data: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    if not part.path:
        return part.text
    source = outputs if part.output else data
    whole = ".".join(part.path)
    if whole in source:
        return source[whole]
    value: Any = source
    for name in part.path:
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            value = _decoded(value)
        if isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, Mapping) and name in value:
            value = value[name]
        else:
            kind = "output" if part.output else "column"
            raise Missing(f"{kind} {whole!r} is missing")
    return value


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
