from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading

import pytest
from bus_contract import TOPICS, drain, kept

from assay.bus import embedded, writer
from assay.bus.contract import Outgoing, Position, StateChange
from assay.bus.embedded import EmbeddedBus
from assay.errors import Permanent, Retryable

KB = 1024


@pytest.fixture
async def bus(tmp_path):
    bus = EmbeddedBus(tmp_path / "data", TOPICS)
    await bus.start()
    yield bus
    await bus.stop()


def record(value=b"x", topic="in"):
    return Outgoing(topic, value, partition=0)


async def test_waiting_publishes_share_a_sync(bus, tmp_path):
    """Many publishes at once cost few transactions: they are synced together."""
    await bus.publish([record()])
    before = bus._log._sequence
    await asyncio.gather(*(bus.publish([record(b"%d" % n)]) for n in range(500)))
    assert bus._log._sequence - before < 50
    assert len(await kept(bus, "in")) == 501


async def test_full_disk_is_retryable_and_passes(bus):
    """While the disk is full nothing takes effect and callers may retry; with room all goes on."""
    await bus.publish([record(b"before")])
    consumer = bus.consumer("g", ["in"])
    await consumer.start()
    records = await drain(consumer)
    connection = bus._log.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    big = os.urandom(500 * KB)
    with pytest.raises(Retryable, match="disk is full") as info:
        await bus.publish([record(big)])
    assert info.value.retry_after
    with pytest.raises(Retryable):
        await consumer.commit(
            outputs=[record(big, "out")], done=records, state=[StateChange(0, "k", b"v")]
        )
    assert consumer.lag() == 1
    assert await kept(bus, "in") == [b"before"]
    assert await kept(bus, "out") == []
    connection.execute("PRAGMA max_page_count = 1000000")
    await consumer.commit(outputs=[record(big, "out")], done=records)
    assert consumer.lag() == 0
    assert await kept(bus, "out") == [big]
    await consumer.stop()


async def test_locked_file_is_retryable(bus, tmp_path):
    """Another program that holds the file open for writing makes callers wait, nothing more."""
    other = sqlite3.connect(tmp_path / "data" / "bus.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Retryable, match="busy"):
        await bus.publish([record()])
    other.execute("ROLLBACK")
    other.close()
    await bus.publish([record()])
    assert len(await kept(bus, "in")) == 1


async def test_backlog_of_writes_is_bounded(bus, monkeypatch):
    """More waiting bytes than the bound are refused rather than held in memory."""
    monkeypatch.setattr(writer, "MAX_WAITING", 100 * KB)
    results = await asyncio.gather(
        *(bus.publish([record(b"x" * 10 * KB)]) for _ in range(20)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, Retryable)]
    assert len(refused) == 10
    assert len(await kept(bus, "in")) == 10
    await bus.publish([record(b"x" * 200 * KB)])


async def test_caller_that_gives_up_disturbs_nobody(bus):
    """A cancelled publish leaves its neighbours' answers as they are."""
    tasks = [asyncio.create_task(bus.publish([record(b"%d" % n)])) for n in range(20)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [n for n, result in enumerate(results) if result is not None] == [3]
    assert set(await kept(bus, "in")) >= {b"%d" % n for n in range(20) if n != 3}


async def test_stop_finishes_what_was_accepted(tmp_path):
    """Publishes that wait when the bus stops are durable; later ones are refused."""
    bus = EmbeddedBus(tmp_path, TOPICS)
    with pytest.raises(Retryable):
        await bus.publish([record()])
    await bus.start()
    tasks = [asyncio.create_task(bus.publish([record()])) for _ in range(100)]
    await asyncio.sleep(0)
    await asyncio.gather(bus.stop(), bus.stop())
    await asyncio.gather(*tasks)
    with pytest.raises(Retryable, match="stopped"):
        await bus.publish([record()])
    assert [t.name for t in threading.enumerate() if t.name.startswith("assay-bus")] == []
    await bus.start()
    assert len(await kept(bus, "in")) == 100
    await bus.stop()


async def test_failing_upkeep_is_said_once_and_stops_nothing(bus, monkeypatch, caplog):
    """An error of the retention is logged when it changes, and writing goes on."""
    monkeypatch.setattr(writer, "SWEEP_SECONDS", 0.01)

    def fail(log, max_size, idle):
        raise Permanent("cannot")

    monkeypatch.setattr(writer, "sweep", fail)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            await bus.publish([record()])
            await asyncio.sleep(0.02)
    assert len(caplog.records) == 1
    assert len(await kept(bus, "in")) == 5


async def test_group_has_one_member(bus):
    """A second member is refused while the first is there, and welcome afterwards."""
    first, second = bus.consumer("g", ["in"]), bus.consumer("g", ["in"])
    await first.start()
    with pytest.raises(Permanent, match="already has a member"):
        await second.start()
    assert second.assignment() == frozenset()
    await first.stop()
    await second.start()
    await second.stop()


async def test_member_that_fails_to_start_leaves(bus):
    """A group whose member could not take its state up is free for the next one."""

    async def assigned(partition, state):
        raise ValueError("unreadable")

    with pytest.raises(ValueError, match="unreadable"):
        await bus.consumer("g", ["in"], on_assigned=assigned).start()
    successor = bus.consumer("g", ["in"])
    await successor.start()
    await successor.stop()


async def test_pause_for_a_gap_that_stays_open(bus):
    """A group that is done far beyond an open record reads on only once that is done too."""
    for _ in range(5):
        await bus.publish([record(b"")] * 5000)
    consumer = bus.consumer("g", ["in"])
    await consumer.start()
    read = []
    while records := await consumer.poll(max_records=2000, timeout=0.05):
        read += records
        await consumer.commit(done=[r for r in records if r.offset])
    assert 20_000 < len(read) < 23_000
    waiting = asyncio.create_task(consumer.poll(timeout=30))
    await asyncio.sleep(0.05)
    await consumer.commit(done=[Position("in", 0, 0)])
    assert (await waiting)[0].offset == len(read)
    await consumer.stop()


async def test_record_is_found_by_its_position(bus):
    """Any kept record can be read alone; none is invented."""
    await bus.publish([record(b"%d" % n) for n in range(5)])
    found = await bus.find(Position("in", 0, 3))
    assert found is not None and found.value == b"3"
    assert await bus.find(Position("in", 0, 5)) is None
    assert await bus.find(Position("in", 1, 0)) is None
    with pytest.raises(Permanent):
        await bus.find(Position("in", 9, 0))


async def test_stats_tell_what_is_held(bus):
    """Counts, oldest time, sizes and each group's lag are those of the log."""
    await bus.publish([record(b"%d" % n) for n in range(5)])
    consumer = bus.consumer("g", ["in"])
    await consumer.start()
    await consumer.commit(done=[Position("in", 0, 0), Position("in", 0, 3)])
    stats = await bus.stats()
    (oldest, *_) = [r async for r in bus.read("in")]
    assert (stats.topics["in"].records, stats.topics["in"].lag) == (5, {"g": 3})
    assert stats.topics["in"].oldest == oldest.timestamp
    assert stats.topics["out"].oldest == 0
    assert 0 < stats.used <= stats.file
    await consumer.stop()


async def test_impossible_records_are_refused_at_once(bus, monkeypatch):
    """What could never be written is a permanent error of its own publish alone."""
    monkeypatch.setattr(embedded, "MAX_VALUE", 10 * KB)
    with pytest.raises(Permanent, match="larger"):
        await bus.publish([record(b"x" * 20 * KB)])
    with pytest.raises(Permanent, match="headers"):
        await bus.publish([Outgoing("in", b"x", partition=0, headers={"a": "\ud800"})])
    assert await kept(bus, "in") == []
    consumer = bus.consumer("g", ["in"])
    await consumer.start()
    with pytest.raises(Permanent, match="state key"):
        await consumer.commit(outputs=[record()], state=[StateChange(0, "\ud800", b"v")])
    assert await kept(bus, "in") == []
    await consumer.stop()
