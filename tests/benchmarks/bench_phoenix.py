"""Arize Phoenix beside ours: the same bodies at the same rate.

Run: python tests/benchmarks/bench_phoenix.py [seconds] [turns a second]. Phoenix is installed into
build/phoenix when it is not there; where that cannot be done the reason is printed. Counted for
Phoenix are the spans in its database, for ours those whose turns are scored and on `/metrics`; the
time runs from the first request until all that was taken in is counted, or for `WAIT` seconds after
the last request.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from agent import Agent, page, running
from traffic import SPANS, send_apart

ENVIRONMENT = Path(__file__).parents[2] / "build" / "phoenix"
INSTALL_SECONDS = 900
PORT = 26006
PROBE = 'metric="latency_seconds"'
START_SECONDS = 240
WAIT = 20.0


def installed() -> str:
    """Why Phoenix cannot be run; empty when it can."""
    if (ENVIRONMENT / "bin" / "phoenix").exists():
        return ""
    try:
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        subprocess.run(
            [ENVIRONMENT / "bin" / "pip", "install", "--quiet", "arize-phoenix"],
            check=True,
            timeout=INSTALL_SECONDS,
            capture_output=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"arize-phoenix cannot be installed: {type(error).__name__}"
    return ""


@contextmanager
def phoenix(port: int) -> Iterator[Callable[[], int]]:
    """A server on `port`; gives a function that counts the spans which it has stored."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [ENVIRONMENT / "bin" / "phoenix", "serve"],
            env=os.environ
            | {
                "PHOENIX_WORKING_DIR": folder,
                "PHOENIX_HOST": "127.0.0.1",
                "PHOENIX_PORT": str(port),
                "PHOENIX_GRPC_PORT": str(port + 1),
                "PHOENIX_TELEMETRY_ENABLED": "false",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _answers(f"http://127.0.0.1:{port}/healthz")

            def stored() -> int:
                file = f"file:{folder}/phoenix.db?mode=ro"
                with closing(sqlite3.connect(file, uri=True, timeout=10)) as database:
                    return int(database.execute("SELECT count(*) FROM spans").fetchone()[0])

            yield stored
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> None:
    """Wait until `url` answers. Raises OSError when it does not in START_SECONDS."""
    ends = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.5)
        else:
            return


def measure(name: str, url: str, rate: float, seconds: float, count: Callable[[], float]) -> float:
    """Send, and print how many spans a second come through; that number."""
    started = time.monotonic()
    sent = send_apart(url, rate, seconds)
    ended = time.monotonic()
    through = count()
    while through < sent.turns * SPANS and time.monotonic() - ended < WAIT:
        time.sleep(0.5)
        through = count()
    each = through / (time.monotonic() - started)
    print(f"{name}: answered {sent.turns * SPANS / seconds:,.0f} spans/s with success,")
    print(f"  {each:,.0f} spans/s came through, {sent.turns * SPANS - through:,.0f} spans had not")
    return each


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 200.0
    with running() as agent:
        evaluated = partial(counted, agent)
        ours = measure("ours (scored)", agent.http, rate, seconds, evaluated)
    if reason := installed():
        print(f"phoenix: skipped, {reason}")
        return
    try:
        with phoenix(PORT) as stored:
            theirs = measure("phoenix (stored)", f"http://127.0.0.1:{PORT}", rate, seconds, stored)
    except OSError as error:
        print(f"phoenix: skipped, it does not answer: {error}")
        return
    print(f"ours over phoenix: {ours / max(theirs, 1.0):.1f}")


def counted(agent: Agent) -> float:
    """Spans of the turns whose scores are on the page."""
    return SPANS * sum(
        value
        for name, value in page(agent)
        if name.startswith("assay_evaluations_total") and PROBE in name
    )


if __name__ == "__main__":
    main()
