"""Commits without transactions, on real brokers."""

from __future__ import annotations

import logging
import secrets

import pytest

from assay.bus.contract import Outgoing, StateChange, Topic
from assay.bus.kafka import KafkaBus
from assay.bus.kafka_topics import Topics
from assay.config import Kafka
from assay.errors import Permanent

TOPICS = (
    Topic(name="in", partitions=2, retention=3600.0),
    Topic(name="out", partitions=2, retention=3600.0),
)
pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]


@pytest.fixture
async def bus(broker):
    prefix = f"a{secrets.token_hex(4)}."
    bus = KafkaBus(Kafka(bootstrap=broker.bootstrap, prefix=prefix, transactions=False), TOPICS)
    await bus.start()
    yield bus
    await bus.stop()


async def some(consumer, count):
    records = []
    while len(records) < count:
        records += await consumer.poll(timeout=1.0)
    return records


async def test_what_is_done_stays_done_and_what_is_not_comes_again(bus):
    """Outputs, progress with its gaps, and state are there for the next member."""
    await bus.publish([Outgoing("in", b"%d" % n, partition=n % 2) for n in range(20)])
    states = {}

    async def assigned(number, state):
        states[number] = state

    first = bus.consumer("g", ["in"], on_assigned=assigned)
    await first.start()
    records = await some(first, 20)
    done = [record for record in records if int(record.value) not in (4, 5)]
    await first.commit(
        outputs=[Outgoing("out", r.value, partition=r.partition) for r in done],
        done=done,
        state=[StateChange(1, "k", b"v")],
    )
    await first.stop()
    assert sorted([int(r.value) async for r in bus.read("out")]) == sorted(set(range(20)) - {4, 5})
    second = bus.consumer("g", ["in"], on_assigned=assigned)
    await second.start()
    assert {int(record.value) for record in await some(second, 2)} == {4, 5}
    assert states == {0: {}, 1: {"k": b"v"}}
    assert await second.poll(timeout=0.5) == []
    await second.stop()


async def test_a_member_commits_nothing_for_a_partition_that_it_lost(bus):
    """It is told that it lost it, and writes no output either."""
    await bus.publish([Outgoing("in", b"x", partition=0)])
    consumer = bus.consumer("g", ["in"])
    await consumer.start()
    records = await some(consumer, 1)
    await consumer.stop()
    with pytest.raises(Permanent):
        await consumer.commit(outputs=[Outgoing("out", b"x", partition=0)], done=records)
    assert [record async for record in bus.read("out")] == []


async def test_it_is_said_at_start(broker, caplog, monkeypatch):
    """Where the settings or the brokers leave transactions out, the log says what that means."""
    prefix = f"a{secrets.token_hex(4)}."
    quiet = KafkaBus(Kafka(bootstrap=broker.bootstrap, prefix=prefix), TOPICS)
    with caplog.at_level(logging.WARNING):
        await quiet.start()
        await quiet.stop()
        assert "done twice" not in caplog.text
        monkeypatch.setattr(Topics, "transactional", lambda self: False)
        lacking = KafkaBus(Kafka(bootstrap=broker.bootstrap, prefix=prefix), TOPICS)
        await lacking.start()
        await lacking.stop()
    assert "done twice" in caplog.text
