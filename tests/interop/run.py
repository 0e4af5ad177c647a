"""An OpenTelemetry Collector before our doors and before our topic: `make interop`.

Run: python tests/interop/run.py COLLECTOR, with the program that its builder made of
collector.yaml. Traces go into the collector by OTLP and reach Assay on four ways: OTLP/gRPC,
OTLP/HTTP, and over Kafka as otlp_proto and as otlp_json. Each must become one turn, whole.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import httpx
from kafka import KafkaAdminClient
from kafka_broker import Broker, free_port
from kafka_fleet import Fleet, Member
from kill_drill import trace
from patience import settled

from assay.bus.kafka import KafkaBus
from assay.bus.topics import TURNS
from assay.records import Turn, decode_turn

TRACES = 25
"""On each way."""
WAYS = ("grpc", "http", "kafka-proto", "kafka-json")
TOPICS = {"kafka-proto": "otlp_spans", "kafka-json": "otlp_spans_json"}


def settings(ports: dict[str, int], collect: Member, bootstrap: str) -> dict[str, object]:
    """The collector's: a receiver for each way, so that a trace takes just one."""
    door = collect.settings["collector"]
    kafka = {"brokers": [bootstrap], "sending_queue": {"enabled": False}}
    exporters = {
        "otlp": {"endpoint": door["grpc"], "tls": {"insecure": True}},
        "otlphttp": {"endpoint": f"http://{door['http']}"},
        "kafka/proto": kafka | {"traces": {"topic": TOPICS["kafka-proto"]}},
        "kafka/json": kafka | {"traces": {"topic": TOPICS["kafka-json"], "encoding": "otlp_json"}},
    }
    return {
        "receivers": {
            f"otlp/{way}": {"protocols": {"http": {"endpoint": f"127.0.0.1:{ports[way]}"}}}
            for way in WAYS
        },
        "exporters": exporters,
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {
                f"traces/{way}": {"receivers": [f"otlp/{way}"], "exporters": [exporter]}
                for way, exporter in zip(WAYS, exporters, strict=True)
            },
        },
    }


async def send(port: int, bodies: list[bytes]) -> None:
    async with httpx.AsyncClient(timeout=30) as client:
        for body in bodies:
            answer = await client.post(
                f"http://127.0.0.1:{port}/v1/traces",
                content=body,
                headers={"content-type": "application/x-protobuf"},
            )
            answer.raise_for_status()


async def answering(ports: dict[str, int]) -> None:
    """Return when the collector listens."""
    for port in ports.values():
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.2)
            else:
                writer.close()
                break


async def turns(bus: KafkaBus) -> list[Turn]:
    return [decode_turn(record.value) async for record in bus.read(TURNS)]


async def through(collector: Path, folder: Path, broker: Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({topic: {"num_partitions": 3} for topic in TOPICS.values()})
    admin.close()
    fleet = Fleet(folder, broker.bootstrap, "interop.")
    foreign = [word for topic in TOPICS.values() for word in ("--from-kafka", topic)]
    collect = fleet.add("collect", *foreign)
    collect.settings["collector"]["grpc"] = f"127.0.0.1:{free_port()}"
    fleet.add("assemble")
    ports = {way: free_port() for way in WAYS}
    (folder / "collector.json").write_text(json.dumps(settings(ports, collect, broker.bootstrap)))
    with (folder / "collector.log").open("wb") as log:
        program = await asyncio.create_subprocess_exec(
            collector, "--config", f"file:{folder}/collector.json", stdout=log, stderr=log
        )
    bus = fleet.bus()
    try:
        for member in fleet.members:
            await member.start()
        await asyncio.wait_for(answering(ports), 60)
        sent: dict[str, str] = {}
        for way in WAYS:
            rng = random.Random(way)
            for _ in range(TRACES):
                trace_id, bodies = trace(rng)
                sent[trace_id] = way
                await send(ports[way], bodies)
        await bus.start()
        found = await settled(lambda: turns(bus), lambda found: len(found) >= len(sent))
    finally:
        await bus.stop()
        if program.returncode is None:
            program.terminate()
        await program.wait()
        await fleet.end(signal.SIGTERM)
    whole = Counter(sent[turn.trace_id] for turn in found if turn.query and turn.response)
    for way in WAYS:
        print(f"{way:<12} {TRACES} traces sent, {whole[way]} whole turns")
    assert Counter(turn.trace_id for turn in found) == Counter(list(sent)), "lost or doubled"
    assert whole == Counter(dict.fromkeys(WAYS, TRACES))


def main() -> None:
    collector = Path(sys.argv[1]).absolute()
    components = subprocess.run([collector, "components"], capture_output=True, text=True).stdout
    print("\n".join(line for line in components.splitlines() if "module:" in line))
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder))
        broker.start()
        try:
            asyncio.run(through(collector, Path(folder), broker))
        except BaseException:
            print((Path(folder) / "collector.log").read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
