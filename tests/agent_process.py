"""The agent as a process of its own, and what a user does with it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from assay.cli.source import RUNNING, Running

ASSAY = [sys.executable, "-m", "assay.cli.main"]
WAIT = 60.0


class Agent:
    """A running `assay up` with its own folder and free ports, and `more` settings."""

    def __init__(self, folder: Path, more: str = "", labels: str = "") -> None:
        self.folder = folder
        (folder / "assay.yaml").write_text(
            'collector: {http: "127.0.0.1:0", grpc: "127.0.0.1:0", api_keys: ["k-1"]}\n'
            "assembly: {settle: 300ms}\n"
            f'exporters: {{prometheus: {{listen: "127.0.0.1:0", labels: [{labels}]}}}}\n{more}'
        )
        self.log = (folder / "log").open("wb")
        started = time.monotonic()
        self.process = subprocess.Popen(
            [*ASSAY, "up"], cwd=folder, stdout=subprocess.PIPE, stderr=self.log
        )
        assert self.process.stdout is not None
        self.greeting = self.process.stdout.readline().decode()
        self.ready_after = time.monotonic() - started
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        self.ready_work = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        running = folder / "assay-data" / RUNNING
        self.running = msgspec.json.decode(running.read_bytes(), type=Running)

    def run(self, *arguments: str, ok: bool = True) -> str:
        """A command's standard output."""
        done = subprocess.run(
            [*ASSAY, *arguments], cwd=self.folder, capture_output=True, timeout=WAIT, check=False
        )
        assert (done.returncode == 0) == ok, done.stderr.decode()
        return done.stdout.decode()

    def metrics(self) -> dict[tuple[str, str, str], float]:
        """Samples of a strictly parsed page: by name, app and metric."""
        request = urllib.request.Request(
            f"http://{self.running.api}/metrics",
            headers={"accept": "application/openmetrics-text; version=1.0.0"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            page = answer.read().decode()
        return {
            (
                sample.name,
                sample.labels.get("app", ""),
                sample.labels.get("metric", ""),
            ): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    def memory(self) -> int:
        """Resident bytes of the main process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT)
        self.log.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


@contextlib.contextmanager
def stand_in(answer: str) -> Iterator[str]:
    """The base url of a provider that answers everything with one text."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "e2e" / "provider.py"), answer],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    process.terminate()
    process.wait()
    process.stdout.close()
