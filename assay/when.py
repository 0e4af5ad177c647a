"""A small expression language over the fields of a Turn, for `when:` in the settings.

    error
    latency > 20 and not documents
    app in ["shop", "support"] and usage.output_tokens >= 1000
    labels.tier == "gold" or "refund" in query
    len(tool_calls) > 3

Names are the Turn's fields, but for those that sampling sets, and `latency` (seconds from start to
end); `usage.` and `labels.` reach into those. A name alone is true when the field is there and
neither empty, 0 nor false. `in` finds a value in a list or a text in a text. A comparison with
something that is not there is false, `!=` and `not in` too. Nothing else of Python's syntax is
accepted, and nothing is ever executed as code.
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
import types
import typing
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from assay.errors import ConfigError
from assay.records import Turn, Usage

MAX_LENGTH = 1000

_TEXT, _NUMBER, _FLAG, _LIST, _MAP, _ANY = "a text", "a number", "a flag", "a list", "a map", "any"

_OPERATORS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}


class _Term(NamedTuple):
    kind: str
    read: Callable[[Turn], Any]


class _Fault(Exception):
    def __init__(self, node: ast.expr, message: str) -> None:
        super().__init__(message)
        self.offset = node.col_offset


class When:
    """A compiled expression: call it with a Turn. Pickles as its text."""

    __slots__ = ("_test", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._test = _parse(text)

    def __call__(self, turn: Turn) -> bool:
        return bool(self._test(turn))

    def __reduce__(self) -> tuple[type[When], tuple[str]]:
        return When, (self.text,)


def compile(expression: str) -> Callable[[Turn], bool]:
    """The test that `expression` describes. Raises ConfigError naming the position of the fault."""
    return When(expression)


def _parse(text: str) -> Callable[[Turn], Any]:
    line = re.sub(r"\s", " ", text)
    indent = len(line) - len(line.lstrip())
    line = line.strip()
    if not line:
        raise ConfigError(["the expression is empty"])
    if len(line) > MAX_LENGTH:
        raise ConfigError([f"the expression is longer than {MAX_LENGTH} characters"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(line, mode="eval")
        return _term(tree.body).read
    except _Fault as fault:
        column = len(line.encode(errors="replace")[: fault.offset].decode(errors="replace"))
        raise ConfigError([f"column {indent + column + 1}: {fault}"]) from None
    except SyntaxError as error:
        column = indent + (error.offset or 1)
        raise ConfigError([f"column {column}: {error.msg}"]) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigError([f"column {indent + 1}: not readable: {error}"]) from None


def _term(node: ast.expr) -> _Term:
    match node:
        case ast.Constant(value=str() as text):
            return _constant(_TEXT, text)
        case ast.Constant(value=bool() as flag):
            return _constant(_FLAG, flag)
        case ast.Constant(value=int() | float() as number):
            return _constant(_NUMBER, number)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return _constant(_NUMBER, -number)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            read = _term(operand).read
            return _Term(_FLAG, lambda turn: not read(turn))
        case ast.BoolOp(op=op, values=values):
            return _both(isinstance(op, ast.And), [_term(value).read for value in values])
        case ast.Compare():
            return _comparison(node)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return _literal_list(items)
        case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
            return _length(argument)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return _field(node)
        case ast.Constant(value=None):
            raise _Fault(node, "None cannot be compared: write `not field` for a missing field")
        case _:
            raise _Fault(
                node, "only fields, texts, numbers, lists, comparisons, and, or, not, in and len()"
            )


def _constant(kind: str, value: Any) -> _Term:
    return _Term(kind, lambda turn: value)


def _both(conjunction: bool, reads: list[Callable[[Turn], Any]]) -> _Term:
    if conjunction:
        return _Term(_FLAG, lambda turn: all(read(turn) for read in reads))
    return _Term(_FLAG, lambda turn: any(read(turn) for read in reads))


def _literal_list(items: list[ast.expr]) -> _Term:
    values = []
    for item in items:
        if not isinstance(item, ast.Constant | ast.UnaryOp):
            raise _Fault(item, "a list holds texts and numbers only")
        values.append(_term(item).read(_NOTHING))
    return _constant(_LIST, tuple(values))


def _length(argument: ast.expr) -> _Term:
    term = _term(argument)
    if term.kind not in (_TEXT, _LIST, _MAP, _ANY):
        raise _Fault(argument, f"len() wants a list or a text, not {term.kind}")

    def read(turn: Turn) -> int | None:
        value = term.read(turn)
        return len(value) if isinstance(value, str | tuple | list | dict) else None

    return _Term(_NUMBER, read)


def _comparison(node: ast.Compare) -> _Term:
    operands = [node.left, *node.comparators]
    terms = [_term(operand) for operand in operands]
    tests = []
    for i, op in enumerate(node.ops):
        if type(op) not in _OPERATORS:
            raise _Fault(operands[i + 1], "only ==, !=, <, <=, >, >=, in and not in compare")
        symbol, apply = _OPERATORS[type(op)]
        if not _comparable(symbol, terms[i].kind, terms[i + 1].kind):
            kinds = f"{terms[i].kind} {symbol} {terms[i + 1].kind}"
            raise _Fault(operands[i + 1], f"{kinds} is never true")
        tests.append((terms[i].read, apply, terms[i + 1].read))

    def holds(turn: Turn) -> bool:
        for left, apply, right in tests:
            a, b = left(turn), right(turn)
            if a is None or b is None:
                return False
            try:
                if not apply(a, b):
                    return False
            except TypeError:
                return False
        return True

    return _Term(_FLAG, holds)


def _comparable(symbol: str, left: str, right: str) -> bool:
    if _ANY in (left, right):
        return True
    if symbol in ("in", "not in"):
        return right == _LIST or (left == _TEXT and right in (_TEXT, _MAP))
    return left == right and (
        left in (_TEXT, _NUMBER) or (symbol in ("==", "!=") and left == _FLAG)
    )


def _field(node: ast.expr) -> _Term:
    path: list[str] = []
    inner = node
    while not isinstance(inner, ast.Name):
        if isinstance(inner, ast.Attribute):
            path.append(inner.attr)
            inner = inner.value
        elif (
            isinstance(inner, ast.Subscript)
            and isinstance(inner.slice, ast.Constant)
            and isinstance(inner.slice.value, str)
        ):
            path.append(inner.slice.value)
            inner = inner.value
        else:
            raise _Fault(node, "a field is a name, usage.NAME, labels.NAME or labels['NAME']")
    name = inner.id
    rest = ".".join(reversed(path))
    if not rest and name in ("true", "false"):
        return _constant(_FLAG, name == "true")
    if name == "labels" and rest:
        return _Term(_TEXT, lambda turn: turn.labels.get(rest))
    if name == "usage" and rest:
        if rest not in _USAGE:
            raise _Fault(node, _unknown(f"usage.{rest}", [f"usage.{known}" for known in _USAGE]))
        return _Term(_NUMBER, operator.attrgetter(f"usage.{rest}"))
    if name == "latency" and not rest:
        return _Term(_NUMBER, _latency)
    if name == "usage" or name not in _FIELDS or rest:
        known = [*_FIELDS, *(f"usage.{field}" for field in _USAGE), "latency"]
        raise _Fault(node, _unknown(f"{name}.{rest}".rstrip("."), known))
    return _Term(_FIELDS[name], operator.attrgetter(name))


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"unknown field {name!r}" + (f": did you mean {close[0]!r}?" if close else "")


def _latency(turn: Turn) -> float | None:
    if not 0 < turn.started_at <= turn.ended_at:
        return None
    return (turn.ended_at - turn.started_at) / 1e9


def _kind_of(hint: Any) -> str:
    if isinstance(hint, types.UnionType):
        kinds = {_kind_of(option) for option in typing.get_args(hint) if option is not type(None)}
        return kinds.pop() if len(kinds) == 1 else _ANY
    origin = typing.get_origin(hint) or hint
    known = {str: _TEXT, bool: _FLAG, int: _NUMBER, float: _NUMBER, tuple: _LIST, dict: _MAP}
    return known.get(origin, _ANY)


def _kinds(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {name: _kind_of(hint) for name, hint in typing.get_type_hints(struct).items()}


_EXCLUDED = {"usage", "draw", "inclusion_probability", "stratum"}
_FIELDS = {name: kind for name, kind in _kinds(Turn).items() if name not in _EXCLUDED}
_USAGE = _kinds(Usage)
_NOTHING = Turn(turn_id="", trace_id="")
