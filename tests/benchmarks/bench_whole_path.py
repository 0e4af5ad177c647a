"""The whole path on one machine: accept, assemble, read, score, export and store.

Run: python tests/benchmarks/bench_whole_path.py [seconds] [turns a second]. Turns of five spans
(agent, retriever, tool, two model calls) of about 2 kB a span go from another process to an
`assay up` with the default metrics, everything sampled. Printed: what was sent, how far the stages
were behind at the end, how long they took to catch up, the memory, and the processor time of each
part. The limit is `LIMIT` spans a second with bounded lag and under 600 MB.

Then, at `QUIET` turns a second: the time from a root span's arrival to its sample on `/metrics`,
against settle + 2 s.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_left
from itertools import accumulate

from agent import Agent, page, processes, running, sums
from traffic import SPANS, Sent, send_apart

from assay.config import Config

LIMIT = 5_000
MEMORY = 600
QUIET = 200
QUIET_SECONDS = 30.0
LOOK = 0.1
"""Seconds between two looks at the page, by which the latency is overstated at most."""
PROBE = 'metric="latency_seconds"'
CATCH_UP = 120


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else LIMIT / SPANS
    with running() as agent:
        measure_load(agent, rate, seconds)
    with running() as agent:
        measure_latency(agent)


def measure_load(agent: Agent, rate: float, seconds: float) -> None:
    """Print what came through at `rate`, and at what cost."""
    done = threading.Event()
    peak = 0.0
    behind: list[tuple[float, float, float]] = []
    before = processes(agent)
    started = time.monotonic()

    def watch() -> None:
        nonlocal peak
        while not done.wait(2.0):
            peak = max(peak, sum(used.resident for used in processes(agent).values()))
            now = sums(agent)
            lag, turns = now.get("assay_bus_lag_records", 0.0), now.get("assay_turns_total", 0.0)
            behind.append((time.monotonic() - started, lag, turns))

    watcher = threading.Thread(target=watch)
    watcher.start()
    sent = send_apart(agent.http, rate, seconds)
    ended = time.monotonic()
    while time.monotonic() - ended < CATCH_UP:
        if behind and behind[-1][2] >= sent.turns and not behind[-1][1]:
            break
        time.sleep(0.2)
    caught_up = time.monotonic() - ended
    done.set()
    watcher.join()
    spans = sent.turns * SPANS / seconds
    print(f"sent {sent.turns} turns, {spans:,.0f} spans/s ({spans / LIMIT:.2f} of {LIMIT:,}),")
    print(f"  {sent.size / sent.turns / SPANS:.0f} bytes a span, {sent.refused} requests refused")
    print(f"turns counted {behind[-1][2]:.0f}, all done {caught_up:.1f} s after")
    print("  (settle is 6 s, the store commits every 10 s)")
    print(f"peak resident memory of all processes {peak:.0f} MB ({peak / MEMORY:.2f} of {MEMORY})")
    total = 0.0
    for pid, used in sorted(processes(agent).items()):
        spent = used.seconds - (before[pid].seconds if pid in before else 0.0)
        each = spent / sent.turns * 1000
        total += each
        print(f"  process {pid}: {each:.2f} ms of a processor a turn, {used.resident:.0f} MB")
    print(f"  all: {total:.2f} ms a turn, so {1000 * SPANS / total:,.0f} spans/s for each core")
    print("lag (records on the bus, turns counted) every few seconds:")
    for at, lag, turns in behind[:: max(1, len(behind) // 12)]:
        print(f"  {at:5.0f} s  {lag:7.0f}  {turns:9.0f}")


def measure_latency(agent: Agent) -> None:
    """Print how long turns take from their root's arrival to their sample.

    The n-th turn to be counted is taken for the n-th that was sent: at a steady rate their times
    have the same distribution.
    """
    seen: list[tuple[float, float]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK):
            counted = sum(
                value
                for name, value in page(agent)
                if name.startswith("assay_evaluations_total") and PROBE in name
            )
            seen.append((time.monotonic(), counted))

    watcher = threading.Thread(target=watch)
    watcher.start()
    sent = send_apart(agent.http, QUIET, QUIET_SECONDS, turns=4)
    limit = Config().assembly.settle + 2.0
    ended = time.monotonic()
    while time.monotonic() - ended < CATCH_UP and (not seen or seen[-1][1] < sent.turns):
        time.sleep(LOOK)
    done.set()
    watcher.join()
    waits = sorted(latencies(sent, seen))
    if len(waits) < sent.turns:
        print(f"root to sample: {sent.turns - len(waits)} of {sent.turns} turns were not seen")
        return
    middle, worst = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    print(f"root to sample at {QUIET} turns/s, {len(waits)} turns: p50 {middle:.2f} s,")
    print(f"  p99 {worst:.2f} s ({worst / limit:.2f} of settle + 2 s = {limit:.0f} s)")


def latencies(sent: Sent, seen: list[tuple[float, float]]) -> list[float]:
    """Seconds from each request's beginning until its turns were seen on the page."""
    counts = [counted for _, counted in seen]
    found = []
    for (began, turns), total in zip(
        sent.accepted, accumulate(turns for _, turns in sent.accepted), strict=True
    ):
        at = bisect_left(counts, total)
        if at < len(seen):
            found += [seen[at][0] - began] * turns
    return found


if __name__ == "__main__":
    main()
