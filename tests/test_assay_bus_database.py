from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from assay.bus.database import PAGE_SIZE, open_database, translate
from assay.errors import Permanent, Retryable

PATH = Path("/data/bus.sqlite")
OTHERS = """ERROR INTERNAL PERM ABORT LOCKED NOMEM READONLY INTERRUPT FULL PROTOCOL SCHEMA TOOBIG
CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB"""
CODES = {
    name: getattr(sqlite3, name)
    for name in dir(sqlite3)
    if name.startswith(("SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_CORRUPT", "SQLITE_CANTOPEN"))
} | {f"SQLITE_{name}": getattr(sqlite3, f"SQLITE_{name}") for name in OTHERS.split()}
DAMAGE = ("CORRUPT", "NOTADB", "FORMAT", "CONSTRAINT", "SHORT_READ")
RETRYABLE = ("BUSY", "LOCKED", "NOMEM", "FULL", "IOERR", "PROTOCOL", "INTERRUPT")


@pytest.mark.parametrize("name", sorted(CODES))
def test_every_error_of_sqlite_has_one_meaning(name):
    """Damage and misuse are permanent; what time or space can cure is retryable, with a delay."""
    error = sqlite3.OperationalError("something")
    error.sqlite_errorcode = CODES[name]
    mapped = translate(error, PATH)
    if any(word in name for word in DAMAGE):
        assert isinstance(mapped, Permanent)
        assert "is damaged" in str(mapped) and "restore" in str(mapped)
    elif any(word in name.removesuffix("_FULLPATH") for word in RETRYABLE):
        assert isinstance(mapped, Retryable) and mapped.retry_after
    else:
        assert isinstance(mapped, Permanent)
    assert str(PATH) in str(mapped)


def test_unreadable_text_is_damage():
    """Text that is no UTF-8 comes as an error without a code, and is damage."""
    with sqlite3.connect(":memory:") as connection, pytest.raises(sqlite3.OperationalError) as info:
        connection.execute("SELECT CAST(x'ff' AS TEXT)").fetchone()
    connection.close()
    assert "is damaged" in str(translate(info.value, PATH))


def test_file_that_is_no_database_is_refused(tmp_path):
    """Other bytes in the file's place are refused with what to do, and left as they are."""
    path = tmp_path / "bus.sqlite"
    path.write_bytes(b"something else " * 1000)
    with pytest.raises(Permanent, match="move every file bus"):
        open_database(path)
    assert path.read_bytes() == b"something else " * 1000


def test_database_of_another_program_is_refused(tmp_path):
    """A database that is not a log is refused and not written to."""
    path = tmp_path / "bus.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(Permanent, match="another program"):
        open_database(path)


def test_start_that_was_killed_is_taken_up(tmp_path):
    """A file that a killed start left without tables is completed by the next."""
    path = tmp_path / "bus.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.stat().st_size > 0
    connection = open_database(path)
    assert connection.execute("SELECT count(*) FROM partitions").fetchone() == (1,)
    connection.close()


def test_other_layout_is_refused(tmp_path):
    """A log of another layout is refused by its number."""
    path = tmp_path / "bus.sqlite"
    connection = open_database(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(Permanent, match="layout 99"):
        open_database(path)


def test_a_table_made_otherwise_is_damage(tmp_path):
    """A byte flipped in what SQLite keeps of the tables' columns is recognised at the start, or
    changes nothing."""
    path = tmp_path / "bus.sqlite"
    open_database(path).close()
    good = path.read_bytes()
    middle = good.index(b"CREATE TABLE records")
    recognised = 0
    for byte in range(middle - 450, middle + 450, 7):
        data = bytearray(good)
        data[byte] ^= 1
        path.write_bytes(data)
        try:
            connection = open_database(path)
        except Permanent as error:
            assert "is damaged" in str(error)
            recognised += 1
        else:
            columns = connection.execute("PRAGMA table_info(records)").fetchall()
            assert columns[-1][1] == "value"
            connection.close()
    assert recognised > 50


def test_truncated_file_is_recognised(tmp_path):
    """A file that lost its end is refused at start."""
    path = tmp_path / "bus.sqlite"
    connection = open_database(path)
    connection.execute("INSERT INTO state VALUES ('g', 0, 'k', zeroblob(300000), NULL, 0)")
    connection.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - PAGE_SIZE * 3)
    with pytest.raises(Permanent, match="is damaged"):
        open_database(path)


def test_settings_hold(tmp_path):
    """Commits are synced, space can be given back, and nobody else may read the file."""
    path = tmp_path / "bus.sqlite"
    connection = open_database(path)

    def pragma(name):
        return connection.execute(f"PRAGMA {name}").fetchone()[0]

    assert (pragma("journal_mode"), pragma("synchronous"), pragma("auto_vacuum")) == ("wal", 2, 2)
    assert pragma("page_size") == PAGE_SIZE
    assert path.stat().st_mode & 0o077 == 0
    connection.close()
