"""Log lines and process series: their form, and what they must never carry."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from assay.errors import Permanent
from assay.telemetry import Trouble, configure_logging, error_text, process_registry


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_is_a_json_object_where_nobody_looks() -> None:
    """Time, level, logger, event and the fields of the call."""
    out = io.StringIO()
    configure_logging(stream=out)
    logging.getLogger("assay.x").info("started %s", "well", extra={"port": 1})
    logging.getLogger("other").info("not ours")
    logging.getLogger("assay.x").debug("too much")
    line = json.loads(out.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "logger": "assay.x", "event": "started well", "port": 1}


def test_a_terminal_gets_words() -> None:
    """The event and its fields, in colour where it is a warning; one line."""
    out = Terminal()
    configure_logging(stream=out, verbose=True)
    logging.getLogger("collector.x").debug("read", extra={"spans": 2})
    logging.getLogger("collector.x").warning("late")
    first, second = out.getvalue().splitlines()
    assert first.endswith("read  spans=2")
    assert "\x1b[33mlate\x1b[0m" in second


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_texts_of_foreign_errors_are_not_logged(stream: type[io.StringIO]) -> None:
    """Of an error that is not ours only type and place are written; ours are written whole."""
    out = stream()
    configure_logging(stream=out)
    try:
        int("CANARY")
    except ValueError:
        logging.getLogger("assay.x").exception("failed")
    assert "CANARY" not in out.getvalue()
    assert "ValueError" in out.getvalue() and __file__ in out.getvalue()
    assert error_text(Permanent("port taken")) == "port taken"


def test_a_lasting_error_is_logged_when_it_begins_changes_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not each time; the end tells how often."""
    trouble = Trouble(logging.getLogger("assay.t"), "the store")
    with caplog.at_level(logging.INFO, "assay.t"):
        trouble.worked()
        for text in ("away", "away", "full", "full"):
            trouble.failed(Permanent(text))
        assert trouble.active
        trouble.worked()
        trouble.worked()
    seen = [(r.getMessage(), getattr(r, "error", None)) for r in caplog.records]
    assert seen == [
        ("the store fails", "away"),
        ("the store fails", "full"),
        ("the store works again", None),
    ]
    assert vars(caplog.records[-1])["failures"] == 4


def test_the_process_exposes_itself() -> None:
    """Memory, handles and the version, on a registry of its own."""
    page = generate_latest(process_registry()).decode()
    names = {family.name for family in text_string_to_metric_families(page)}
    assert {"process_resident_memory_bytes", "process_open_fds", "assay_build_info"} <= names
