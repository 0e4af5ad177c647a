"""Rows of the store's tables back to the records that they were written from.

Times come back in whole microseconds; what was absent comes back absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from assay.records import Cascade, JudgeUsage, Score, Turn, TurnScores, Usage

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

_NESTED = {
    "messages",
    "documents",
    "tool_definitions",
    "tool_calls",
    "response_format",
    "ground_truth",
    "reference_tool_calls",
    "feedback",
    "labels",
    "details",
}


def turn_of(row: Mapping[str, Any]) -> Turn:
    """The turn of a row of `turns`."""
    usage = {name: row[name] for name in Usage.__struct_fields__ if row.get(name) is not None}
    return msgspec.convert(_values(Turn, row) | {"usage": usage}, Turn)


def scores_of(rows: Iterable[Mapping[str, Any]]) -> tuple[TurnScores, ...]:
    """The TurnScores that rows of `scores` came from, in the order of their first rows."""
    found: dict[tuple[Any, ...], tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("subject_id", "group", "run", "revision"))
        _, entries = found.setdefault(key, (_values(TurnScores, row), []))
        entry = _values(Score, row)
        if row.get("judge_calls") is not None:
            entry["judge_usage"] = {
                name: row[f"judge_{name}"]
                for name in JudgeUsage.__struct_fields__
                if row.get(f"judge_{name}") is not None
            }
        if row.get("cascade_pi") is not None:
            entry["cascade"] = {name: row[f"cascade_{name}"] for name in Cascade.__struct_fields__}
        entries.append(entry)
    return tuple(
        msgspec.convert(identity | {"scores": entries}, TurnScores)
        for identity, entries in found.values()
    )


def _values(kind: type[msgspec.Struct], row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `kind` that the row has."""
    return {
        name: _value(name, row[name])
        for name in kind.__struct_fields__
        if row.get(name) is not None
    }


def _value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // MICROSECOND * 1000
    if name in _NESTED and isinstance(value, str):
        return msgspec.json.decode(value)
    return value
