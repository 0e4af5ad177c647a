"""The store's tables: one row per Turn, one per Score entry; columns are the records' fields.

Times are UTC timestamps with microseconds. What nests is JSON text, which every engine reads; the
usage records are flattened. `date` is the UTC date of the event and the partition. A new column is
added at the end; existing rows have none in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from arro3.core import Array, DataType, Field, Schema, Table

from assay.records import Score, TurnScores

DAY = 86400 * 10**9
FARTHEST = 3660
"""Days before arrival from which on an event's own time is not believed."""

TEXT, REAL, WHOLE = DataType.string(), DataType.float64(), DataType.int64()
FLAG, DATE = DataType.bool(), DataType.date32()
TIME = DataType.timestamp("us", tz="UTC")

Row = tuple[TurnScores, Score]
"""A row of `scores`, before it is one."""
_json = msgspec.json.Encoder().encode


class Column(NamedTuple):
    name: str
    type: DataType
    of: Callable[[Any], Any]
    shared: bool = False
    """`of` reads the first of the row's two records, which is the same for several rows."""


class TableSpec(NamedTuple):
    """A table: its name, its columns, and the columns that files keep statistics of."""

    name: str
    columns: tuple[Column, ...]
    statistics: tuple[str, ...]

    def schema(self) -> Schema:
        return Schema([Field(c.name, c.type, nullable=True) for c in self.columns])

    def arrow(self, rows: Sequence[Any]) -> Table:
        """`rows` as a table: one record each, or a pair where there are shared columns."""
        if not any(column.shared for column in self.columns):
            return Table.from_pydict(
                {c.name: _array(c.type, map(c.of, rows)) for c in self.columns}
            )
        # What several rows share is turned into an array once, and then repeated by index.
        heads: list[Any] = []
        index: list[int] = []
        for head, _ in rows:
            if not heads or head is not heads[-1]:
                heads.append(head)
            index.append(len(heads) - 1)
        own = [entry for _, entry in rows]
        repeated = Array(index, type=DataType.uint32())
        return Table.from_pydict(
            {
                c.name: _array(c.type, map(c.of, heads)).take(repeated)
                if c.shared
                else _array(c.type, map(c.of, own))
                for c in self.columns
            }
        )


def _array(of_type: DataType, values: Iterable[Any]) -> Array:
    if of_type == TIME:
        return Array(list(values), type=WHOLE).cast(TIME)
    if of_type == DATE:
        return Array(list(values), type=DataType.int32()).cast(DATE)
    return Array(list(values), type=of_type)


def _time(field: str) -> Callable[[Any], int | None]:
    """Nanoseconds to microseconds; none where the time is not known."""
    read = attrgetter(field)
    return lambda row: read(row) // 1000 or None


def _text(field: str) -> Callable[[Any], str | None]:
    """A nested value as JSON text; none where it is absent or empty."""
    read = attrgetter(field)

    def of(row: Any) -> str | None:
        value = read(row)
        if value is None or value == () or value == {}:
            return None
        return _json(value).decode()

    return of


def event_day(event: int, arrived: int) -> int:
    """Days since the epoch of an event, by the app's clock; by arrival where that clock is absurd:
    over a day ahead of arrival, or over ten years behind it."""
    if arrived and not arrived - FARTHEST * DAY < event < arrived + DAY:
        event = arrived
    return max(0, event) // DAY


def _plain(prefix: str, of_type: DataType, *names: str) -> list[Column]:
    return [Column(name, of_type, attrgetter(prefix + name)) for name in names]


TURNS = TableSpec(
    "turns",
    (
        Column("date", DATE, lambda turn: event_day(turn.ended_at, turn.arrived_at)),
        *_plain("", TEXT, "turn_id", "trace_id", "span_id", "response_id"),
        *_plain("", TEXT, "conversation_id", "user_id"),
        *_plain("", WHOLE, "ordinal"),
        *_plain("", TEXT, "app", "environment", "version", "operation", "prompt_version"),
        *_plain("", TEXT, "model", "provider", "language", "query", "response", "system"),
        Column("messages", TEXT, _text("messages")),
        Column("documents", TEXT, _text("documents")),
        Column("tool_definitions", TEXT, _text("tool_definitions")),
        Column("tool_calls", TEXT, _text("tool_calls")),
        Column("response_format", TEXT, _text("response_format")),
        Column("ground_truth", TEXT, _text("ground_truth")),
        Column("reference_tool_calls", TEXT, _text("reference_tool_calls")),
        *_plain("", TEXT, "baseline_response"),
        Column("feedback", TEXT, _text("feedback")),
        *_plain("usage.", WHOLE, "input_tokens", "output_tokens", "cached_tokens"),
        *_plain("usage.", REAL, "cost"),
        Column("started_at", TIME, _time("started_at")),
        Column("ended_at", TIME, _time("ended_at")),
        Column("arrived_at", TIME, _time("arrived_at")),
        *_plain("", REAL, "time_to_first_token"),
        *_plain("", TEXT, "finish_reason", "error"),
        Column("labels", TEXT, _text("labels")),
        *_plain("", TEXT, "dialect"),
        *_plain("", FLAG, "orphan", "truncated"),
        *_plain("", REAL, "draw", "inclusion_probability"),
        *_plain("", TEXT, "stratum"),
    ),
    ("turn_id", "trace_id", "conversation_id", "app", "environment", "ended_at", "arrived_at"),
)


def _identity(of_type: DataType, *names: str) -> list[Column]:
    return [Column(name, of_type, attrgetter(name), shared=True) for name in names]


def _usage(of_type: DataType, *names: str) -> list[Column]:
    def of(name: str) -> Callable[[Score], Any]:
        read = attrgetter(name)
        return lambda entry: None if entry.judge_usage is None else read(entry.judge_usage)

    return [Column(f"judge_{name}", of_type, of(name)) for name in names]


SCORES = TableSpec(
    "scores",
    (
        Column("date", DATE, lambda t: event_day(t.event_time, t.arrived_at), shared=True),
        *_plain("", TEXT, "score_id"),
        *_identity(TEXT, "subject_id", "turn_id", "trace_id", "span_id", "response_id"),
        *_identity(TEXT, "conversation_id", "app", "environment", "version", "operation"),
        *_identity(TEXT, "prompt_version", "model", "provider", "language"),
        Column("labels", TEXT, _text("labels"), shared=True),
        *_identity(TEXT, "stratum"),
        *_identity(REAL, "inclusion_probability"),
        *_identity(WHOLE, "revision"),
        *_identity(TEXT, "group", "run"),
        *(
            Column(name, TIME, _time(name), shared=True)
            for name in ("event_time", "arrived_at", "scored_at")
        ),
        *_plain("", TEXT, "metric", "engine", "subject", "kind", "outcome", "outcome_reason"),
        *_plain("", REAL, "value"),
        *_plain("", TEXT, "label"),
        *_plain("", FLAG, "passed"),
        *_plain("", REAL, "threshold"),
        *_plain("", TEXT, "direction", "reason"),
        *_plain("", REAL, "confidence"),
        Column("details", TEXT, _text("details")),
        *_plain("", REAL, "weight"),
        *_plain("", TEXT, "scorer_version", "prompt_digest"),
        *_usage(WHOLE, "input_tokens", "output_tokens", "cached_tokens", "calls"),
        *_usage(REAL, "cost"),
        *_plain("", REAL, "judge_latency"),
    ),
    ("turn_id", "trace_id", "app", "environment", "metric", "engine", "outcome", "scored_at"),
)

SCORES_LATEST = """
SELECT * FROM scores AS one WHERE one.revision = (
    SELECT max(other.revision) FROM scores AS other
    WHERE other.subject_id = one.subject_id AND other.run = one.run
      AND other."group" = one."group"
)
"""
"""Per subject, group and run only the highest revision: a conversation that opened again counts
as it ended up."""
