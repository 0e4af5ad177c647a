"""A process that fills the store until it is killed: see test_exporters_store_sink.

    python store_sink_child.py BUS_FOLDER STORE_FOLDER

It commits often and in small steps, prints `ready` when it reads, and `done` when nothing waits.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import topics
from assay.store import Store
from exporters import store_sink
from exporters.stage import StageSeries


async def run(bus_folder: str, store_folder: str) -> None:
    store_sink.INTERVAL, store_sink.MAX_ROWS = 0.02, 40
    store_sink.StoreSink.max_records = 15
    bus = EmbeddedBus(Path(bus_folder), topics())
    await bus.start()
    registry = CollectorRegistry()
    sink = store_sink.StoreSink(bus, StageSeries(registry), registry, Store(store_folder))
    await sink.start()
    print("ready", flush=True)
    while sink.lag():  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.02)
    print("done", flush=True)
    await sink.stop()
    await bus.stop()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
