"""The store's tables: a row per Turn, per Score entry and per Label; columns are their fields.

Times are UTC timestamps with microseconds. What nests is JSON text, which every engine reads; the
usage records are flattened. `date` is the UTC date of the event and the partition. A new column is
added at the end; existing rows have none in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec
from arro3.core import Array, DataType, Field, Schema, Table
from msgspec.structs import astuple

from assay.records import Score, TurnScores

DAY = 86400 * 10**9
FARTHEST = 3660
"""Days before arrival from which on an event's own time is not believed."""

TEXT, REAL, WHOLE = DataType.string(), DataType.float64(), DataType.int64()
FLAG, DATE = DataType.bool(), DataType.date32()
TIME = DataType.timestamp("us", tz="UTC")

Row = tuple[TurnScores, Score]
"""A row of `scores`, before it is one."""
Fields = Mapping[str, Sequence[Any]]
"""Of several records, by a field's name its value in each."""
_json = msgspec.json.Encoder().encode


class Column(NamedTuple):
    name: str
    type: DataType
    of: Callable[[Fields], Iterable[Any]]
    """The column's values."""
    shared: bool = False
    """It is of the first of the row's two records, which is the same for several rows."""


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
            return Table.from_pydict(_arrays(self.columns, rows))
        # What several rows share is turned into an array once, and then repeated by index.
        heads: list[Any] = []
        index: list[int] = []
        for head, _ in rows:
            if not heads or head is not heads[-1]:
                heads.append(head)
            index.append(len(heads) - 1)
        repeated = Array(index, type=DataType.uint32())
        arrays = _arrays([c for c in self.columns if not c.shared], [entry for _, entry in rows])
        shared = _arrays([c for c in self.columns if c.shared], heads)
        arrays |= {name: array.take(repeated) for name, array in shared.items()}
        return Table.from_pydict({c.name: arrays[c.name] for c in self.columns})


def _arrays(columns: Iterable[Column], records: Sequence[Any]) -> dict[str, Any]:
    """The columns by name. All records are of one type."""
    if not records:
        return {c.name: _array(c.type, ()) for c in columns}
    names = records[0].__struct_fields__
    fields = dict(zip(names, zip(*map(astuple, records), strict=True), strict=True))
    return {c.name: _array(c.type, c.of(fields)) for c in columns}


def _array(of_type: DataType, values: Iterable[Any]) -> Array:
    if of_type == TIME:
        return Array(list(values), type=WHOLE).cast(TIME)
    if of_type == DATE:
        return Array(list(values), type=DataType.int32()).cast(DATE)
    return Array(list(values), type=of_type)


def _time(field: str) -> Callable[[Fields], Iterable[int | None]]:
    """Nanoseconds to microseconds; none where the time is not known."""
    return lambda fields: (value // 1000 or None for value in fields[field])


def _text(field: str) -> Callable[[Fields], Iterable[str | None]]:
    """A nested value as JSON text; none where it is absent or empty."""
    return lambda fields: (
        None if value is None or value == () or value == {} else _json(value).decode()
        for value in fields[field]
    )


def _part(field: str, name: str) -> Callable[[Fields], Iterable[Any]]:
    """A field of the record in `field`; none where there is no such record."""
    read = attrgetter(name)
    return lambda fields: (None if part is None else read(part) for part in fields[field])


def _date(field: str) -> Callable[[Fields], Iterable[int]]:
    return lambda fields: map(event_day, fields[field], fields["arrived_at"])


def event_day(event: int, arrived: int) -> int:
    """Days since the epoch of an event, by the app's clock; by arrival where that clock is absurd:
    over a day ahead of arrival, or over ten years behind it."""
    if arrived and not arrived - FARTHEST * DAY < event < arrived + DAY:
        event = arrived
    return max(0, event) // DAY


def _plain(of_type: DataType, *names: str, shared: bool = False) -> list[Column]:
    return [Column(name, of_type, itemgetter(name), shared) for name in names]


TURNS = TableSpec(
    "turns",
    (
        Column("date", DATE, _date("ended_at")),
        *_plain(TEXT, "turn_id", "trace_id", "span_id", "response_id"),
        *_plain(TEXT, "conversation_id", "user_id"),
        *_plain(WHOLE, "ordinal"),
        *_plain(TEXT, "app", "environment", "version", "operation", "prompt_version"),
        *_plain(TEXT, "model", "provider", "language", "query", "response", "system"),
        Column("messages", TEXT, _text("messages")),
        Column("documents", TEXT, _text("documents")),
        Column("tool_definitions", TEXT, _text("tool_definitions")),
        Column("tool_calls", TEXT, _text("tool_calls")),
        Column("response_format", TEXT, _text("response_format")),
        Column("ground_truth", TEXT, _text("ground_truth")),
        Column("reference_tool_calls", TEXT, _text("reference_tool_calls")),
        *_plain(TEXT, "baseline_response"),
        Column("feedback", TEXT, _text("feedback")),
        *(
            Column(name, WHOLE, _part("usage", name))
            for name in ("input_tokens", "output_tokens", "cached_tokens", "embedding_tokens")
        ),
        Column("cost", REAL, _part("usage", "cost")),
        Column("started_at", TIME, _time("started_at")),
        Column("ended_at", TIME, _time("ended_at")),
        Column("arrived_at", TIME, _time("arrived_at")),
        *_plain(REAL, "time_to_first_token"),
        *_plain(TEXT, "finish_reason", "error"),
        Column("labels", TEXT, _text("labels")),
        *_plain(TEXT, "dialect"),
        *_plain(FLAG, "orphan", "truncated"),
        *_plain(REAL, "draw", "inclusion_probability"),
        *_plain(TEXT, "stratum"),
    ),
    ("turn_id", "trace_id", "conversation_id", "app", "environment", "ended_at", "arrived_at"),
)


def _identity(of_type: DataType, *names: str) -> list[Column]:
    return _plain(of_type, *names, shared=True)


SCORES = TableSpec(
    "scores",
    (
        Column("date", DATE, _date("event_time"), shared=True),
        *_plain(TEXT, "score_id"),
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
        *_plain(TEXT, "metric", "engine", "subject", "kind", "outcome", "outcome_reason"),
        *_plain(REAL, "value"),
        *_plain(TEXT, "label"),
        *_plain(FLAG, "passed"),
        *_plain(REAL, "threshold"),
        *_plain(TEXT, "direction", "reason"),
        *_plain(REAL, "confidence"),
        Column("details", TEXT, _text("details")),
        *_plain(REAL, "weight"),
        *_plain(TEXT, "scorer_version", "prompt_digest"),
        *(
            Column(f"judge_{name}", WHOLE, _part("judge_usage", name))
            for name in ("input_tokens", "output_tokens", "cached_tokens", "calls")
        ),
        Column("judge_cost", REAL, _part("judge_usage", "cost")),
        *_plain(REAL, "judge_latency"),
        Column("cascade_local", REAL, _part("cascade", "local")),
        Column("cascade_judge", FLAG, _part("cascade", "judge")),
        Column("cascade_pi", REAL, _part("cascade", "pi")),
    ),
    ("turn_id", "trace_id", "app", "environment", "metric", "engine", "outcome", "event_time",
     "scored_at"),
)  # fmt: skip

LABELS = TableSpec(
    "labels",
    (
        Column("date", DATE, lambda fields: (at // DAY for at in fields["labelled_at"])),
        *_plain(TEXT, "label_id", "turn_id", "metric", "subject"),
        *_plain(REAL, "value"),
        *_plain(FLAG, "passed"),
        *_plain(TEXT, "who", "comment"),
        Column("labelled_at", TIME, _time("labelled_at")),
    ),
    ("turn_id", "metric", "labelled_at"),
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
