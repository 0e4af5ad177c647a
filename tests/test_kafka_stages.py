"""The stages over a real broker: poison, other versions, topics of others, dead letters."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import secrets
import threading
from pathlib import Path

import msgspec
import pytest
from kafka import KafkaProducer
from kill_drill import trace
from patience import settled
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing
from assay.bus.kafka import KafkaBus
from assay.bus.topics import DEAD_LETTER, ROLLUPS, SCORES, SPANS, TURNS
from assay.cli.brokers import Brokers
from assay.cli.up import configured_by
from assay.cli.wiring import foreign_topic, topics_of
from assay.config import Config
from assay.dead_letters import DeadLetters
from assay.errors import Permanent
from assay.lookup import Selection
from assay.records import Turn, TurnScores, decode_turn_scores, encode
from assay.store import Store
from collector.assembly import Assembler
from collector.foreign_topic import ForeignTopic, kind
from collector.intake import Intake
from exporters.combiner import Combiner
from exporters.owner import Owner
from exporters.stage import StageSeries
from exporters.store_sink import StoreSink
from scorers.registry import resolve
from scorers.worker import Worker

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

POISON = [
    json.loads(line)
    for line in (Path(__file__).parent / "data/cases/B35.kafka.jsonl").read_text().splitlines()
]


@pytest.fixture
def config(broker, tmp_path):
    return Config.model_validate(
        {
            "bus": {
                "kafka": {
                    "bootstrap": broker.bootstrap,
                    "prefix": f"s{secrets.token_hex(4)}.",
                    "partitions": 1,
                }
            },
            "assembly": {"settle": "300ms", "idle": "500ms"},
            "metrics": ["f1_score", "tool_call_success"],
            "data_dir": str(tmp_path),
        }
    )


@pytest.fixture
async def bus(config):
    bus = KafkaBus(config.bus.kafka, [*topics_of(config), foreign_topic("otlp_spans")])
    bus._topics.open()
    admin = bus._topics.admin
    admin.create_topics({"otlp_spans": {"num_partitions": 3}}, raise_errors=False)
    admin.wait_for_topics(["otlp_spans"])
    bus._topics.close()
    await bus.start()
    yield bus
    await bus.stop()


def poison(config, topic):
    """The records as they are, tombstone too."""
    producer = KafkaProducer(bootstrap_servers=config.bus.kafka.bootstrap)
    for case in POISON:
        value = case.get("value_b64")
        producer.send(
            config.bus.kafka.prefix + topic,
            base64.b64decode(value) if value is not None else None,
            key=base64.b64decode(case["key_b64"] or "aw=="),
            partition=0,
        )
    producer.flush()
    producer.close()


def turn(number: int) -> Turn:
    return Turn(turn_id=f"{number:032x}-0", trace_id=f"{number:032x}", app="shop", query="q")


async def until(bus, topic, count):
    """Records of a topic, once there are `count`."""

    async def look():
        return [record async for record in bus.read(topic)]

    return await settled(look, lambda found: len(found) >= count)


def stages(config, bus, tmp_path):
    registry = CollectorRegistry()
    shared = StageSeries(registry)
    plan = resolve(config)
    return [
        Owner(bus, shared, registry, configured=configured_by([plan])),
        Combiner(bus, shared, registry),
        StoreSink(bus, shared, registry, store=Store(str(tmp_path / "store"))),
        Worker(bus, plan, registry, processes=1),
        Assembler(bus, config, registry),
    ]


async def test_poison_in_every_topic_holds_nothing_up(config, bus, tmp_path):
    """Each bad record goes to the dead letters once for each group that reads it, with origin and
    raw bytes; the good ones behind it come through, and all groups get to the end."""
    for topic in (SPANS, TURNS, SCORES, ROLLUPS):
        poison(config, topic)
    bodies = [trace(random.Random(n))[1] for n in range(5)]
    await bus.publish([Outgoing(SPANS, b, b"k", 0) for each in bodies for b in each])
    running = stages(config, bus, tmp_path)
    for stage in running:
        await stage.start()
    try:
        scores = await until(bus, SCORES, len(POISON) + 5)
        found = await until(bus, DEAD_LETTER, 6 * len(POISON) - 2)
    finally:
        for stage in reversed(running):
            await stage.stop()
    assert len(scores) == len(POISON) + 5
    good = [record for record in scores if record.headers.get("schema")]
    assert {decode_turn_scores(record.value).app for record in good} == {"drill"}
    by_stage: dict[str, list[str]] = {}
    for record in found:
        by_stage.setdefault(record.headers["stage"], []).append(record.headers["origin"])
    assert {stage: len(origins) for stage, origins in by_stage.items()} == {
        "assembler": len(POISON),
        "local": len(POISON),
        "store": 2 * len(POISON),
        "combiner": len(POISON),
        # Two are objects without any rollup: there is nothing in them to add or to refuse.
        "windows": len(POISON) - 2,
    }
    assert all(len(set(origins)) == len(origins) for origins in by_stage.values())
    raw = {base64.b64decode(c["value_b64"]) if c.get("value_b64") else b"" for c in POISON}
    assert {record.value for record in found} == raw
    stats = await bus.topic_stats()
    assert {g: n for s in stats.values() for g, n in s.lag.items() if g != "windows"} == {
        "assembler": 0,
        "local": 0,
        "store": 0,
        "combiner": 0,
    }


async def test_records_of_other_versions(config, bus):
    """A field too many is ignored, a missing one and a missing version are read, a far newer
    version goes to the dead letters; after the upgrade it can be put back."""
    plain = msgspec.to_builtins(turn(1))
    newer = {**plain, "turn_id": f"{2:032x}-0", "brand_new": {"x": 1}}
    older = {"turn_id": f"{3:032x}-0", "trace_id": f"{3:032x}", "app": "shop"}
    far = {**plain, "turn_id": f"{4:032x}-0"}
    await bus.publish(
        [
            Outgoing(TURNS, encode(turn(1)), b"k", 0),
            Outgoing(TURNS, json.dumps(newer).encode(), b"k", 0, {"schema": "1"}),
            Outgoing(TURNS, json.dumps(older).encode(), b"k", 0, {"schema": "1"}),
            Outgoing(TURNS, json.dumps(far).encode(), b"k", 0, {"schema": "999"}),
        ]
    )
    worker = Worker(bus, resolve(config), CollectorRegistry(), processes=1)
    await worker.start()
    try:
        scores = await until(bus, SCORES, 3)
        (letter,) = await until(bus, DEAD_LETTER, 1)
    finally:
        await worker.stop()
    assert {decode_turn_scores(r.value).turn_id[31] for r in scores} == {"1", "2", "3"}
    letters = DeadLetters(bus)
    (listed,) = await letters.listed()
    assert listed | {"timestamp": 0} == {
        "number": 0,
        "timestamp": 0,
        "stage": "local",
        "reason": "schema",
        "origin": f"{TURNS}/0/3",
        "bytes": len(letter.value),
    }
    assert await letters.replay([letter.offset]) == 1
    again = (await until(bus, TURNS, 5))[-1]
    assert (again.value, again.headers) == (letter.value, {"schema": "999"})


async def test_a_letter_that_another_group_took_is_not_put_back(config, bus):
    """Put back it would be counted twice where it was read the first time."""
    await bus.publish([Outgoing(TURNS, encode(turn(1)), b"k", 0)])
    other = bus.consumer("store", [TURNS, SCORES])
    await other.start()
    await other.commit(done=await other.poll(timeout=60))
    await other.stop()
    origin = {"stage": "local", "reason": "unreadable", "origin": f"{TURNS}/0/0"}
    await bus.publish([Outgoing(DEAD_LETTER, b"x", b"k", 0, origin)])
    letters = DeadLetters(bus)
    (letter,) = await letters.listed()
    with pytest.raises(Permanent, match="was taken by store"):
        await letters.replay([letter["number"]])
    with pytest.raises(Permanent, match="no dead letter 7"):
        await letters.replay([7])


async def test_topics_of_an_opentelemetry_collector_are_taken_in(config, bus):
    """Records of any key, protobuf or JSON, go through the doors' own function: spans meet by
    trace on our partitions; what is no export request is a dead letter. A process takes in several
    topics."""
    registry = CollectorRegistry()
    trace_id, bodies = trace(random.Random(3))
    as_json = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {"spans": [{"traceId": trace_id, "spanId": "00f067aa0ba902b7", "name": "j"}]}
                ]
            }
        ]
    }
    producer = KafkaProducer(bootstrap_servers=config.bus.kafka.bootstrap)
    for number, value in enumerate([*bodies, json.dumps(as_json).encode(), b"\xff\xfe garbage"]):
        producer.send("otlp_spans", value, key=b"%d" % number).get(timeout=60)
    producer.close()
    intake = Intake(bus, config, registry)
    foreign, other = (ForeignTopic(bus, intake, "otlp_spans", registry) for _ in range(2))
    await foreign.start()
    await other.stop()
    try:
        taken = await until(bus, SPANS, len(bodies) + 1)
        (letter,) = await until(bus, DEAD_LETTER, 1)
    finally:
        await foreign.stop()
    assert {record.key.hex() for record in taken} == {trace_id}
    assert letter.headers["reason"] == "undecodable"
    assert letter.headers["origin"].startswith("otlp_spans/")


def test_what_a_record_holds_is_seen_in_it():
    """Spans and log records are told apart in both encodings."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    logs = ExportLogsServiceRequest()
    logs.resource_logs.add().scope_logs.add().log_records.add(
        time_unix_nano=1, trace_id=b"t" * 16, observed_time_unix_nano=2
    )
    assert kind(logs.SerializeToString()) == ("logs", "protobuf")
    assert kind(trace(random.Random(1))[1][0]) == ("traces", "protobuf")
    assert kind(b'{"resourceLogs": []}') == ("logs", "json")
    assert kind(b'{"resourceSpans": []}') == ("traces", "json")
    assert kind(b"\xff") == ("traces", "protobuf")


def test_listings_and_status_ask_the_brokers(config, bus_data, capsys):
    """Without an agent that owns the stream, turns, status and the tail come from the brokers."""
    source = Brokers(config)
    (scored,) = source.turns(Selection(since=600))
    assert scored.turn.turn_id == turn(1).turn_id
    status = source.status()
    assert {t["topic"]: t["records"] for t in status["topics"]}[TURNS] == 1
    assert [(g["group"], g["members"]) for g in status["groups"]] == [("store", 0)]
    tail = source.tail(None)
    sending = threading.Timer(2.0, lambda: asyncio.run(_send_scores(config)))
    sending.start()
    assert next(tail).turn.turn_id == turn(1).turn_id
    tail.close()
    sending.join()


@pytest.fixture
def bus_data(config):
    async def fill():
        bus = KafkaBus(config.bus.kafka, topics_of(config))
        await bus.start()
        await bus.publish([Outgoing(TURNS, encode(turn(1)), b"k", 0)])
        consumer = bus.consumer("store", [TURNS, SCORES])
        await consumer.start()
        await consumer.commit(done=await consumer.poll(timeout=60))
        await consumer.stop()
        await bus.stop()

    asyncio.run(fill())


async def _send_scores(config):
    bus = KafkaBus(config.bus.kafka, topics_of(config))
    await bus.start()
    scores = TurnScores(
        subject_id=turn(1).turn_id,
        turn_id=turn(1).turn_id,
        trace_id=turn(1).trace_id,
        app="shop",
        group="local",
    )
    await bus.publish([Outgoing(SCORES, encode(scores), b"k", 0)])
    await bus.stop()
