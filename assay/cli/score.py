"""`assay score`: rows of a data set in, TurnScores out as JSON lines in the same order."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from assay.cli.show import plain, print_lines
from assay.config import Config, load
from assay.errors import ConfigError, Permanent
from scorers.evaluate_data import BadLine, DataRow, rows_in
from scorers.plan import Plan
from scorers.registry import resolve
from scorers.score_rows import BadRow, score_rows


def run(file: str, metrics: str | None, path: Path | None) -> int:
    """Score the rows of `file` (`-`: standard input) by the comma-separated `metrics` (none: those
    of the settings). Bad rows go to standard error with file and line; 1 when there were any."""
    plan = plan_of(load(path), metrics)
    with contextlib.ExitStack() as stack:
        bad = Bad(file if file != "-" else "stdin")
        opened = stack.enter_context(_opened(file))
        print_lines(score(rows_in(opened, file, bad.report), plan, bad))
    if bad.count:
        print(f"assay: {bad.count} bad rows", file=sys.stderr)
    return int(bad.count > 0)


def plan_of(config: Config, metrics: str | None) -> Plan:
    """The plan for `metrics`. Raises ConfigError that names the position in the option."""
    if metrics is None:
        return resolve(config)
    names = [name.strip() for name in metrics.split(",")]
    empty = [f"--metrics.{i}: allowed: a name" for i, name in enumerate(names) if not name]
    if empty:
        raise ConfigError(empty)
    try:
        return resolve(config.model_copy(update={"metrics": names, "apps": {}}))
    except ConfigError as error:
        raise ConfigError([f"--{fault}" for fault in error.faults]) from error


class Bad:
    """Reports bad rows as they come, and counts them."""

    def __init__(self, file: str) -> None:
        self.count = 0
        self._file = file

    def report(self, row: BadLine) -> None:
        self.count += 1
        print(f"{self._file}:{row.line}: {plain(row.reason, 300)}", file=sys.stderr)


def score(rows: Iterable[DataRow], plan: Plan, bad: Bad) -> Iterator[Any]:
    """The TurnScores of each good row, in order, as soon as it is scored."""
    lines: deque[int] = deque()

    def values() -> Iterator[Any]:
        for row in rows:
            lines.append(row.line)
            yield row.values

    for result in score_rows(values(), plan):
        line = lines.popleft()
        if isinstance(result, BadRow):
            bad.report(BadLine(line, result.reason))
        else:
            yield result


@contextlib.contextmanager
def _opened(file: str) -> Iterator[BufferedReader]:
    if file == "-":
        yield cast(BufferedReader, sys.stdin.buffer)
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 - only the opening may fail as it says
    except OSError as error:
        raise Permanent(f"{file}: {error.strerror or error}") from error
    with opened:
        yield opened
