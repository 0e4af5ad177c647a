"""Confirmed bytes per second of the embedded bus, against appending the same bytes to a file.

Run: python tests/benchmarks/bench_bus.py [seconds]. Requests are those of the collector's door: 500
spans of about 2 kB, split over 4 partitions. The limit is a plain file to which one request after
another is appended with one sync for as many requests as wait, as the bus's writer does.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import SPANS, TURNS, topics

SPANS_A_REQUEST = 500
SENDERS = 8


def span(source: random.Random, words: list[str]) -> bytes:
    """About 2 kB as a span of a chat call has them: ids, attribute names and prose."""
    text = " ".join(source.choices(words, k=220))
    return (
        source.randbytes(24)
        + b"\x12\x08chat gpt-4o gen_ai.operation.name gen_ai.request.model gen_ai.input.messages"
        + source.randbytes(16)
        + b' [{"role":"user","parts":[{"type":"text","content":"'
        + text.encode()
        + b'"}]}] gen_ai.usage.input_tokens gen_ai.usage.output_tokens gen_ai.response.id '
        + source.randbytes(16).hex().encode()
    )


def requests(count: int) -> list[list[bytes]]:
    """Requests as the values of their 4 partitions."""
    source = random.Random(7)
    words = [
        "".join(source.choices("etaoinshrdlucmfwyp", k=source.randint(2, 11))) for _ in range(8000)
    ]
    return [
        [b"".join(span(source, words) for _ in range(SPANS_A_REQUEST // 4)) for _ in range(4)]
        for _ in range(count)
    ]


class Measured:
    """Bytes and processor seconds of a span of time."""

    def __init__(self, name: str, size: int, wall: float, cpu: float) -> None:
        self.rate = size / wall
        print(f"{name:34} {self.rate / 1e6:7.0f} MB/s  {cpu / wall * 100:4.0f} % of a core")


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def measure(
    name: str, seconds: float, data: list[list[bytes]], send: Callable[[int], Awaitable[None]]
) -> Measured:
    sent = 0
    cpu, started = _cpu(), time.perf_counter()
    numbers = iter(range(10**9))

    async def sender() -> None:
        nonlocal sent
        while time.perf_counter() - started < seconds:
            number = next(numbers) % len(data)
            await send(number)
            sent += sum(map(len, data[number]))

    await asyncio.gather(*(sender() for _ in range(SENDERS)))
    return Measured(name, sent, time.perf_counter() - started, _cpu() - cpu)


async def bus_rate(folder: Path, seconds: float, data: list[list[bytes]]) -> Measured:
    bus = EmbeddedBus(folder, topics(), max_size=20 * 10**9)
    await bus.start()
    outgoing = [[Outgoing(SPANS, v, partition=n) for n, v in enumerate(r)] for r in data]
    try:
        return await measure(
            "bus, confirmed after sync", seconds, data, lambda n: bus.publish(outgoing[n])
        )
    finally:
        await bus.stop()


async def file_rate(folder: Path, seconds: float, data: list[list[bytes]]) -> Measured:
    """Group commit onto a plain file: what waits is appended, then synced once."""
    descriptor = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    waiting: list[tuple[int, asyncio.Future[None]]] = []
    busy = asyncio.Lock()

    def write(batch: list[int]) -> None:
        for number in batch:
            os.writev(descriptor, data[number])
        os.fsync(descriptor)

    async def send(number: int) -> None:
        mine = asyncio.get_running_loop().create_future()
        waiting.append((number, mine))
        async with busy:
            batch = waiting[:]
            waiting.clear()
            if batch:
                await asyncio.to_thread(write, [n for n, _ in batch])
                for _, future in batch:
                    future.set_result(None)
        await mine

    try:
        return await measure("plain file, append and sync", seconds, data, send)
    finally:
        os.close(descriptor)


async def turn_rate(folder: Path, seconds: float) -> None:
    """Turns of 6 kB consumed, transformed and committed one by one by 200 tasks."""
    bus = EmbeddedBus(folder, topics(), max_size=20 * 10**9)
    await bus.start()
    value = requests(1)[0][0][:6000]
    for _ in range(40):
        await bus.publish([Outgoing(TURNS, value, partition=n % 4) for n in range(500)])
    consumer = bus.consumer("g", [TURNS])
    await consumer.start()
    started, done = time.perf_counter(), 0
    slots = asyncio.Semaphore(200)

    async def transform(record: object) -> None:
        nonlocal done
        async with slots:
            await consumer.commit(outputs=[Outgoing(SPANS, value[:1500], key=b"k")], done=[record])
        done += 1

    cpu = _cpu()
    while time.perf_counter() - started < seconds:
        records = await consumer.poll(timeout=0.1)
        if not records:
            break
        await asyncio.gather(*(transform(record) for record in records))
    wall = time.perf_counter() - started
    share = (_cpu() - cpu) / wall * 100
    print(f"{'turns committed one by one':34} {done / wall:7.0f} /s    {share:4.0f} % of a core")
    await consumer.stop()
    await bus.stop()


def main(seconds: float) -> None:
    data = requests(40)
    size = sum(map(len, data[0]))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        plain = asyncio.run(file_rate(Path(folder), seconds, data))
        Path(folder, "plain").unlink()
        bus = asyncio.run(bus_rate(Path(folder) / "bus", seconds, data))
        asyncio.run(turn_rate(Path(folder) / "turns", seconds / 2))
    print(f"request: {SPANS_A_REQUEST} spans, {size / 1e6:.2f} MB")
    print(f"bus / plain file: {bus.rate / plain.rate:.2f}")
    print(f"bus: {bus.rate / size * SPANS_A_REQUEST:,.0f} spans/s")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
