"""Tool calls: well-formed, allowed, equal to the reference, successful, not repeated.

Without a call, and without a reference that expects one, a comparison is skipped; with such a
reference it is 0.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from assay.records import ToolCall, Turn
from scorers.computed.calls import (
    arguments_of,
    comparable,
    content_was_captured,
    failed,
    identities,
    identity,
)
from scorers.schema import Unusable, violations
from scorers.scorer import Verdict, scored, scorer, skipped

REPEATS = 3
MAX_PROBLEMS = 20
"""Problems named in the details."""


def _pair(turn: Turn) -> tuple[ToolCall | None, ToolCall | None]:
    """The first call, and the first call of the reference."""
    expected = turn.reference_tool_calls or ()
    return (
        turn.tool_calls[0] if turn.tool_calls else None,
        expected[0] if expected else None,
    )


@scorer("tool_call_valid", version="1")
def tool_call_valid(turn: Turn) -> Verdict:
    call, expected = _pair(turn)
    if call is None:
        return skipped("tool_calls absent") if expected is None else scored(0)
    if call.arguments is None and not content_was_captured(turn):
        return skipped("arguments absent")
    return scored(
        bool(call.name) and call.arguments is not None and isinstance(arguments_of(call), dict)
    )


@scorer("tool_call_schema_valid", version="1")
def tool_call_schema_valid(turn: Turn) -> Verdict:
    if all(call.arguments is None for call in turn.tool_calls) and not content_was_captured(turn):
        return skipped("arguments absent")
    schemas = {tool.name: tool.parameters for tool in turn.tool_definitions}
    problems: list[str] = []
    for call in turn.tool_calls:
        if call.name not in schemas:
            problems.append(f"{call.name}: not a defined tool")
            continue
        arguments = arguments_of(call)
        if not isinstance(arguments, dict):
            problems.append(f"{call.name}: arguments are not an object")
            continue
        try:
            problems += [f"{call.name}: {p}" for p in violations(schemas[call.name], arguments)]
        except Unusable:
            return skipped("tool_definitions unusable")
    if not problems:
        return scored(1)
    return scored(0, reason=problems[0], problems=problems[:MAX_PROBLEMS])


@scorer("tool_name_match", version="1")
def tool_name_match(turn: Turn) -> Verdict:
    call, expected = _pair(turn)
    if expected is None:
        return skipped("reference_tool_calls empty")
    return scored(call is not None and call.name == expected.name)


def _parameters(turn: Turn) -> tuple[dict[str, Any], dict[str, Any]] | Verdict:
    """The parameters of the first call and of its reference, or the verdict without them."""
    call, expected = _pair(turn)
    if expected is None:
        return skipped("reference_tool_calls empty")
    if call is None:
        return scored(0)
    ours, theirs = arguments_of(call), arguments_of(expected)
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return scored(0, reason="arguments are not an object")
    return ours, theirs


@scorer("tool_parameter_key_match", version="1")
def tool_parameter_key_match(turn: Turn) -> Verdict:
    match _parameters(turn):
        case Verdict() as verdict:
            return verdict
        case ours, theirs:
            return _share(sum(name in theirs for name in ours), ours, theirs)


@scorer("tool_parameter_kv_match", version="1")
def tool_parameter_kv_match(turn: Turn) -> Verdict:
    match _parameters(turn):
        case Verdict() as verdict:
            return verdict
        case ours, theirs:
            equal = sum(
                name in theirs and comparable(value) == comparable(theirs[name])
                for name, value in ours.items()
            )
            return _share(equal, ours, theirs)


def _share(equal: int, ours: dict[str, Any], theirs: dict[str, Any]) -> Verdict:
    larger = max(len(ours), len(theirs))
    return scored(equal / larger if larger else 1.0)


@scorer("tool_calls_ordered_match", version="1")
def tool_calls_ordered_match(turn: Turn) -> Verdict:
    if not turn.tool_calls and not turn.reference_tool_calls:
        return skipped("reference_tool_calls empty")
    return scored(identities(turn.tool_calls) == identities(turn.reference_tool_calls or ()))


@scorer("tool_calls_unordered_match", version="1")
def tool_calls_unordered_match(turn: Turn) -> Verdict:
    if not turn.tool_calls and not turn.reference_tool_calls:
        return skipped("reference_tool_calls empty")
    return scored(
        Counter(identities(turn.tool_calls)) == Counter(identities(turn.reference_tool_calls or ()))
    )


@scorer("tool_call_success", version="1")
def tool_call_success(turn: Turn) -> Verdict:
    results = [(call.name, failed(call)) for call in turn.tool_calls]
    known = [(name, bad) for name, bad in results if bad is not None]
    if not known:
        return skipped("result absent")
    names = sorted({name for name, bad in known if bad})
    return scored(
        sum(not bad for _, bad in known) / len(known),
        reason=f"failed: {', '.join(names)}" if names else None,
        calls=len(known),
        failed_tools=names,
    )


@scorer("repeated_tool_call", version="1")
def repeated_tool_call(turn: Turn) -> Verdict:
    if len(turn.tool_calls) < REPEATS:
        return scored(0)
    (_, most), *_ = Counter(map(identity, turn.tool_calls)).most_common(1)
    return scored(most >= REPEATS, times=most)
