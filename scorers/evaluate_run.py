"""Evaluations on disk: a folder `evaluations/<id>` of the data folder with the run's record and
its results, so that it is found again, shown, and compared with another."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from assay.errors import Permanent
from scorers.evaluate import Result
from scorers.evaluate_summary import Summary

_decode = msgspec.json.Decoder(Result).decode


class EvaluationRun(msgspec.Struct, kw_only=True):
    """The record of an evaluation."""

    run_id: str
    created_at: int
    name: str
    description: str = ""
    tags: dict[str, str] = {}
    data: str = ""
    target: str = ""
    metrics: list[str] = []
    rows: int = 0
    bad_rows: int = 0
    seconds: float = 0.0
    summaries: list[Summary] = []


class EvaluationRuns:
    """The evaluations of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "evaluations"

    def create(self, name: str, description: str, tags: dict[str, str]) -> EvaluationRun:
        """A new run with a folder of its own, for its owner alone."""
        now = time.time_ns()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now / 1e9))
        run = EvaluationRun(
            run_id=f"{stamp}-{secrets.token_hex(2)}",
            created_at=now,
            name=name,
            description=description,
            tags=tags,
        )
        self.folder(run).mkdir(parents=True, mode=0o700)
        return run

    def folder(self, run: EvaluationRun) -> Path:
        return self._folder / run.run_id

    def results_file(self, run: EvaluationRun) -> Path:
        """JSON lines, a Result each."""
        return self.folder(run) / "results.jsonl"

    def save(self, run: EvaluationRun) -> None:
        """Put the record in place: from then on the run is listed."""
        path = self.folder(run) / "run.json"
        temporary = path.with_suffix(".new")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2))
        temporary.replace(path)

    def list(self) -> list[EvaluationRun]:
        """Every finished run, the oldest first. Raises Permanent for a record that is damaged."""
        found = []
        for path in self._folder.glob("*/run.json"):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=EvaluationRun))
            except (OSError, msgspec.DecodeError) as error:
                raise Permanent(f"{path}: not the record of an evaluation: {error}") from error
        return sorted(found, key=lambda run: run.created_at)

    def find(self, name: str) -> EvaluationRun | None:
        """The run whose id is `name` or begins so, else the latest of that name; none without."""
        runs = self.list()
        exact = [run for run in runs if run.run_id == name]
        begins = [run for run in runs if name and run.run_id.startswith(name)]
        named = [run for run in runs if run.name == name]
        found = exact or (begins if len(begins) == 1 else []) or named
        return found[-1] if found else None

    def results(self, run: EvaluationRun) -> Iterator[Result]:
        """The run's results in order. Raises Permanent when they cannot be read."""
        path = self.results_file(run)
        try:
            with path.open("rb") as lines:
                yield from map(_decode, lines)
        except (OSError, msgspec.DecodeError) as error:
            raise Permanent(f"{path}: no results of an evaluation: {error}") from error
