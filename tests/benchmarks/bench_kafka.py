"""What the stages do over Kafka on one core each, beside what the client alone can do.

Run: python tests/benchmarks/bench_kafka.py [seconds]. A broker of its own; records of the size that
the doors write. Limits, from the same run: the client's plain produce and consume rates for the
same bytes. Aim: `AIM` of the produce rate in bytes is accepted, and three scorers do `THREE` times
the work of one.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import uvloop
from bench_accept import SPANS, request
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka_broker import Broker
from kafka_fleet import Fleet
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing
from assay.bus.kafka import KafkaBus
from assay.bus.topics import SCORES, TURNS
from assay.cli.wiring import topics_of
from assay.config import Config
from collector.assembly import Assembler
from collector.intake import Intake
from scorers.registry import resolve
from scorers.worker import Worker

AIM = 0.6
THREE = 1.8
MOST = 6000
IN_FLIGHT = 16
PARTITIONS = 6


def produce(bootstrap: str, topic: str, values: list[bytes], seconds: float) -> float:
    """Bytes a second that the client writes, each batch confirmed."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        compression_type="lz4",
        batch_size=512 * 1024,
        linger_ms=2,
        max_request_size=10**7,
    )
    sent, waiting = 0, []
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        for value in values:
            waiting.append(producer.send(topic, value, partition=len(waiting) % PARTITIONS))
            sent += len(value)
        if len(waiting) > 64:
            for future in waiting:
                future.get(timeout=30)
            waiting = []
    producer.flush()
    elapsed = time.perf_counter() - started
    producer.close()
    return sent / elapsed


def consume(bootstrap: str, topic: str, seconds: float) -> tuple[float, float]:
    """Bytes and records a second that the client reads."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        enable_auto_commit=False,
        max_partition_fetch_bytes=10**7,
    )
    consumer.assign([TopicPartition(topic, n) for n in range(PARTITIONS)])
    read = count = 0
    started = last = time.perf_counter()
    while time.perf_counter() - started < seconds:
        found = consumer.poll(timeout_ms=300, max_records=2000)
        if not found:
            if count:
                break
            continue
        last = time.perf_counter()
        for records in found.values():
            count += len(records)
            read += sum(len(record.value) for record in records)
    consumer.close()
    elapsed = max(last - started, 0.001)
    return read / elapsed, count / elapsed


async def accept(bus: KafkaBus, config: Config, bodies: list[bytes], seconds: float) -> float:
    """Bytes a second through `intake.accept`, confirmed by the broker."""
    intake = Intake(bus, config, CollectorRegistry())
    accepted = 0
    ends = time.perf_counter() + seconds

    async def send(rng: random.Random) -> None:
        nonlocal accepted
        while time.perf_counter() < ends:
            body = rng.choice(bodies)
            await intake.accept("traces", "protobuf", body)
            accepted += len(body)

    started = time.perf_counter()
    await asyncio.gather(*(send(random.Random(n)) for n in range(IN_FLIGHT)))
    return accepted / (time.perf_counter() - started)


async def until_idle(lag: Callable[[], int], count: Callable[[], float], seconds: float) -> float:
    """Units a second by `count` until nothing waits, or time is over."""
    started = last = time.perf_counter()
    before = seen = count()
    while time.perf_counter() - started < seconds:
        await asyncio.sleep(0.2)
        if count() > seen:
            seen, last = count(), time.perf_counter()
        elif lag() == 0:
            break
    return (seen - before) / max(last - started, 0.001)


async def fleet_rate(folder: Path, bootstrap: str, count: int, values: list[bytes]) -> float:
    """Turns a second of `count` processes of `assay score`, each held to one core."""
    fleet = Fleet(folder, bootstrap, f"of{count}.")
    for number in range(count):
        core = str(number % (os.cpu_count() or 1))
        fleet.add("score", "--group", "local").under = ["taskset", "--cpu-list", core]
    bus = fleet.bus()
    await bus.start()
    try:
        await asyncio.gather(*(member.start() for member in fleet.members))
        await bus.publish(
            [Outgoing(TURNS, value, partition=n % PARTITIONS) for n, value in enumerate(values)]
        )
        started = time.perf_counter()
        while (await bus.topic_stats())[TURNS].lag.get("local", 1):  # noqa: ASYNC110 - asked, not told
            await asyncio.sleep(0.1)
        return len(values) / (time.perf_counter() - started)
    finally:
        await fleet.end(signal.SIGTERM)
        await bus.stop()


async def run(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder))
        await asyncio.to_thread(broker.start)
        try:
            values = await measure(broker.bootstrap, seconds)
            one, three = [
                await fleet_rate(Path(folder) / f"of{n}", broker.bootstrap, n, values)
                for n in (1, 3)
            ]
            print(f"score, a process            {one:8,.0f} turns/s")
            print(
                f"score, three processes      {three:8,.0f} turns/s  {three / one:.2f} times one "
                f"({THREE} wanted where there are cores)"
            )
            print(f"{os.cpu_count()} cores, the broker on the same machine")
        finally:
            broker.stop()


async def measure(bootstrap: str, seconds: float) -> list[bytes]:
    """Prints each stage's rate; the turns that were assembled, `MOST` at most."""
    config = Config.model_validate(
        {
            "bus": {"kafka": {"bootstrap": bootstrap, "partitions": PARTITIONS}},
            "assembly": {"settle": "200ms", "idle": "400ms"},
        }
    )
    assert config.bus.kafka is not None
    bus = KafkaBus(config.bus.kafka, topics_of(config))
    await bus.start()
    rng = random.Random(7)
    bodies = [request(rng) for _ in range(40)]
    per_span = sum(map(len, bodies)) / len(bodies) / SPANS

    admin = bus._topics.admin
    admin.create_topics(
        {"raw": {"num_partitions": PARTITIONS, "configs": {"max.message.bytes": "10000000"}}}
    )
    admin.wait_for_topics(["raw"])
    slices = [body[: len(body) // PARTITIONS] for body in bodies]
    raw = await asyncio.to_thread(produce, bootstrap, "raw", slices, seconds)
    raw_read, _ = await asyncio.to_thread(consume, bootstrap, "raw", seconds)
    got = await accept(bus, config, bodies, seconds)
    print(f"produce, the client alone   {raw / 1e6:8.1f} MB/s")
    print(f"consume, the client alone   {raw_read / 1e6:8.1f} MB/s")
    print(
        f"accept into Kafka           {got / 1e6:8.1f} MB/s  {got / per_span:9,.0f} spans/s  "
        f"{got / raw:5.0%} of produce (aim {AIM:.0%})"
    )

    registry = CollectorRegistry()
    assembler = Assembler(bus, config, registry)
    await assembler.start()

    def turns() -> float:
        return registry.get_sample_value("assay_assembled_turns_total", {"decision": "kept"}) or 0.0

    rate = await until_idle(assembler.lag, turns, 4 * seconds)
    await assembler.stop()
    read_bytes, read_rate = await asyncio.to_thread(consume, bootstrap, TURNS, seconds)
    print(
        f"assemble                    {rate:8,.0f} turns/s  (reading turns alone: "
        f"{read_rate:,.0f}/s, {read_bytes / 1e6:.0f} MB/s)"
    )

    scored = CollectorRegistry()
    worker = Worker(bus, resolve(config), scored, processes=1)
    await worker.start()

    def count() -> float:
        return scored.get_sample_value("assay_scored_turns_total", {"group": "local"}) or 0.0

    rate = await until_idle(worker.lag, count, 2 * seconds)
    await worker.stop()
    entries = 0
    async for record in bus.read(SCORES):
        entries = record.value.count(b'"metric"')
        break
    print(f"score (local, one process)  {rate:8,.0f} turns/s  {rate * entries:9,.0f} scores/s")
    turns_made = [record.value async for record in bus.read(TURNS)][:MOST]
    await bus.stop()
    return turns_made


if __name__ == "__main__":
    uvloop.run(run(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0))
