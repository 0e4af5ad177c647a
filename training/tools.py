"""Compare the tool call metrics with the labels of BFCL's calls: python -m training.tools DATA

`labels.valid_schema` is what jsonschema said, unknown parameters being refused, so the schemas are
closed here. `label` says that the calls are among BFCL's possible answers, in any order: the
reference of a row is the answer that accepts the most of what was called.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from assay.records import ToolCall, ToolDefinition, Turn
from scorers.computed.calls import comparable
from scorers.computed.tool_calls import tool_call_schema_valid, tool_calls_unordered_match
from training.sources import Row, rows

OMITTED = ""
"""Among the accepted values: the argument may be left out."""


def accepts(accepted: list[Any], value: Any) -> bool:
    """Whether one of the accepted values says what `value` says, accepted values standing in lists
    inside objects too."""
    return any(comparable(value) == comparable(each) or _nested(each, value) for each in accepted)


def _nested(each: Any, value: Any) -> bool:
    if isinstance(each, list) and isinstance(value, list):
        return len(each) == len(value) and all(
            _nested(one, other) or comparable(one) == comparable(other)
            for one, other in zip(each, value, strict=True)
        )
    if not isinstance(each, dict) or not isinstance(value, dict):
        return False
    return all(
        isinstance(each.get(name), list) and accepts(each[name], own) for name, own in value.items()
    ) and all(name in value or OMITTED in accepted for name, accepted in each.items())


def reference(row: Row) -> tuple[ToolCall, ...]:
    """The possible answer nearest to what was called."""
    left = list(row["tool_calls"])
    found = []
    for expected in row["expected_tool_calls"]:
        ((name, accepted),) = expected.items()
        named = [call for call in left if call["name"] == name]
        best = max(named, key=lambda call: _agreeing(accepted, call["arguments"]), default=None)
        if best is not None:
            left.remove(best)
        called = best["arguments"] if best is not None else {}
        arguments = {
            argument: called[argument]
            if argument in called and accepts(values, called[argument])
            else values[0]
            for argument, values in accepted.items()
            if argument in called or OMITTED not in values
        }
        found.append(ToolCall(name=name, arguments=arguments))
    return tuple(found)


def _agreeing(accepted: dict[str, list[Any]], arguments: dict[str, Any]) -> tuple[bool, int]:
    """Whether all is accepted, and how much."""
    return _nested(accepted, arguments), sum(
        name in accepted and accepts(accepted[name], value) for name, value in arguments.items()
    )


def turn(row: Row) -> Turn:
    tools = [each.get("function", each) for each in row["tool_definitions"]]
    return Turn(
        turn_id="t",
        trace_id="t",
        app="a",
        tool_calls=tuple(
            ToolCall(name=call["name"], arguments=call["arguments"]) for call in row["tool_calls"]
        ),
        tool_definitions=tuple(
            ToolDefinition(
                name=tool["name"],
                parameters={"additionalProperties": False, **tool.get("parameters", {})},
            )
            for tool in tools
        ),
        reference_tool_calls=reference(row),
    )


def main(data: Path) -> None:
    found = rows(data, "tools/bfcl_calls")
    for name, metric, label in (
        ("tool_call_schema_valid", tool_call_schema_valid, lambda r: r["labels"]["valid_schema"]),
        ("tool_calls_unordered_match", tool_calls_unordered_match, lambda r: r["label"]),
    ):
        verdicts = [metric.bind()(turn(row)) for row in found]
        unequal = [
            f"{row['id']} {row['label_raw']}: {verdict.value}, {verdict.reason}"
            for row, verdict in zip(found, verdicts, strict=True)
            if verdict.value != label(row)
        ]
        print(f"{name}: {len(found) - len(unequal)} of {len(found)} equal", *unequal, sep="\n  ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
