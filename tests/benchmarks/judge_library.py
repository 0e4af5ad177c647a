"""The judge's job through an evaluation library, for `bench_judge.py`: rows to scores.

    PYTHON judge_library.py URL SECONDS WIDTH

PYTHON has autoevals and openai. Prints calls a second and the 99th percentile of a call's time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import openai
from autoevals import Factuality, init

WARM_UP = 3.0


async def main(url: str, seconds: float, width: int) -> None:
    client = openai.AsyncOpenAI(
        base_url=url, api_key="none", max_retries=0, http_client=openai.DefaultAioHttpClient()
    )
    init(client, default_model="m")
    scorer = Factuality()
    text = "Orders can be returned within 30 days of delivery if they are unused. " * 24
    start = time.perf_counter()
    warm, end = start + WARM_UP, start + WARM_UP + seconds
    times: list[tuple[float, float]] = []

    async def work(first: int) -> None:
        number = first
        while (began := time.perf_counter()) < end:
            found = await scorer.eval_async(
                input=f"Can I return order {number}?",
                output=f"Yes, order {number} can be returned within 30 days.",
                expected=text,
            )
            assert found.score is not None, found
            times.append((began, time.perf_counter()))
            number += width

    await asyncio.gather(*(work(first) for first in range(width)))
    done = sorted(stop - began for began, stop in times if warm <= stop < end)
    rate = {"calls_per_s": len(done) / seconds, "p99": done[int(len(done) * 0.99)]}
    print(json.dumps(rate))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
