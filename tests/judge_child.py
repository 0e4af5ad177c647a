"""A process that judges what waits in a data folder, and ends when nothing waits any more.

python judge_child.py DATA_DIR BASE_URL
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from judge_drive import config_of
from prometheus_client import CollectorRegistry

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import TURNS, topics
from scorers.judge import judge_of
from scorers.judge_worker import JudgeWorker
from scorers.registry import resolve


async def main(data_dir: Path, base_url: str) -> None:
    config = config_of(base_url, "fluency", budget={"usd_per_day": 100}, concurrency=8)
    config = config.model_copy(update={"data_dir": data_dir})
    bus = EmbeddedBus(data_dir, topics())
    await bus.start()
    judge = judge_of(config, partitions=bus.partitions(TURNS))
    assert judge is not None
    plan = resolve(config, judge.scorers())
    worker = JudgeWorker(bus, plan, judge, CollectorRegistry())
    await worker.start()
    print("started", flush=True)
    while worker.lag():  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await worker.stop()
    await bus.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
