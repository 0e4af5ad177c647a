"""The embedded log's SQLite file: its tables, how it is opened and checked, what its errors mean.

Tables. `partitions` has a row for each partition of a topic: the offsets kept are `first` up to
`next`, without holes. Its row 0 counts the transactions, in `next`. The id of a record is its
partition's id times 2^40 plus its offset. Rows carry a CRC of what they say, since SQLite itself
notices only some kinds of damage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from assay.errors import AssayError, Permanent, Retryable

APPLICATION_ID = 0x41534159
VERSION = 1
PAGE_SIZE = 8192
"""Larger pages gain nothing for long values and cost the more for scattered small ones."""
CHECKPOINT_PAGES = 8192
"""The write-ahead log is copied into the file when it holds this many pages (64 MiB)."""
OFFSET_BITS = 40
CACHE_KIB, READ_CACHE_KIB = 32_000, 4_000

SCHEMA = """
CREATE TABLE partitions (
    id INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    first INTEGER NOT NULL, next INTEGER NOT NULL, timestamp INTEGER NOT NULL,
    crc INTEGER NOT NULL
);
INSERT INTO partitions VALUES (0, '', 0, 0, 0, 0, 0);
CREATE TABLE records (
    id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL, codec INTEGER NOT NULL,
    crc INTEGER NOT NULL, key BLOB, headers BLOB, value BLOB NOT NULL
);
CREATE TABLE progress (
    name TEXT NOT NULL, id INTEGER NOT NULL, next INTEGER NOT NULL, beyond TEXT NOT NULL,
    seen INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (name, id)
) WITHOUT ROWID;
CREATE TABLE state (
    name TEXT NOT NULL, partition INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
    expires INTEGER, crc INTEGER NOT NULL, PRIMARY KEY (name, partition, key)
) WITHOUT ROWID;
CREATE INDEX state_expires ON state (expires) WHERE expires IS NOT NULL;
"""

_RETRYABLE = {
    sqlite3.SQLITE_BUSY: "the log is busy",
    sqlite3.SQLITE_LOCKED: "the log is busy",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk failed",
    sqlite3.SQLITE_PROTOCOL: "the log is busy",
    sqlite3.SQLITE_INTERRUPT: "interrupted",
}
_DAMAGE = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_CONSTRAINT,
}
_READ_FAULTS = {sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS}


def damaged(path: Path, what: str) -> Permanent:
    """The error for a file that does not hold what was written to it."""
    return Permanent(
        f"{path} is damaged ({what}). Stop Assay, then restore the whole data folder from a backup "
        f"or, to start empty, move every file {path.stem}.* away; `sqlite3 FILE .recover` may save "
        "what is left"
    )


def translate(error: sqlite3.Error, path: Path) -> AssayError:
    """What an error of SQLite means here."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by Python's module itself
        unreadable = isinstance(error, sqlite3.OperationalError)  # text that is no UTF-8
        return damaged(path, str(error)) if unreadable else Permanent(f"{path}: {error}")
    if code in _READ_FAULTS or code & 0xFF in _DAMAGE:
        return damaged(path, str(error))
    if code & 0xFF in _RETRYABLE:
        return Retryable(f"{path}: {_RETRYABLE[code & 0xFF]}: {error}", retry_after=1.0)
    return Permanent(f"{path}: {error}")


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """SQLite's errors leave this block as ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except UnicodeDecodeError as error:  # a text column that is no UTF-8
        raise damaged(path, str(error)) from error


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode that any one thread at a time may use."""
    mode = "ro" if read_only else "rwc"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=1.0,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute(f"PRAGMA cache_size = -{READ_CACHE_KIB if read_only else CACHE_KIB}")
    return connection


def open_database(path: Path) -> sqlite3.Connection:
    """The writer's connection to a checked file, made when absent.

    Raises `Permanent` for a file that is not ours, of another version, or damaged.
    """
    with mapped(path):
        path.touch(mode=0o600)
        connection = connect(path)
        try:
            if _scalar(connection, "SELECT count(*) FROM sqlite_schema") == 0:
                _create(connection, path)
            _check(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _create(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise Permanent(f"the file system of {path.parent} cannot hold the log: set data_dir")
    connection.executescript(
        f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
        f"{SCHEMA} COMMIT;"
    )


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if _scalar(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise Permanent(f"{path} is a database of another program: set another data_dir")
    version = _scalar(connection, "PRAGMA user_version")
    if version != VERSION:
        raise Permanent(
            f"{path} has layout {version} and this Assay reads layout {VERSION}: start the Assay "
            "that wrote it, or set another data_dir"
        )
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    checkpoint(connection)
    expected = _scalar(connection, "PRAGMA page_count") * _scalar(connection, "PRAGMA page_size")
    if path.stat().st_size < expected:
        raise damaged(path, f"{path.stat().st_size} bytes of {expected} are there")
    if _schema(connection) != _schema_of_ours():
        raise damaged(path, "its tables are not as they were made")
    for table in ("partitions", "progress", "state"):  # a lost row of these would pass unnoticed
        (verdict,) = connection.execute(f"PRAGMA integrity_check({table})").fetchone()
        if verdict != "ok":
            raise damaged(path, str(verdict))


def _schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
    ).fetchall()


def _schema_of_ours() -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return _schema(connection)


def checkpoint(connection: sqlite3.Connection) -> None:
    """Copy what the write-ahead log holds into the file, and make the log empty."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _scalar(connection: sqlite3.Connection, statement: str) -> int:
    return int(connection.execute(statement).fetchone()[0])
