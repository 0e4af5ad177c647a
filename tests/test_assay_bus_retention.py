from __future__ import annotations

import asyncio
import logging
import os

import pytest

from assay.bus.contract import Outgoing, StateChange, Topic
from assay.bus.embedded import EmbeddedBus
from assay.errors import Retryable

MB = 2**20
TOPICS = (
    Topic(name="short", partitions=1, retention=60.0),
    Topic(name="long", partitions=2, retention=3600.0),
)


class Wall:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


@pytest.fixture
def wall():
    return Wall()


@pytest.fixture
async def bus(tmp_path, wall):
    bus = EmbeddedBus(tmp_path / "data", TOPICS, max_size=60 * MB, wall=wall)
    await bus.start()
    yield bus
    await bus.stop()


async def fill(bus, topic, megabytes, partition=0):
    for _ in range(megabytes):
        await bus.publish([Outgoing(topic, os.urandom(MB // 4), partition=partition)] * 4)


async def values(bus, topic):
    return [record.offset async for record in bus.read(topic)]


async def test_old_records_go_by_the_age_of_their_topic(bus, wall):
    """A record is kept for its topic's retention and no longer; offsets go on."""
    await bus.publish([Outgoing("short", b"1"), Outgoing("long", b"1", partition=0)])
    wall.pass_seconds(40)
    await bus.publish([Outgoing("short", b"2")])
    await bus.sweep()
    assert await values(bus, "short") == [0, 1]
    wall.pass_seconds(30)
    await bus.sweep()
    assert await values(bus, "short") == [1]
    wall.pass_seconds(100)
    await bus.sweep()
    assert await values(bus, "short") == []
    assert await values(bus, "long") == [0]
    await bus.publish([Outgoing("short", b"3")])
    assert await values(bus, "short") == [2]


async def test_loss_by_age_is_counted_and_said_once(bus, wall, caplog):
    """Unread records that age out are counted by topic and group; reading goes on behind them."""
    consumer = bus.consumer("slow", ["short"])
    await consumer.start()
    await bus.publish([Outgoing("short", b"%d" % n) for n in range(10)])
    records = await consumer.poll()
    await consumer.commit(done=[records[1], records[5]])
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            wall.pass_seconds(61)
            await bus.sweep()
            await bus.publish([Outgoing("short", b"x")])
    assert (await bus.stats()).topics["short"].lost == {"slow": 9}
    assert len(caplog.records) == 1
    assert consumer.lag() == 1
    assert [record.offset for record in await consumer.poll()] == [11]
    await consumer.commit(done=[records[0], records[2]])
    assert consumer.lag() == 1
    await consumer.stop()


async def test_forgotten_group_loses_nothing(bus, wall):
    """A group without a member for longer than the retention is not counted as a loser."""
    consumer = bus.consumer("gone", ["short"])
    await consumer.start()
    await consumer.stop()
    wall.pass_seconds(100)
    await bus.publish([Outgoing("short", b"x")])
    wall.pass_seconds(100)
    await bus.sweep()
    assert (await bus.stats()).topics["short"].lost == {}


async def test_full_log_refuses_senders_and_loses_nothing(bus):
    """At the largest size senders are told to wait, while commits go on; nothing unread goes."""
    consumer = bus.consumer("g", ["long"])
    await consumer.start()
    with pytest.raises(Retryable) as info:
        await fill(bus, "long", 100)
    assert info.value.retry_after
    await bus.sweep()
    stats = await bus.stats()
    assert stats.used <= stats.max_size * 1.01
    held = await values(bus, "long")
    assert held[0] == 0
    assert consumer.lag() == len(held)
    (record, *_) = await consumer.poll(max_records=1)
    await consumer.commit(outputs=[Outgoing("short", b"turn")], done=[record])
    await consumer.stop()


async def test_what_every_group_has_done_makes_room(bus):
    """Near the largest size the oldest records go once all groups are done with them."""
    members = [bus.consumer(group, ["long"]) for group in ("a", "b")]
    for member in members:
        await member.start()
    await fill(bus, "long", 57)
    first, second = members
    while records := await first.poll(timeout=0.1):
        await first.commit(done=records)
    await bus.sweep()
    assert len(await values(bus, "long")) == 57 * 4
    while records := await second.poll(timeout=0.1):
        await second.commit(done=records)
    await bus.sweep()
    assert (await bus.stats()).used <= 0.8 * 60 * MB
    assert (await bus.stats()).topics["long"].lost == {}
    await fill(bus, "long", 5)
    for member in members:
        assert len(await member.poll()) > 0
        await member.stop()


async def test_readers_beside_the_retention_see_no_damage(bus, wall):
    """Whoever reads while records are deleted passes over them, in order, and nothing fails."""
    running = True

    async def publish():
        while running:
            await bus.publish([Outgoing("short", b"x" * 20_000)] * 20)
            wall.pass_seconds(2)

    async def read():
        count = 0
        while running:
            offsets = [record.offset async for record in bus.read("short", since=wall.now - 30_000)]
            assert offsets == sorted(offsets)
            count += len(offsets)
        return count

    async def poll():
        count, last = 0, -1
        while running:
            for record in await consumer.poll(max_records=30, timeout=0.01):
                assert record.offset > last
                last = record.offset
                count += 1
            await asyncio.sleep(0.005)
        return count

    consumer = bus.consumer("g", ["short"])
    await consumer.start()
    tasks = [asyncio.create_task(work()) for work in (publish, read, read, poll)]
    for _ in range(60):
        await asyncio.sleep(0.02)
        await bus.sweep()
    running = False
    _, *counts = await asyncio.gather(*tasks)
    assert min(counts) > 0
    assert bus._log.partitions["short", 0].first > 0
    await consumer.stop()


async def test_disk_space_comes_back(bus, wall):
    """After a deletion the files shrink by most of what was deleted."""
    await fill(bus, "short", 50)
    await bus.publish([Outgoing("long", b"kept", partition=0)])
    full = (await bus.stats()).file
    assert full > 50 * MB
    wall.pass_seconds(100)
    for _ in range(4):
        await bus.sweep()
    assert (await bus.stats()).file < full - 30 * MB
    assert [record.value async for record in bus.read("long")] == [b"kept"]


async def test_state_expires(bus, wall):
    """A value that was not written for its time to live is gone, in memory and on disk."""
    states = []

    async def assigned(partition, state):
        states.append(dict(state))

    consumer = bus.consumer("g", ["short"], state_ttl=50)
    await consumer.start()
    await consumer.commit(state=[StateChange(0, "a", b"1"), StateChange(0, "b", b"1")])
    wall.pass_seconds(30)
    await consumer.commit(state=[StateChange(0, "b", b"2")])
    await consumer.stop()
    wall.pass_seconds(30)
    for _ in range(2):
        consumer = bus.consumer("g", ["short"], state_ttl=50, on_assigned=assigned)
        await consumer.start()
        await consumer.stop()
        await bus.sweep()
    assert states == [{"b": b"2"}, {"b": b"2"}]
    wall.pass_seconds(30)
    await bus.sweep()
    consumer = bus.consumer("g", ["short"], on_assigned=assigned)
    await consumer.start()
    await consumer.stop()
    assert states[-1] == {}
