"""How listings look: tables and blocks for people, one JSON object a line for programs.

Text that came in with traces is shown as text: no markup of it is read, and what could steer a
terminal is replaced.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assay.records import Score, Turn

if TYPE_CHECKING:
    from assay.lookup import Conversation, ScoredTurn

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
LEAST_COLUMN = 10
"""Characters of a column with its margin, below which a table cannot be read."""
_WAYS = {"scored": "", "error": "red", "skipped": "dim", "sampled_out": "dim", "filtered": "dim"}


def console() -> Console:
    """Standard output; tables in a pipe are as wide as their content needs, up to 200 columns."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def plain(value: Any, limit: int | None = None) -> str:
    """`value` as text that cannot steer a terminal, cut to `limit` characters on one line."""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", "" if value is None else str(value))
    text = text.encode(errors="replace").decode()
    if limit is None:
        return text
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def print_lines(values: Iterable[Any]) -> None:
    """One JSON object a line."""
    encoder = msgspec.json.Encoder(enc_hook=str)
    for value in values:
        sys.stdout.buffer.write(encoder.encode(value) + b"\n")
        sys.stdout.buffer.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """A table; the cells are text as it is."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    console().print(grid)


def moment(nanoseconds: int) -> str:
    """Local date and time; empty when unknown."""
    if not nanoseconds:
        return ""
    when = datetime.datetime.fromtimestamp(nanoseconds / 1e9).astimezone()
    return when.strftime("%Y-%m-%d %H:%M:%S")


def _defects(scored: ScoredTurn) -> list[Score]:
    entries = (entry for scores in scored.scores for entry in scores.scores)
    return [entry for entry in entries if entry.kind == "defect" and entry.passed is False]


def show_turns(found: Sequence[ScoredTurn], as_json: bool) -> None:
    """The records, or a row a turn with the metrics it failed."""
    if as_json:
        print_lines(scored.turn for scored in found)
        return
    table(
        ("turn", "started", "app", "query", "response", "failed"),
        (
            (
                scored.turn.turn_id,
                moment(scored.turn.started_at),
                plain(scored.turn.app, 24),
                plain(scored.turn.query, 50),
                plain(scored.turn.response, 50),
                Text(", ".join(entry.metric for entry in _defects(scored)), "red"),
            )
            for scored in found
        ),
    )
    console().print(Text(f"{len(found)} turns. `assay turns show ID` tells all about one.", "dim"))


def show_turn(scored: ScoredTurn, as_json: bool) -> None:
    """The turn with its scores, or a page about it."""
    if as_json:
        print_lines([scored])
        return
    turn, out = scored.turn, console()
    out.print(Text(turn.turn_id, "bold"))
    facts = {
        "app": " ".join(filter(None, (turn.app, turn.version, turn.environment))),
        "operation": turn.operation,
        "conversation": turn.conversation_id,
        "started": f"{moment(turn.started_at)}, {(turn.ended_at - turn.started_at) / 1e9:.2f} s",
        "model": " ".join(filter(None, (turn.provider, turn.model))),
        "tokens": _tokens(turn),
        "finish": turn.finish_reason,
        "error": turn.error,
        "labels": ", ".join(f"{name}={value}" for name, value in turn.labels.items()),
        "read as": turn.dialect + (", orphan" * turn.orphan) + (", truncated" * turn.truncated),
        "kept with": f"probability {turn.inclusion_probability:g}, stratum {turn.stratum}",
    }
    for name, value in facts.items():
        if value:
            out.print(Text(f"{name:>12}  ", "dim") + Text(plain(value)))
    _block(out, "system", turn.system)
    for message in turn.messages:
        _block(out, message.role, message.content)
    _block(out, "query", turn.query)
    for rank, document in enumerate(turn.documents, 1):
        name = document.id or document.title or ""
        _block(out, f"document {rank} {plain(name, 60)}", document.content)
    for call in turn.tool_calls:
        result = f"failed: {call.error}" if call.error else call.result
        _block(out, f"tool {plain(call.name, 60)}", f"{_json(call.arguments)} -> {_json(result)}")
    _block(out, "response", turn.response)
    for scores in scored.scores:
        out.print()
        out.print(Text(f"scores of group {scores.group}, {scores.run}", "bold"))
        show_scores(scores.scores)
    if not scored.scores:
        out.print(Text("\nNo scores yet: none of the groups has come to this turn.", "dim"))


def show_scores(entries: Sequence[Score]) -> None:
    """A row an entry: the value and verdict, or why there is none."""
    table(
        ("metric", "subject", "engine", "outcome", "value", "verdict", "reason"),
        (
            (
                plain(entry.metric, 40),
                entry.subject,
                plain(entry.engine, 24),
                Text(entry.outcome, _WAYS.get(entry.outcome, "yellow")),
                _value(entry),
                _verdict(entry),
                _why(entry, 300),
            )
            for entry in entries
        ),
    )


def show_conversations(found: Sequence[Conversation], as_json: bool) -> None:
    """The conversations, or a row for each."""
    if as_json:
        print_lines(found)
        return
    table(
        ("conversation", "app", "started", "turns", "failed", "first query"),
        (
            (
                plain(conversation.conversation_id, 60),
                plain(conversation.app, 24),
                moment(conversation.started_at),
                str(len(conversation.turns)),
                Text(str(conversation.defects), "red" if conversation.defects else "dim"),
                plain(conversation.turns[0].turn.query, 60),
            )
            for conversation in found
        ),
    )


def show_conversation(conversation: Conversation, as_json: bool) -> None:
    """One conversation: its turns in order, each with what it failed."""
    if as_json:
        print_lines([conversation])
        return
    out = console()
    out.print(Text(plain(conversation.conversation_id), "bold"), Text(plain(conversation.app)))
    for scored in conversation.turns:
        out.print(Text(f"\n{moment(scored.turn.started_at)}  {scored.turn.turn_id}", "dim"))
        _block(out, "query", scored.turn.query)
        _block(out, "response", scored.turn.response)
        for entry in _defects(scored):
            out.print(Text(f"  failed {entry.metric}: {_why(entry)}", "red"))


def show_tail(stream: Iterator[ScoredTurn], as_json: bool) -> None:
    """Each turn as it is scored; without end."""
    if as_json:
        print_lines(stream)
        return
    out = console()
    for scored in stream:
        turn, entries = scored.turn, [e for s in scored.scores for e in s.scores]
        failed = _defects(scored)
        out.print(
            Text(f"{moment(turn.ended_at)} ", "dim"),
            Text(plain(turn.app, 24), "bold"),
            Text(turn.turn_id, "dim"),
            Text(f"{len(failed)} failed", "red") if failed else Text("passed", "green"),
        )
        out.print(Text(f"  ? {plain(turn.query, 150)}"))
        out.print(Text(f"  > {plain(turn.response, 150)}"))
        values = [f"{e.metric} {_value(e)}" for e in entries if _telling(e)]
        out.print(Text("    " + ", ".join(values), "dim"))
        for entry in failed:
            out.print(Text(f"    {entry.metric}: {_why(entry)}", "red"))
        attempts = [e for e in entries if e.kind == "attempt" and e.passed is False]
        for entry in attempts:
            out.print(Text(f"    {entry.metric}: {_why(entry)}", "yellow"))


def show_rows(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Rows of a query: a table, or a block for each row where there are too many columns."""
    if as_json or not rows:
        print_lines(rows)
        return
    out = console()
    if len(rows[0]) * LEAST_COLUMN <= out.width:
        table(
            [plain(name) for name in rows[0]],
            ([_cell(value) for value in row.values()] for row in rows),
        )
        return
    widest = max(map(len, rows[0]))
    for row in rows:
        for name, value in row.items():
            out.print(Text(f"{plain(name):>{widest}}  ", "dim") + Text(_cell(value)))
        out.print()


def show_status(status: dict[str, Any], as_json: bool) -> None:
    """What the running process tells of itself."""
    if as_json:
        print_lines([status])
        return
    out = console()
    for name, value in status.items():
        if isinstance(value, list):
            rows = [row for row in value if isinstance(row, dict)]
            if rows:
                out.print(Text(f"\n{name.replace('_', ' ')}", "bold"))
                show_rows(rows, as_json=False)
        else:
            out.print(Text(f"{name.replace('_', ' '):>16}  ", "dim") + Text(plain(value)))


def _cell(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case dict():
            return ", ".join(f"{plain(name)} {_cell(inner)}" for name, inner in value.items())
        case _:
            return plain(value, 120)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _tokens(turn: Turn) -> str:
    usage = turn.usage
    counts = {"in": usage.input_tokens, "out": usage.output_tokens, "cached": usage.cached_tokens}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count is not None)


def _block(out: Console, title: str, text: str | None) -> None:
    if text:
        out.print(Text(f"\n{title}", "bold"))
        out.print(Text(plain(text)))


def _telling(entry: Score) -> bool:
    """Whether a line of the tail has room for it: not for a harm or fault that is absent."""
    absent = entry.passed is True and entry.direction in ("lower", "true_is_bad")
    return entry.outcome == "scored" and not absent and entry.kind != "attempt"


def _why(entry: Score, limit: int = 200) -> str:
    """The reason; of a failure without one, what its value was made of."""
    known = entry.outcome_reason or entry.reason
    if not known and entry.passed is False:
        known = _cell(entry.details or {"value": entry.value})
    return plain(known, limit)


def _value(entry: Score) -> str:
    if entry.value is None:
        return entry.label or ""
    return f"{entry.value:.3g}" + (f" ({entry.label})" if entry.label else "")


def _verdict(entry: Score) -> Text:
    if entry.passed is None:
        return Text("")
    return Text("pass", "green") if entry.passed else Text("fail", "red")
