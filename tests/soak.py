"""A long run at half load: memory, file handles and disk must not grow.

    python tests/soak.py [seconds, default 1200] [turns a second, default 500]

The embedded log is given a size that it reaches soon and then has to keep; the store keeps what it
is given, so that its bytes a row must stay. Each value is the mean of a tenth of the run; the last
tenth is held against the third one, for until then caches and the log fill. Ends with 1 when one
of them grew by more than `GROWTH`.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "benchmarks"))

from agent import Agent, disk, processes, running, sums
from traffic import send_apart

BYTES = 10_000
"""Of the embedded log for each turn, about."""
SMALLEST = 100 * 10**6
"""Bytes of the log: the part of it that waits to be put in order is not counted."""
LOOKS = 100
TENTHS = 10
SETTLED = 2
"""The tenth that the last one is held against, from 0."""
GROWTH = 1.10


class Look(NamedTuple):
    """What the agent took at one moment."""

    memory: float
    """MB of all processes."""
    handles: float
    log: float
    """MB of the embedded log."""
    store: float
    """Bytes of the store for each row in it."""


def look(agent: Agent) -> Look:
    used = processes(agent).values()
    rows = sums(agent).get("assay_store_rows_total", 0.0)
    return Look(
        sum(one.resident for one in used),
        sum(one.handles for one in used),
        disk(agent, "bus."),
        disk(agent, "store") * 1e6 / rows if rows else 0.0,
    )


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1200.0
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 500.0
    looks: list[Look] = []
    size = max(SMALLEST, int(rate * seconds * BYTES / TENTHS))
    with running(f"bus: {{max_size: {size}}}\n") as agent:
        sender = threading.Thread(target=lambda: send_apart(agent.http, rate, seconds))
        sender.start()
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, seconds / LOOKS))
            looks.append(look(agent))
        sender.join()
    part = len(looks) // TENTHS
    tenths = [looks[i * part : (i + 1) * part] for i in range(TENTHS)]
    grown = []
    for name in Look._fields:
        means = [fmean(getattr(one, name) for one in tenth) for tenth in tenths]
        ratio = means[-1] / means[SETTLED] if means[SETTLED] else 1.0
        print(f"{name:8} {' '.join(f'{mean:7.0f}' for mean in means)}  x{ratio:.2f}")
        if ratio > GROWTH:
            grown.append(name)
    print(f"grew by more than x{GROWTH}: {', '.join(grown)}" if grown else "nothing grew")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
