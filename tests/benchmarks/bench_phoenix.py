"""Arize Phoenix beside ours: the same bodies, sent as fast as they are taken in.

Run: python tests/benchmarks/bench_phoenix.py [seconds]. Phoenix is installed into build/phoenix
when it is not there; where that cannot be done the reason is printed. Counted for Phoenix are the
spans in its database, for ours those whose turns are scored and on `/metrics`: each some seconds
after the last request.
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
from pathlib import Path

from agent import running, sums
from traffic import SPANS, send_apart

from assay.config import Config

ENVIRONMENT = Path(__file__).parents[2] / "build" / "phoenix"
INSTALL_SECONDS = 900
START_SECONDS = 120
WAIT = 20.0
"""Seconds after the last request."""
FLAT_OUT = 5_000.0
"""Turns a second: more than any of them takes in."""


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


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    settle = Config().assembly.settle
    with running() as agent:
        sent = send_apart(agent.http, FLAT_OUT, seconds)
        time.sleep(settle + WAIT)
        ours = sums(agent).get("assay_turns_total", 0.0) * SPANS / (seconds + WAIT)
    print(f"ours: took in {sent.turns * SPANS / seconds:,.0f} spans/s, {ours:,.0f} spans/s scored")
    if reason := installed():
        print(f"phoenix: skipped, {reason}")
        return
    with phoenix(26006) as stored:
        sent = send_apart("http://127.0.0.1:26006", FLAT_OUT, seconds)
        time.sleep(WAIT)
        theirs = stored() / (seconds + WAIT)
    print(f"phoenix: answered {sent.turns * SPANS / seconds:,.0f} spans/s with success,")
    print(f"  {theirs:,.0f} spans/s stored ({ours / max(theirs, 1):.0f} times as many are scored)")


if __name__ == "__main__":
    main()
