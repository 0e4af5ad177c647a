"""Backfill runs on disk: what each is to do, with which settings, and how far it is.

A run is a folder `backfills/<id>` of the data folder. `run.json` is replaced as a whole; `lock` is
held by the process that works on the run; `cancel` asks that process to stop. Which scores are
done stands in the store alone: the record's counts are for people.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay.config import Config
from assay.errors import ConfigError, Permanent

State = Literal["planned", "running", "done", "limited", "cancelled"]
"""`limited`: stopped at its limit, with turns left."""
FROZEN = ("metrics", "apps", "prices", "judge")
"""Settings that a run keeps as they were when it was made."""


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """Which turns a run is about."""

    kind: Literal["store", "files", "kafka"] = "store"
    files: tuple[str, ...] = ()
    since: int = 0
    until: int = 0
    """Nanoseconds since the Unix epoch, by the end of the turn; 0: no bound."""
    app: str | None = None
    when: str | None = None
    sample: float = 1.0
    """Share of the turns, by their own draw, so that samples are nested and weighted as live."""

    def __post_init__(self) -> None:
        if not 0.0 < self.sample <= 1.0:
            raise ValueError("sample: allowed: above 0, at most 1")


class Counts(msgspec.Struct, kw_only=True):
    """How far a run is; `turns` and what follows were counted over all its processes."""

    turns: int = 0
    """Turns that were scored."""
    conversations: int = 0
    """Conversations that were scored as such."""
    scores: int = 0
    """Rows written."""
    errors: int = 0
    """Rows whose outcome is `error`."""
    unasked: int = 0
    """Entries that a condition or a ratio left out: they have no row."""
    judge_calls: int = 0
    cost: float = 0.0
    """US dollars."""
    seconds: float = 0.0
    left: int = 0
    """Turns and conversations beyond the limit."""


class Run(msgspec.Struct, kw_only=True):
    """The record of a run."""

    run_id: str
    created_at: int
    selected: Selected
    settings: dict[str, Any]
    """`FROZEN` settings, secrets as stars."""
    scorers: list[tuple[str, str, str, str]]
    """Metric, subject, engine and version of every entry."""
    limit: int | None = None
    rescore: bool = False
    share: float = 1.0
    """Part of the judge's budget and concurrency that the run may use."""
    via: Literal["here", "kafka"] = "here"
    """Whose processes score: this machine's, or the fleet's."""
    state: State = "planned"
    counts: Counts = msgspec.field(default_factory=Counts)
    finished_at: int = 0


class Runs:
    """The runs of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "backfills"

    def folder(self, run_id: str) -> Path:
        return self._folder / run_id

    def list(self) -> list[Run]:
        """Every run, the oldest first."""
        found = [_read(path) for path in self._folder.glob("*/run.json")]
        return sorted(found, key=lambda run: run.created_at)

    def find(self, name: str) -> Run:
        """The run whose id is or begins with `name`. Raises Permanent unless there is just one."""
        found = [run for run in self.list() if run.run_id.startswith(name)]
        exact = [run for run in found if run.run_id == name]
        if len(exact or found) != 1:
            problem = "no backfill" if not found else "several backfills"
            raise Permanent(f"{problem} {name}: `assay backfill list` shows them")
        return (exact or found)[0]

    def save(self, run: Run) -> None:
        """Put the record in place as a whole; the folder is for its owner alone."""
        folder = self.folder(run.run_id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = folder / f"run.json.{os.getpid()}"
        with temporary.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(run), indent=2))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / "run.json")

    @contextmanager
    def hold(self, run: Run) -> Iterator[None]:
        """Be the one who works on the run. Raises Permanent when another process does."""
        path = self.folder(run.run_id) / "lock"
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Permanent(f"{run.run_id} is being worked on") from None
            self._cancel_file(run).unlink(missing_ok=True)
            yield

    def is_held(self, run: Run) -> bool:
        try:
            with (self.folder(run.run_id) / "lock").open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    def cancel(self, run: Run) -> None:
        """End the run: at once when nobody works on it, else whoever does sees it soon."""
        if self.is_held(run):
            self._cancel_file(run).touch()
            return
        run.state = "cancelled"
        self.save(run)

    def is_cancelled(self, run: Run) -> bool:
        return self._cancel_file(run).exists()

    def _cancel_file(self, run: Run) -> Path:
        return self.folder(run.run_id) / "cancel"


def new_run(config: Config, selected: Selected, **options: Any) -> Run:
    """A run that nobody knows of yet, with the settings as they are."""
    now = time.time_ns()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now / 1e9))
    return Run(
        run_id=f"{stamp}-{secrets.token_hex(2)}",
        created_at=now,
        selected=selected,
        settings=config.model_dump(mode="json", include=set(FROZEN), exclude_none=True),
        scorers=[],
        **options,
    )


def thawed(run: Run, config: Config) -> Config:
    """`config` with the run's own settings in it; keys and headers, which no run keeps, are those
    of `config`. Raises ConfigError when the judge that they belong to is no longer configured."""
    own = {name: run.settings.get(name) for name in FROZEN}
    judge = own["judge"]
    if judge is not None:
        if config.judge is None:
            raise ConfigError(["judge: the run was made with a judge, and none is configured"])
        present = {one.base_url: one for one in (*config.judge.endpoints, config.judge)}
        for endpoint in (judge, *judge.get("endpoints", ())):
            known = present.get(endpoint["base_url"], config.judge)
            endpoint["api_key"], endpoint["headers"] = known.api_key, known.headers
    kept = {name: getattr(config, name) for name in type(config).model_fields if name not in FROZEN}
    return Config.model_validate(kept | {k: v for k, v in own.items() if v is not None})


def _read(path: Path) -> Run:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError) as error:
        raise Permanent(f"{path}: not the record of a backfill: {error}") from error
