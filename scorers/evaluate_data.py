"""Data sets: the rows of a JSON-lines, JSON, CSV or TSV file, each with the line that it begins on.

A row that cannot be read is reported with its line and left out; the rest is read.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader, TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from assay.errors import Permanent

MAX_CELL = 5_000_000
"""Characters of one value; a row with a longer one is bad."""
MAX_LINE = 64 * 2**20
"""Bytes of a line of JSON."""
GZIP, UTF_16 = b"\x1f\x8b", (b"\xff\xfe", b"\xfe\xff")
DELIMITERS = ",;\t"
_QUOTED = re.compile(r'"[^"]*"')


class DataRow(NamedTuple):
    """A row as it stands in the file."""

    line: int
    """From 1."""
    name: str
    """The row's own `id`, else its number: what pairs it with the same row of another run. The
    second row with an id is `id/2`."""
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
            yield from rows_in(file, path.name, report)
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror or error}") from error


def rows_in(file: BufferedReader, name: str, report: Report) -> Iterator[DataRow]:
    """The same of an open file, as they come; `name` tells its form. It may be packed by gzip."""
    if file.peek(2)[:2] == GZIP:
        file = cast(BufferedReader, gzip.GzipFile(fileobj=file))
        name = name.lower().removesuffix(".gz")
    line, seen = 0, Counter[str]()
    try:
        if file.peek(2)[:2] in UTF_16:
            report(BadLine(1, "the text is UTF-16: save it as UTF-8"))
            return
        table = name.lower().endswith((".csv", ".tsv"))
        for number, (line, values) in enumerate((_csv if table else _json)(file, report)):
            problem = _problem(values)
            if problem:
                report(BadLine(line, problem))
            else:
                own = values.get("id", values.get("turn_id"))
                key = str(number) if own in (None, "") else str(own)
                seen[key] += 1
                times = "" if seen[key] == 1 else f"/{seen[key]}"
                yield DataRow(line, key + times, values)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        report(BadLine(line + 1, f"what was packed is broken: {error}"))


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
    """One object a line; a file that begins with `[` is one list of them, and one that begins with
    `{` alone on its line is one object."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
            if line.lstrip().startswith(b"[") or line.strip() == b"{":
                yield from _whole(line + file.read(), report)
                return
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            report(BadLine(number, f"longer than {MAX_LINE:,} bytes"))
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
        elif not line.isspace():
            try:
                yield number, _loads(line)
            except json.JSONDecodeError as error:
                report(BadLine(number, f"broken JSON: {error.msg}, character {error.pos + 1}"))
            except (ValueError, RecursionError) as error:
                report(BadLine(number, _unreadable(error)))


def _whole(text: bytes, report: Report) -> Iterator[tuple[int, Any]]:
    """The objects of a list, or the one object; a row's line is its place in the list."""
    try:
        found = _loads(text)
    except json.JSONDecodeError as error:
        report(BadLine(error.lineno, f"broken JSON: {error.msg}"))
    except (ValueError, RecursionError) as error:
        report(BadLine(1, _unreadable(error)))
    else:
        yield from enumerate(found if isinstance(found, list) else [found], 1)


def _loads(text: bytes) -> Any:
    """The value of a JSON text; NaN and infinities, which JSON does not have, are null."""
    return json.loads(text.decode(), parse_constant=lambda _: None)


def _unreadable(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return "JSON is nested too deeply or has absurd numbers"


def _csv(file: BinaryIO, report: Report) -> Iterator[tuple[int, Any]]:
    """Rows under the names of the first line, parted by what parts these. An empty cell, and a cell
    without a name, is absent."""
    csv.field_size_limit(2 * MAX_LINE)
    # Bytes that are no UTF-8 become lone surrogates, which `_problem` finds in their cell.
    with TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as text:
        first = text.readline()
        bare = _QUOTED.sub("", first)
        delimiter = max(DELIMITERS, key=bare.count)
        reader = csv.reader(chain([first], text), delimiter=delimiter, strict=True)
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
                problem = _problem_of_names(columns)
                if problem:
                    report(BadLine(before, problem))
                    return
            elif len(cells) == len(columns):
                pairs = zip(columns, cells, strict=True)
                yield before, {name: cell for name, cell in pairs if name and cell != ""}
            elif cells:
                report(BadLine(before, f"{len(cells)} cells, and {len(columns)} columns"))


def _problem_of_names(columns: list[str]) -> str:
    if not all(map(_encodes, columns)):
        return "the names of the columns are not UTF-8"
    twice = [name for name, times in Counter(filter(None, columns)).items() if times > 1]
    return f"several columns are named {twice[0]!r}" if twice else ""
