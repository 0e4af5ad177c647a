"""An `assay up` with its default metrics, and what it takes of the machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from assay.cli.source import RUNNING

CONFIG = (
    'collector: {http: "127.0.0.1:0", grpc: null}\n'
    'exporters: {prometheus: {listen: "127.0.0.1:0"}}\n'
)


class Agent(NamedTuple):
    """A running agent."""

    pid: int
    """Of the first of its processes, and of their group."""
    api: str
    http: str
    folder: Path


class Usage(NamedTuple):
    """What one process takes."""

    seconds: float
    """Of a processor, since its start."""
    resident: float
    """MB."""
    handles: int


@contextmanager
def running(more: str = "") -> Iterator[Agent]:
    """An agent, everything sampled; `more` is added to its settings."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "assay.yaml").write_text(CONFIG + more)
        process = subprocess.Popen(
            [sys.executable, "-m", "assay.cli.main", "up"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            told = json.loads(Path(folder, "assay-data", RUNNING).read_text())
            yield Agent(process.pid, told["api"], told["http"], Path(folder))
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def page(agent: Agent) -> Iterator[tuple[str, float]]:
    """The samples of the plain text page: name with labels, value."""
    with urllib.request.urlopen(f"http://{agent.api}/metrics", timeout=30) as answer:
        for line in answer.read().decode().splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                yield name, float(value)


def sums(agent: Agent) -> dict[str, float]:
    """The samples of each name, over all labels."""
    found: dict[str, float] = {}
    for name, value in page(agent):
        name = name.partition("{")[0]
        found[name] = found.get(name, 0.0) + value
    return found


def processes(agent: Agent) -> dict[int, Usage]:
    """The agent's processes by their id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rpartition(") ")[2].split()
            if int(stat[2]) == agent.pid:
                found[int(entry.name)] = Usage(
                    (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
                    int(stat[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6,
                    len(list((entry / "fd").iterdir())),
                )
        except OSError:
            continue
    return found


def disk(agent: Agent, part: str) -> float:
    """MB of the files of the data folder whose path below it begins with `part`."""
    data = agent.folder / "assay-data"
    return (
        sum(f.stat().st_size for f in data.rglob("*") if f.is_file() and _below(f, data, part))
        / 1e6
    )


def _below(file: Path, data: Path, part: str) -> bool:
    return str(file.relative_to(data)).startswith(part)
