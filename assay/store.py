"""Delta tables of turns and scores, in a folder or an object store: any engine reads them.

Writing is exactly-once over replays: with the rows, in the same Delta commit, goes for each source
(a topic's partition) the next offset, so that rows which are offered again are recognised.
All methods are safe to call from the event loop; the work is done in threads.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from arro3.core import RecordBatch, Table
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    QueryBuilder,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
)

from assay.errors import Permanent, Retryable
from assay.store_query import Desk, Question
from assay.store_tables import LABELS, SCORES, SCORES_LATEST, TURNS, TableSpec

TABLES = {spec.name: spec for spec in (TURNS, SCORES, LABELS)}
MOST_ROWS = 100_000
SMALL_FILES = 16
"""Files of one date above which they are compacted."""
TARGET_BYTES = 64 * 2**20
UNREFERENCED_HOURS = 1
"""How long a replaced file stays for readers that began before."""

_SETTINGS = {
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": f"interval {UNREFERENCED_HOURS} hours",
}
_READS = re.compile(r"\s*(\(\s*)*(select|with|values|describe|explain\s+(select|with))\b", re.I)


class Source(NamedTuple):
    """Rows of one source, in order: `offsets[i]` is where `rows[i]` came from; it may repeat."""

    name: str
    offsets: Sequence[int]
    rows: Sequence[Any] | Table
    """Records as the table takes them, or the rows that its `arrow` made of them."""
    next_offset: int
    """After the last record read, whether or not it gave rows."""


class Appended(NamedTuple):
    rows: int
    replayed: int
    """Rows that were stored before."""


class Store:
    """The tables under `url`: a folder, or what deltalake's object stores understand."""

    def __init__(
        self, url: str, *, options: dict[str, str] | None = None, retention: float = 90 * 86400.0
    ) -> None:
        self._url = url.rstrip("/")
        self._options = options or {}
        self._retention = retention
        self._tables: dict[str, DeltaTable] = {}
        self._desk = Desk()
        self._locks = {name: asyncio.Lock() for name in TABLES}

    async def append(self, table: str, sources: Sequence[Source]) -> Appended:
        """Add the rows that are not stored yet, all in one commit.

        Raises `Retryable` when the store is away or another writer was faster, and then nothing
        was added that a second call would add again.
        """
        async with self._locks[table]:
            return await asyncio.to_thread(self._append, TABLES[table], sources)

    async def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a select over `turns`, `scores` and the view `scores_latest`.

        Raises `Permanent` for anything but one reading statement, for what the engine refuses, and
        for more than MOST_ROWS rows.
        """
        if not _READS.match(sql):
            raise Permanent("only a select can be asked")
        return await asyncio.to_thread(self._query, sql)

    async def ask(self, sql: str) -> list[dict[str, Any]]:
        """As `query`, for SQL that is not ours: apart from this process, and bounded in time."""
        if not _READS.match(sql):
            raise Permanent("only a select can be asked")
        return await self._desk.ask(Question(self._url, self._options, sql))

    async def stream(self, sql: str) -> AsyncGenerator[list[dict[str, Any]], None]:
        """As `query`, but without a bound: the rows come in batches, as the engine has them."""
        if not _READS.match(sql):
            raise Permanent("only a select can be asked")
        batches = await asyncio.to_thread(self._batches, sql)
        while (batch := await asyncio.to_thread(self._next, batches)) is not None:
            yield batch

    async def write_file(self, sql: str, path: Path, kind: str) -> int:
        """The rows of a select as the file `path` of kind csv, json (lines) or parquet; how many.

        Raises as `query`, and when the file cannot be written.
        """
        if not _READS.match(sql):
            raise Permanent("only a select can be asked")
        return await asyncio.to_thread(self._write_file, sql, path, kind)

    async def position(self, table: str, source: str) -> int:
        """The next offset of `source` that `append` would store; 0 when it never stored any."""

        def read() -> int:
            with self._mapped():
                return self._open(TABLES[table]).transaction_version(source) or 0

        return await asyncio.to_thread(read)

    async def maintain(self) -> None:
        """Join small files, drop dates beyond the retention, delete what nothing refers to."""
        for spec in TABLES.values():
            await asyncio.to_thread(self._maintain, spec)

    # In threads.

    def _open(self, spec: TableSpec) -> DeltaTable:
        """The table as of now; created when it is not there."""
        place, options = f"{self._url}/{spec.name}", self._options or None
        with self._mapped():
            try:
                return DeltaTable.create(
                    place,
                    spec.schema(),
                    mode="ignore",
                    partition_by=["date"],
                    configuration=_SETTINGS
                    | {"delta.dataSkippingStatsColumns": ",".join(spec.statistics)},
                    storage_options=options,
                )
            except CommitFailedError:
                # Another process has created it at the same moment.
                return DeltaTable(place, storage_options=options)

    def _append(self, spec: TableSpec, sources: Sequence[Source]) -> Appended:
        with self._mapped():
            # Kept only after a success: a table that was deleted or replaced is opened anew.
            table = self._tables.pop(spec.name, None)
            if table is None:
                table = self._open(spec)
            else:
                table.update_incremental()
            batches: list[RecordBatch] = []
            transactions: list[Transaction] = []
            offered = added = 0
            for source in sources:
                stored = table.transaction_version(source.name) or 0
                offered += len(source.offsets)
                if source.next_offset > stored:
                    transactions.append(Transaction(source.name, source.next_offset))
                    first = bisect_left(source.offsets, stored)
                    added += len(source.offsets) - first
                    batches += _rows_from(spec, source.rows, first)
            if added:
                write_deltalake(
                    table,
                    Table.from_batches(batches),
                    mode="append",
                    schema_mode="merge",
                    commit_properties=CommitProperties(app_transactions=transactions),
                    writer_properties=_written(spec),
                )
            self._tables[spec.name] = table
            return Appended(added, offered - added)

    def _query(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        batches = self._batches(sql)
        while (batch := self._next(batches)) is not None:
            if len(rows) + len(batch) > MOST_ROWS:
                raise Permanent(f"more than {MOST_ROWS:,} rows: add a limit")
            rows += batch
        return rows

    def _batches(self, sql: str) -> Iterator[RecordBatch]:
        builder = QueryBuilder()
        for spec in TABLES.values():
            builder.register(spec.name, self._open(spec))
        try:
            builder.execute(f"CREATE VIEW scores_latest AS {SCORES_LATEST}").read_all()
            return iter(builder.execute(sql))
        except DeltaError as error:
            raise Permanent(self._text(error)) from error

    def _write_file(self, sql: str, path: Path, kind: str) -> int:
        quoted = str(path.absolute()).replace("'", "''")
        rows = self._next(self._batches(f"COPY ({sql}) TO '{quoted}' STORED AS {kind.upper()}"))
        return int(rows[0]["count"]) if rows else 0

    def _next(self, batches: Iterator[RecordBatch]) -> list[dict[str, Any]] | None:
        """The rows of the next batch; none after the last."""
        try:
            batch = next(batches, None)
        except DeltaError as error:
            raise Permanent(self._text(error)) from error
        if batch is None:
            return None
        names = batch.schema.names
        columns = [batch.column(name).to_pylist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _maintain(self, spec: TableSpec) -> None:
        with self._mapped():
            table = self._open(spec)
            oldest = (datetime.now(UTC) - timedelta(seconds=self._retention)).date()
            files = Counter(_dates(table))
            if any(date < oldest for date in files):
                table.delete(f"date < '{oldest.isoformat()}'")
            for date, count in files.items():
                if count > SMALL_FILES and date >= oldest:
                    table.optimize.compact(
                        partition_filters=[("date", "=", date.isoformat())],
                        target_size=TARGET_BYTES,
                    )
            table.vacuum(
                retention_hours=UNREFERENCED_HOURS, dry_run=False, enforce_retention_duration=False
            )

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except (SchemaMismatchError, DeltaProtocolError) as error:
            raise Permanent(f"the table is not one that this version writes: {error}") from error
        except (DeltaError, OSError) as error:
            raise Retryable(f"the store is away: {self._text(error)}") from error

    def _text(self, error: Exception) -> str:
        """What `error` says, without query strings and without the settings' secrets."""
        text = re.sub(r"\?\S+=\S+", "?...", str(error).strip() or type(error).__name__)
        for secret in self._options.values():
            text = text.replace(secret, "...") if len(secret) > 3 else text
        return text.splitlines()[0][:300]


def _rows_from(spec: TableSpec, rows: Sequence[Any] | Table, first: int) -> list[RecordBatch]:
    """The rows from the one at `first` on."""
    if isinstance(rows, Table):
        return rows.slice(first).to_batches()
    return spec.arrow(rows[first:]).to_batches() if rows[first:] else []


def _written(spec: TableSpec) -> WriterProperties:
    """How files are written: half the time, and the size, of what is usual.

    Statistics are kept only of the columns by which files are left out, and not of every page.
    """
    return WriterProperties(
        compression="ZSTD",
        compression_level=1,
        default_column_properties=ColumnProperties(statistics_enabled="NONE"),
        column_properties={
            name: ColumnProperties(statistics_enabled="CHUNK") for name in spec.statistics
        },
    )


def _dates(table: DeltaTable) -> list[date]:
    """The date of every file of the table."""
    actions = Table.from_arrow(table.get_add_actions())
    return [partition["date"] for partition in actions.column("partition").to_pylist()]
