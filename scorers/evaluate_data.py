"""Data sets: the rows of a JSON-lines, JSON or CSV file, each with the line that it begins on.

A row that cannot be read is reported with its line and left out; the rest is read.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from assay.errors import Permanent

MAX_CELL = 5_000_000
"""Characters of one value; a row with a longer one is bad."""
MAX_LINE = 64 * 2**20
"""Bytes of a line of JSON."""


class DataRow(NamedTuple):
    """A row as it stands in the file."""

    line: int
    """From 1."""
    name: str
    """The row's own `id`, else its number: what pairs it with the same row of another run."""
    values: Mapping[str, Any]


class BadLine(NamedTuple):
    """A row that is left out."""

    line: int
    reason: str


Report = Callable[[BadLine], None]


def read_rows(path: Path, report: Report) -> Iterator[DataRow]:
    """The good rows, in order. Raises Permanent when the file cannot be read."""
    try:
        with path.open("rb") as file:
            rows = _csv(file, report) if path.suffix.lower() == ".csv" else _json(file, report)
            for number, (line, values) in enumerate(rows):
                problem = _problem(values)
                if problem:
                    report(BadLine(line, problem))
                else:
                    name = values.get("id", values.get("turn_id"))
                    yield DataRow(line, str(number) if name in (None, "") else str(name), values)
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror or error}") from error


def _problem(values: Any) -> str:
    if not isinstance(values, Mapping):
        return "not an object"
    for column, value in values.items():
        if isinstance(value, str) and len(value) > MAX_CELL:
            return f"column {column!r}: longer than {MAX_CELL:,} characters"
        if isinstance(value, str) and not _encodes(value):
            return f"column {column!r}: not UTF-8"
    return ""


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(file: BinaryIO, report: Report) -> Iterator[tuple[int, Any]]:
    """One object a line; a file that begins with `[` is one list of them."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
            if line.lstrip().startswith(b"["):
                yield from _list(line + file.read(), report)
                return
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            report(BadLine(number, f"longer than {MAX_LINE:,} bytes"))
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
        elif not line.isspace():
            try:
                yield number, json.loads(line.decode())
            except UnicodeDecodeError:
                report(BadLine(number, "not UTF-8"))
            except json.JSONDecodeError as error:
                report(BadLine(number, f"broken JSON: {error.msg}, character {error.pos + 1}"))
            except (ValueError, RecursionError):
                report(BadLine(number, "JSON is nested too deeply or has absurd numbers"))


def _list(text: bytes, report: Report) -> Iterator[tuple[int, Any]]:
    """The objects of a list; a row's line is its place in the list."""
    try:
        found = json.loads(text.decode())
    except json.JSONDecodeError as error:
        report(BadLine(error.lineno, f"broken JSON: {error.msg}"))
        return
    except (ValueError, RecursionError):
        report(BadLine(1, "no list of objects in UTF-8"))
        return
    yield from enumerate(found, 1)


def _csv(file: BinaryIO, report: Report) -> Iterator[tuple[int, Any]]:
    """Rows under the names of the first line. A cell that is empty is absent."""
    csv.field_size_limit(2 * MAX_LINE)
    # Bytes that are no UTF-8 become lone surrogates, which `_problem` finds in their cell.
    with io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as text:
        reader = csv.reader(text, strict=True)
        columns: list[str] | None = None
        while True:
            before = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                report(BadLine(before, f"broken CSV: {error}"))
                continue
            if cells is None:
                return
            if columns is None:
                columns = [name.strip() for name in cells]
            elif len(cells) == len(columns):
                pairs = zip(columns, cells, strict=True)
                yield before, {name: cell for name, cell in pairs if cell != ""}
            elif cells:
                report(BadLine(before, f"{len(cells)} cells, and {len(columns)} columns"))
