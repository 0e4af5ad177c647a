"""How near the judge comes to its limits: the endpoint's own, and a bare loop over the client.

    python tests/benchmarks/bench_judge.py [seconds] [--library PYTHON]

A stand-in endpoint in a process of its own answers after 200 ms and takes 64 calls at a time: 320
calls a second are ideal. The bare loop sends the same bodies through the same client with 64 tasks
and does nothing else. Both runs are of the same length, one after the other, on one event loop,
with what the start left kept from the garbage collector, as in the agent: walking over it all takes
some 55 ms. PYTHON is an interpreter that has autoevals and openai: the same job goes through that
library too, with as many rows in flight as the endpoint takes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import openai
import uvloop

from assay.config import Config
from assay.records import Document, Turn
from scorers.judge import judge_of
from scorers.registry import resolve

LATENCY, LIMIT = 0.2, 64
IDEAL = LIMIT / LATENCY
STAND_IN = Path(__file__).parents[1] / "judge_standin.py"
LIBRARY = Path(__file__).with_name("judge_library.py")
Result = dict[str, float]


def turn(number: int) -> Turn:
    """A turn of usual size; every one differs, so that nothing comes from the cache."""
    text = f"Order {number} can be returned within 30 days of delivery if it is unused. " * 12
    return Turn(
        turn_id=f"{number:032x}-0",
        trace_id=f"{number:032x}",
        query=f"Can I return order {number}?",
        response=f"Yes, order {number} can be returned within 30 days.",
        documents=(Document(content=text), Document(content=text[::-1])),
    )


async def measure(task: Any, *, width: int, seconds: float) -> Result:
    """Calls per second over `seconds` after a warm-up, the 99th percentile of a call's time, and
    CPU milliseconds a call."""
    times: list[tuple[float, float]] = []
    start = time.perf_counter()
    warm, end = start + 3.0, start + 3.0 + seconds
    cpu = [0.0]

    async def work(first: int) -> None:
        number = first
        while (began := time.perf_counter()) < end:
            await task(number)
            times.append((began, time.perf_counter()))
            number += width

    async def watch() -> None:
        await asyncio.sleep(3.0)
        cpu[0] = time.process_time()
        await asyncio.sleep(seconds)
        cpu[0] = time.process_time() - cpu[0]

    await asyncio.gather(watch(), *(work(first) for first in range(width)))
    done = [b - a for a, b in times if warm <= b < end]
    done.sort()
    return {
        "calls_per_s": len(done) / seconds,
        "p99": done[int(len(done) * 0.99)],
        "cpu_ms": cpu[0] * 1000 / max(1, len(done)),
    }


async def bare(url: str, seconds: float) -> Result:
    """The limit: the client alone, sending a body of the same size."""
    client = openai.AsyncOpenAI(
        base_url=url + "/v1",
        api_key="none",
        max_retries=0,
        http_client=openai.DefaultAioHttpClient(),
    )
    system = "You are an impartial evaluator. " * 80
    schema = {"type": "object", "properties": {"reason": {"type": "string"}}}

    async def call(number: int) -> None:
        one = turn(number)
        text = (
            f"{one.query}\n{one.documents[0].content}\n{one.documents[1].content}\n{one.response}"
        )
        await client.chat.completions.create(
            model="m",
            messages=[{"role": "system", "content": system}, {"role": "user", "content": text}],
            temperature=0,
            max_tokens=1024,
            response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
        )

    result = await measure(call, width=LIMIT, seconds=seconds)
    await client.close()
    return result


async def judged(url: str, seconds: float, *, width: int, **settings: Any) -> Result:
    """The judge, from turn to verdict."""
    config = Config.model_validate(
        {
            "judge": {"base_url": url + "/v1", "model": "m", "concurrency": 128, **settings},
            "metrics": [{"groundedness": {"engine": "judge"}}],
        }
    )
    judge = judge_of(config, cache=False)
    assert judge is not None
    entries = resolve(config, judge.scorers()).entries("app")
    outcomes: dict[str, int] = {}

    async def call(number: int) -> None:
        verdict = (await judge.verdicts(turn(number), entries))[0]
        name = f"{verdict.outcome} {verdict.outcome_reason or ''}".strip()
        outcomes[name] = outcomes.get(name, 0) + 1

    result = await measure(call, width=width, seconds=seconds)
    result["calls_per_score"] = judge.client.calls / sum(outcomes.values())
    print("   outcomes", outcomes, "faults", judge.client.counts.results)
    await judge.stop()
    return result


def script(url: str, behaviour: dict[str, Any]) -> None:
    """Give the stand-in a new behaviour."""
    data = json.dumps({"record": False, **behaviour}).encode()
    urllib.request.urlopen(url + "/script", data=data).close()


def memory() -> float:
    """Megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def report(name: str, result: Result) -> None:
    print(f"{name:24}" + "  ".join(f"{key} {value:8.3f}" for key, value in result.items()))


def by_library(python: str, url: str, seconds: float) -> Result:
    """The same job through an evaluation library, in a process and an environment of its own."""
    command = [python, str(LIBRARY), f"{url}/v1", str(seconds), str(LIMIT)]
    found: Result = json.loads(subprocess.check_output(command, text=True))
    return found


async def main(seconds: float, library: str) -> None:
    process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
        [sys.executable, str(STAND_IN)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
    try:
        gc.collect()
        gc.freeze()
        fixed = {"latency": LATENCY, "limit": LIMIT}
        script(url, fixed)
        limit = await bare(url, seconds)
        report("bare loop", limit)
        if library:
            script(url, fixed)
            report("autoevals", by_library(library, url, seconds))
        else:
            print("autoevals               skipped: no --library")
        script(url, fixed)
        before = memory()
        result = await judged(url, seconds, width=LIMIT + 4)
        after = memory()
        report("judge", result)
        rate = result["calls_per_s"]
        print(f"judge / ideal      {rate / IDEAL:.3f} (at least 0.90 on an idle core)")
        print(f"judge / bare loop  {rate / limit['calls_per_s']:.3f} (at least 0.95)")
        print(f"p99 over latency   {(result['p99'] - LATENCY) * 1000:.0f} ms (below 50 ms)")
        print(f"memory             {before:.1f} MB before, {after:.1f} MB after")
        script(url, fixed | {"share_429": 0.2, "share_500": 0.05, "share_hang": 0.01})
        result = await judged(url, seconds, width=LIMIT, timeout=2.0)
        report("judge, faulty endpoint", result)
        print(f"calls per score {result['calls_per_score']:.3f} (below 1.5)")
    finally:
        process.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float, nargs="?", default=20.0)
    parser.add_argument("--library", default="", metavar="PYTHON")
    options = parser.parse_args()
    uvloop.run(main(options.seconds, options.library))
