"""What Assay says about itself: log lines and the series of the process.

Lines are for people on a terminal and JSON objects elsewhere. They carry no content of any trace
and no secret: of an exception that is not Assay's own only the type and the place are written,
because texts of foreign errors quote what they choked on. Records are counted, not logged; an
error that goes on is logged when it begins, changes and ends.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from assay import __version__, series
from assay.errors import AssayError

_OWN = ("assay", "collector", "scorers", "exporters", "dashboards")
_STANDARD = frozenset(vars(logging.makeLogRecord({})))
_COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m"}


def error_text(error: BaseException) -> str:
    """What may be logged of an error: all of ours, the type of any other."""
    return str(error) if isinstance(error, AssayError) else type(error).__name__


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the call gave as `extra`, and what may be told of its exception."""
    fields = {k: v for k, v in vars(record).items() if k not in _STANDARD and k != "message"}
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        fields["error"] = error_text(error)
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        fields["at"] = " < ".join(f"{f.name} {f.filename}:{f.lineno}" for f in reversed(frames))
    return fields


class JsonLines(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, event, and the fields of the call."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        return json.dumps(line | _fields(record), default=str)


class Human(logging.Formatter):
    """Local time, the event, and `key=value` pairs; warnings and errors in colour."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        pairs = "".join(f"  {key}={value}" for key, value in _fields(record).items())
        start = _COLOURS.get(record.levelname, "")
        return f"{moment} {start}{record.getMessage()}{pairs}{chr(27) + '[0m' if start else ''}"


def configure_logging(*, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Send our lines, and warnings of libraries, to `stream` (default: standard error)."""
    stream = stream if stream is not None else sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Human() if stream.isatty() else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in _OWN:
        logging.getLogger(name).setLevel(logging.DEBUG if verbose else logging.INFO)


class Trouble:
    """An error that may go on for long: logged when it begins, changes, and ends."""

    def __init__(self, logger: logging.Logger, what: str) -> None:
        self._logger = logger
        self._what = what
        self._text: str | None = None
        self._times = 0

    @property
    def active(self) -> bool:
        return self._text is not None

    def failed(self, error: BaseException) -> None:
        """It failed. Written only when it worked before or failed in another way."""
        text = error_text(error)
        self._times += 1
        if text != self._text:
            self._text = text
            self._logger.warning("%s fails", self._what, extra={"error": text})

    def worked(self) -> None:
        """It worked. Written only when it failed before."""
        if self._text is not None:
            self._logger.info("%s works again", self._what, extra={"failures": self._times})
            self._text, self._times = None, 0


def process_registry() -> CollectorRegistry:
    """A fresh registry with the series of this process: memory, handles, collector, version."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    series.instrument(registry, series.BUILD_INFO).labels(__version__).set(1)
    return registry
