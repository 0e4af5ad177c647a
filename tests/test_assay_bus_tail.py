from __future__ import annotations

import pytest
from bus_contract import TOPICS

from assay.bus.contract import Outgoing, Record, Topic
from assay.bus.embedded import EmbeddedBus
from assay.bus.log import Log
from assay.bus.reader import Reader
from assay.bus.rows import Partition
from assay.bus.tail import Tail

TOPIC = Topic(name="t", partitions=2, retention=60.0)


def partition(number: int, next_offset: int) -> Partition:
    return Partition(number + 1, TOPIC, number, 0, next_offset, 0)


def records(of: Partition, *sizes: int) -> list[tuple[Partition, Record]]:
    return [
        (of, Record("t", of.number, offset, 1, None, bytes(size), {}))
        for offset, size in enumerate(sizes)
    ]


def offsets(tail: Tail, of: Partition, start: int, records: int = 100, size: int = 10**6):
    return [r.offset for r in tail.read(of, start, max_records=records, max_bytes=size)]


def test_reads_from_an_offset_up_to_what_is_visible():
    """Records from the offset on are given, up to the partition's end, a number and a size."""
    tail, of = Tail(), partition(0, 3)
    tail.add(records(of, 10, 10, 10, 10))
    assert offsets(tail, of, 1) == [1, 2]
    assert offsets(tail, of, 0, records=1) == [0]
    assert offsets(tail, of, 0, size=15) == [0, 1]
    assert offsets(tail, of, 3) == []


def test_the_oldest_of_all_partitions_goes_first():
    """Beyond its size the tail forgets the oldest records, whichever partition they are of."""
    tail, one, two = Tail(most=30), partition(0, 2), partition(1, 2)
    tail.add(records(one, 10, 10))
    tail.add(records(two, 10, 10))
    assert not tail.holds(one, 0)
    assert offsets(tail, one, 0) == []
    assert offsets(tail, one, 1) == [1]
    assert offsets(tail, two, 0) == [0, 1]


def test_a_record_larger_than_the_tail_is_not_kept():
    """One record never takes more memory than the tail may."""
    tail, of = Tail(most=30), partition(0, 2)
    tail.add(records(of, 10, 31))
    assert not tail.holds(of, 0)
    assert not tail.holds(of, 1)


async def test_a_group_that_keeps_up_reads_nothing_from_the_file(tmp_path, monkeypatch):
    """What was just written is delivered out of memory, equal to what the file holds."""
    bus = EmbeddedBus(tmp_path, TOPICS)
    await bus.start()
    consumer = bus.consumer("g", ["in"])
    await consumer.start()
    await bus.publish([Outgoing("in", b"v" * 1000, b"k", 1, {"a": "b"}), Outgoing("in", b"w")])
    with monkeypatch.context() as patched:
        patched.setattr(Reader, "read", None)
        polled = await consumer.poll()
    log: Log = bus._log
    stored = [
        record
        for part in log.partitions.values()
        for record in log.reader.read(part, 0, max_records=9, max_bytes=10**6)
    ]
    assert sorted(polled) == sorted(stored)
    assert len(polled) == 2
    await consumer.stop()
    await bus.stop()


@pytest.mark.parametrize("most", [0, 10**6])
async def test_a_new_group_reads_what_is_no_longer_in_memory(tmp_path, monkeypatch, most):
    """The beginning is read from the file and the rest from memory, each record once."""
    monkeypatch.setattr("assay.bus.log.Tail", lambda: Tail(most))
    bus = EmbeddedBus(tmp_path, TOPICS)
    await bus.start()
    await bus.publish([Outgoing("in", b"%d" % n, partition=0) for n in range(20)])
    consumer = bus.consumer("g", ["in"])
    await consumer.start()
    found = []
    while len(found) < 20:
        found += [int(record.value) for record in await consumer.poll(max_records=3)]
    assert found == list(range(20))
    await consumer.stop()
    await bus.stop()
