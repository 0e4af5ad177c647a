"""A process that is killed at any moment: it sends traces into its own embedded log and assembles
them. `python assembly_drill.py FOLDER FIRST SECONDS`; without SECONDS it sends nothing and ends
when all is assembled. The number of each trace that was accepted whole is printed."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from assembly_drive import request, span
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import SPANS, partition_of, topics
from assay.config import Config
from collector.assembly import Assembler

CONFIG = Config.model_validate({"assembly": {"settle": 1.0, "idle": 1.5, "max_age": 8, "late": 5}})
BATCH = 20


def pieces(number: int) -> list[list]:
    """A trace in the three parts in which it comes: a turn of it is whole with all three."""
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool{number}"}
    return [
        [span(number, 2, 1, query=f"{number}?", response=f"{number}!")],
        [span(number, 1)],
        [span(number, 3, 1, **tool)],
    ]


async def send(bus: EmbeddedBus, first: int, ends: float) -> None:
    while time.monotonic() < ends:
        numbers = range(first, first + BATCH)
        for part in range(3):
            by_partition: dict[int, list] = {}
            for number in numbers:
                partition = partition_of(number.to_bytes(16, "big"), bus.partitions(SPANS))
                by_partition.setdefault(partition, []).extend(pieces(number)[part])
            await bus.publish(
                [Outgoing(SPANS, request(spans), None, p) for p, spans in by_partition.items()]
            )
            await asyncio.sleep(0.005)
        print(*numbers, flush=True)
        first += BATCH


async def run(folder: Path, first: int, seconds: float | None) -> None:
    bus = EmbeddedBus(folder, topics())
    await bus.start()
    assembler = Assembler(bus, CONFIG, CollectorRegistry())
    await assembler.start()
    if seconds is None:
        while (await bus.stats()).topics[SPANS].lag.get("assembler", 0):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    else:
        await send(bus, first, time.monotonic() + seconds)
    await assembler.stop()
    await bus.stop()


if __name__ == "__main__":
    asyncio.run(
        run(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) if sys.argv[3:] else None)
    )
