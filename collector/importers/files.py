"""The documents in a file of saved traces, one after the other, whatever the file's form.

Forms, told by content and never by name: one JSON document, JSON lines, an array of documents, one
OTLP protobuf request, requests each after its length in four bytes, as the OpenTelemetry
Collector's file exporter writes them, or a parquet table, each row a document. A file, and each
request after a length, may be packed by gzip or zstd. What cannot be read is reported with its
place, and reading goes on behind it.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import zstandard
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from assay.errors import Permanent

GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
LARGEST = 512 * 2**20
"""Bytes of one document; a longer one is reported and left out."""
_LENGTH = 4
_CHUNK = 1024
"""Bytes of zstd at a time: they unpack to 32 MB at most, 128 kB for each block of four bytes."""


class Problem(NamedTuple):
    """What could not be read."""

    file: str
    line: int
    """From 1; of a file without lines the document's number."""
    reason: str


Report = Callable[[Problem], None]
Document = bytes | Any
"""Protobuf as bytes; JSON as its value."""


def expand(paths: list[Path]) -> list[Path]:
    """The files that are meant: a folder means all in it, in the order of their names. Raises
    Permanent for a path that is not there."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(inner for inner in path.rglob("*") if inner.is_file())
        elif path.is_file():
            found.append(path)
        else:
            raise Permanent(f"{path}: no such file")
    return found


def documents(path: Path, report: Report) -> Iterator[tuple[int, Document]]:
    """Place and content of each document of the file. Raises Permanent when it cannot be opened."""
    place = 0
    try:
        with path.open("rb") as raw:
            if raw.read(4) == PARQUET:
                _check_end(raw, path)
                yield from enumerate(_rows(path), 1)
                return
            raw.seek(0)
            with _unpacked(raw) as stream:
                for place, document in _documents(path, stream, report):
                    yield place, document
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        report(Problem(str(path), place + 1, f"what was packed is broken: {error}"))
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror or error}") from error


def _documents(path: Path, stream: BinaryIO, report: Report) -> Iterator[tuple[int, Document]]:
    start = stream.read(_LENGTH)
    reader = cast(BinaryIO, io.BufferedReader(cast(Any, _Rest(start, stream)), 2**20))
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"[") or not text:
        yield from _json(path, reader, report)
    elif _is_length(start):
        yield from _lengths(path, reader, report)
    else:
        body = reader.read(LARGEST + 1)
        if len(body) > LARGEST:
            report(Problem(str(path), 1, f"larger than {LARGEST} bytes"))
        else:
            yield 1, body


def _check_end(raw: BinaryIO, path: Path) -> None:
    """Raises Permanent where the end of a parquet file is not that of a whole one: the engine
    panics on a length that reaches beyond the file's beginning."""
    size = raw.seek(0, io.SEEK_END)
    raw.seek(max(0, size - 8))
    end = raw.read()
    if end[4:] != PARQUET or int.from_bytes(end[:4], "little") > size - 12:
        raise Permanent(f"{path}: no whole parquet file")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a parquet file, whose name must end in .parquet."""
    quoted = str(path.absolute()).replace("'", "''")
    builder = QueryBuilder()
    try:
        builder.execute(
            f"CREATE EXTERNAL TABLE rows STORED AS PARQUET LOCATION '{quoted}'"
        ).read_all()
        for batch in builder.execute("SELECT * FROM rows"):
            columns = [batch.column(name).to_pylist() for name in batch.schema.names]
            for row in zip(*columns, strict=True):
                yield dict(zip(batch.schema.names, row, strict=True))
    except DeltaError as error:
        raise Permanent(f"{path}: {str(error).splitlines()[0]}") from error


class _Rest(io.RawIOBase):
    """A stream whose first bytes were read already. It gives what there is: of a file that is cut,
    all that comes before the fault."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        self._start, self._rest = start, cast(io.BufferedReader, rest)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._start or self._rest.read1(len(buffer))
        self._start = piece[len(buffer) :] if self._start else b""
        piece = piece[: len(buffer)]
        buffer[: len(piece)] = piece
        return len(piece)


class _Zstd(io.RawIOBase):
    """Frames of zstd, one after the other. Raises EOFError where the file ends within one, which
    the package's own reader takes for the end."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self._frame = raw, zstandard.ZstdDecompressor().decompressobj()
        self._packed, self._held = raw.read(_CHUNK), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held and self._packed:
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._held = self._frame.decompress(self._packed)
            self._packed = self._frame.unused_data or self._raw.read(_CHUNK)
        if not self._held and not self._frame.eof:
            raise EOFError("it ends within a frame")
        piece, self._held = self._held[: len(buffer)], self._held[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def _unpacked(raw: BinaryIO) -> BinaryIO:
    start = raw.read(4)
    raw.seek(0)
    if start[:2] == GZIP:
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if start == ZSTD:
        return cast(BinaryIO, io.BufferedReader(_Zstd(raw)))
    return cast(BinaryIO, io.BufferedReader(cast(Any, raw)))


def _is_length(start: bytes) -> bool:
    """A request begins with its first field's tag, which as a length would be over 160 MB."""
    return len(start) == _LENGTH and start[0] < 0x0A


def _lengths(path: Path, reader: BinaryIO, report: Report) -> Iterator[tuple[int, Document]]:
    number = 0
    while start := reader.read(_LENGTH):
        number += 1
        size = int.from_bytes(start, "big")
        body = reader.read(size) if size <= LARGEST else b""
        if len(start) < _LENGTH or len(body) < size:
            report(Problem(str(path), number, "the file ends within a request"))
            return
        if body.startswith(ZSTD):
            try:
                body = zstandard.ZstdDecompressor().stream_reader(body).read(LARGEST)
            except zstandard.ZstdError as error:
                report(Problem(str(path), number, str(error)))
                continue
        if body[:1] in (b"{", b"["):
            for value in _decoded(path, number, body, report):
                yield number, value
        else:
            yield number, body


def _json(path: Path, reader: BinaryIO, report: Report) -> Iterator[tuple[int, Document]]:
    """The documents of JSON lines; where the first line is not a whole one, the file is."""
    number = 0
    while line := reader.readline(LARGEST):
        number += 1
        if len(line) == LARGEST:
            report(Problem(str(path), number, f"longer than {LARGEST} bytes"))
            while line and not line.endswith(b"\n"):
                line = reader.readline(LARGEST)
            continue
        if not line.strip():
            continue
        if number == 1 and not _is_whole(line):
            rest = reader.read(LARGEST)
            for value in _decoded(path, 1, line + rest, report):
                yield 1, value
            return
        for value in _decoded(path, number, line, report):
            yield number, value


def _is_whole(line: bytes) -> bool:
    """Whether a first line is a document, or a broken one among others: not when it only opens."""
    try:
        json.loads(line.decode("utf-8-sig", "replace"), strict=False)
    except json.JSONDecodeError as error:
        return error.pos < len(line.decode("utf-8", "replace").rstrip())
    except RecursionError:
        return True
    return True


def _decoded(path: Path, number: int, text: bytes, report: Report) -> list[Any]:
    """The documents in a JSON text: its value, or the items of an array."""
    try:
        value = json.loads(text.rstrip().decode("utf-8-sig", "replace"), strict=False)
    except json.JSONDecodeError as error:
        report(Problem(str(path), number + error.lineno - 1, f"broken JSON: {error.msg}"))
        return []
    except (ValueError, RecursionError):
        report(Problem(str(path), number, "JSON is nested too deeply or has absurd numbers"))
        return []
    return value if isinstance(value, list) else [value]
