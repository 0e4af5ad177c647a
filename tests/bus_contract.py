"""The contract of the bus as tests: every implementation's test file derives from `BusContract`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import asynccontextmanager

import pytest

from assay.bus.contract import Bus, Consumer, Outgoing, Position, Record, StateChange, Topic
from assay.errors import Permanent

TOPICS = (
    Topic(name="in", partitions=2, retention=3600.0),
    Topic(name="side", partitions=2, retention=3600.0),
    Topic(name="out", partitions=2, retention=3600.0),
    Topic(name="single", partitions=1, retention=3600.0),
)


async def drain(consumer: Consumer, *, paused: frozenset[int] = frozenset()) -> list[Record]:
    """Every record that is there: polls until each partition but the paused was read to its end,
    which its clock shows."""
    records: list[Record] = []
    began = int(time.time() * 1000)
    while True:
        found = await consumer.poll(timeout=0.2)
        records += found
        behind = [p for p in consumer.assignment() - paused if consumer.clock(p) < began]
        if not found and not behind:
            return records


async def kept(bus: Bus, topic: str) -> list[bytes]:
    """Values of a topic, partition by partition."""
    return [record.value async for record in bus.read(topic)]


def outgoing(topic: str, count: int, *, partition: int | None = 0) -> list[Outgoing]:
    return [Outgoing(topic, b"%d" % n, key=b"k%d" % n, partition=partition) for n in range(count)]


class BusContract:
    """Derive and provide `connect`: a bus, not started, on the same data at each call."""

    hidden = 0.0
    """Seconds by which a clock stays behind the wall's."""

    @pytest.fixture
    def connect(self) -> Callable[[], Bus]:
        raise NotImplementedError

    @pytest.fixture
    async def bus(self, connect):
        bus = connect()
        await bus.start()
        yield bus
        await bus.stop()

    @pytest.fixture
    def running(self, connect):
        @asynccontextmanager
        async def run():
            bus = connect()
            await bus.start()
            try:
                yield bus
            finally:
                await bus.stop()

        return run

    async def test_stop_is_safe_twice_and_without_start(self, connect):
        """A bus stops without complaint whether or not it ever started, once or twice."""
        bus = connect()
        await bus.stop()
        await bus.start()
        await bus.stop()
        await bus.stop()

    async def test_record_comes_back_as_written(self, bus):
        """Key, value, headers, topic, partition and order are what was published."""
        headers = {"schema": "1", "ünï": "cødé"}
        big = bytes(range(256)) * 2000
        await bus.publish(
            [
                Outgoing("in", b"", partition=1),
                Outgoing("in", big, key=b"\0key", partition=1, headers=headers),
            ]
        )
        empty, full = [record async for record in bus.read("in")]
        assert (empty.value, empty.key, dict(empty.headers)) == (b"", None, {})
        assert (full.value, full.key, dict(full.headers)) == (big, b"\0key", headers)
        assert (full.topic, full.partition, full.offset) == ("in", 1, empty.offset + 1)

    async def test_same_key_meets_on_one_partition(self, bus):
        """Without a partition the key decides, alike for every record of that key."""
        await bus.publish([Outgoing("in", b"x", key=b"%d" % (n % 7)) for n in range(70)])
        places: dict[bytes | None, set[int]] = {}
        async for record in bus.read("in"):
            places.setdefault(record.key, set()).add(record.partition)
        assert all(len(partitions) == 1 for partitions in places.values())
        assert {p for partitions in places.values() for p in partitions} == {0, 1}

    async def test_timestamps_never_go_back(self, bus):
        """Timestamps are the bus's own, close to now, and grow along a partition."""
        before = int(time.time() * 1000)
        for _ in range(20):
            await bus.publish(outgoing("in", 3))
        stamps = [record.timestamp async for record in bus.read("in")]
        assert stamps == sorted(stamps)
        assert before - 1000 <= stamps[0] <= stamps[-1] <= int(time.time() * 1000) + 1000

    async def test_unknown_topic_is_refused(self, bus):
        """A topic or partition that does not exist can never be written or read."""
        with pytest.raises(Permanent):
            await bus.publish([Outgoing("nowhere", b"x")])
        with pytest.raises(Permanent):
            await bus.publish([Outgoing("in", b"x", partition=9)])
        with pytest.raises(Permanent):
            bus.partitions("nowhere")

    async def test_poll_delivers_once_a_session_in_order(self, bus):
        """Each record comes once, in offset order, never more than asked for."""
        await bus.publish(outgoing("in", 100))
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        first = await consumer.poll(max_records=7)
        rest = await drain(consumer)
        assert len(first) <= 7
        assert [record.value for record in first + rest] == [b"%d" % n for n in range(100)]
        await consumer.stop()

    async def test_poll_wakes_for_a_new_record(self, bus):
        """A waiting poll returns when a record arrives, not when its time is over."""
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        await drain(consumer)
        waiting = asyncio.create_task(consumer.poll(timeout=30))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        await bus.publish(outgoing("in", 1))
        assert len(await waiting) == 1
        assert time.monotonic() - started < 15
        await consumer.stop()

    async def test_groups_are_independent(self, bus):
        """What one group is done with, another still reads."""
        await bus.publish(outgoing("in", 5))
        for group in ("a", "b"):
            consumer = bus.consumer(group, ["in"])
            await consumer.start()
            records = await drain(consumer)
            assert len(records) == 5
            await consumer.commit(done=records)
            assert consumer.lag() == 0
            await consumer.stop()

    async def test_done_records_never_come_again(self, running):
        """After a restart exactly the records come that were not done, whatever the order."""
        async with running() as bus:
            await bus.publish(outgoing("in", 50))
            consumer = bus.consumer("g", ["in"])
            await consumer.start()
            records = await drain(consumer)
            await consumer.commit(done=[r for r in records if r.offset % 3 == 1])
            await consumer.commit(done=[Position("in", 0, 0), Position("in", 0, 30)])
            await consumer.stop()
        async with running() as bus:
            consumer = bus.consumer("g", ["in"])
            await consumer.start()
            again = await drain(consumer)
            expected = [n for n in range(50) if n % 3 != 1 and n not in (0, 30)]
            assert [record.offset for record in again] == expected
            assert consumer.lag() == len(expected)
            await consumer.stop()

    async def test_commit_writes_outputs_progress_and_state_together(self, running):
        """Outputs, done records and state of one commit are all there after a restart."""
        async with running() as bus:
            await bus.publish(outgoing("in", 2))
            consumer = bus.consumer("g", ["in"])
            await consumer.start()
            records = await drain(consumer)
            await consumer.commit(
                outputs=outgoing("out", 3),
                done=records,
                state=[StateChange(0, "a", b"1"), StateChange(0, "b", b"2")],
            )
            await consumer.commit(state=[StateChange(0, "b", None), StateChange(1, "a", b"3")])
            await consumer.stop()
        states = {}

        async def assigned(partition, state):
            states[partition] = dict(state)

        async with running() as bus:
            consumer = bus.consumer("g", ["in"], on_assigned=assigned)
            await consumer.start()
            assert await drain(consumer) == []
            assert states == {0: {"a": b"1"}, 1: {"a": b"3"}}
            assert await kept(bus, "out") == [b"0", b"1", b"2"]
            await consumer.stop()

    async def test_refused_commit_has_no_effect(self, bus):
        """A commit with one impossible part changes nothing at all."""
        await bus.publish(outgoing("in", 1))
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        records = await drain(consumer)
        with pytest.raises(Permanent):
            await consumer.commit(
                outputs=[*outgoing("out", 1), Outgoing("nowhere", b"x")], done=records
            )
        with pytest.raises(Permanent):
            await consumer.commit(
                outputs=outgoing("out", 1), done=[*records, Position("side", 0, 0)]
            )
        with pytest.raises(Permanent):
            await consumer.commit(outputs=outgoing("out", 1), state=[StateChange(7, "a", b"1")])
        assert await kept(bus, "out") == []
        assert consumer.lag() == 1
        await consumer.stop()

    async def test_commit_after_leaving_is_refused(self, bus):
        """A member that left owns nothing."""
        await bus.publish(outgoing("in", 1))
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        records = await drain(consumer)
        await consumer.stop()
        await consumer.stop()
        assert consumer.assignment() == frozenset()
        with pytest.raises(Permanent):
            await consumer.commit(outputs=outgoing("out", 1), done=records)
        assert await kept(bus, "out") == []

    async def test_revoked_member_may_still_commit(self, bus):
        """What is committed before the revocation returns is not delivered again."""
        await bus.publish(outgoing("in", 4))

        async def revoked(partition):
            if partition == 0:
                await consumer.commit(done=records)

        consumer = bus.consumer("g", ["in"], on_revoked=revoked)
        await consumer.start()
        records = await drain(consumer)
        await consumer.stop()
        successor = bus.consumer("g", ["in"])
        await successor.start()
        assert await drain(successor) == []
        await successor.stop()

    async def test_paused_partition_delivers_nothing(self, bus):
        """A pause holds one partition back and no other, until it is resumed."""
        await bus.publish(outgoing("in", 3, partition=0) + outgoing("in", 3, partition=1))
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        consumer.pause([1])
        held = frozenset({1})
        assert {record.partition for record in await drain(consumer, paused=held)} == {0}
        consumer.resume([1])
        assert {record.partition for record in await drain(consumer)} == {1}
        await consumer.stop()

    async def test_clock_follows_records_then_the_wall(self, bus):
        """In a backlog the clock is the last record's time; at the end it is the wall's."""
        for _ in range(3):
            await bus.publish(outgoing("in", 1))
            await asyncio.sleep(0.05)
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        assert consumer.clock(0) == 0
        for _ in range(3):
            (record,) = await consumer.poll(max_records=1, timeout=60)
            assert consumer.clock(0) == record.timestamp
        before = int((time.time() - self.hidden) * 1000)
        assert await consumer.poll(timeout=0.1) == []
        assert before <= consumer.clock(0) <= int(time.time() * 1000) + 1
        assert consumer.clock(1) >= before
        await consumer.stop()

    async def test_paused_partition_keeps_its_clock(self, bus):
        """Wall time does not advance a partition that was not read to its end."""
        await bus.publish(outgoing("in", 2))
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        (record,) = await consumer.poll(max_records=1, timeout=60)
        consumer.pause([0])
        await consumer.poll(timeout=0.1)
        assert consumer.clock(0) == record.timestamp
        await consumer.stop()

    async def test_nothing_is_stamped_before_a_clock_that_was_seen(self, bus):
        """A record never arrives with a time before what the clock already showed."""
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        seen = {0: 0, 1: 0}
        late = 0
        count = 300

        async def send():
            for n in range(count):
                await bus.publish([Outgoing("in", b"x", partition=n % 2)])

        sending = asyncio.create_task(send())
        received = 0
        while received < count:
            for record in await consumer.poll(timeout=0.005, max_records=3):
                received += 1
                late += record.timestamp < seen[record.partition]
            for partition in seen:
                assert consumer.clock(partition) >= seen[partition]
                seen[partition] = consumer.clock(partition)
        await sending
        assert late == 0
        await consumer.stop()

    async def test_group_over_several_topics_is_by_partition_number(self, bus):
        """Records of all the topics come, and the clock is that of the topic furthest behind."""
        await bus.publish(outgoing("in", 2) + outgoing("side", 2))
        consumer = bus.consumer("g", ["in", "side"])
        await consumer.start()
        assert consumer.assignment() == {0, 1}
        records = await drain(consumer)
        assert sorted((r.topic, r.offset) for r in records) == [
            ("in", 0),
            ("in", 1),
            ("side", 0),
            ("side", 1),
        ]
        await consumer.commit(done=records)
        assert consumer.lag() == 0
        with pytest.raises(Permanent):
            bus.consumer("g", ["in", "single"])
        await consumer.stop()

    async def test_overlapping_commits_all_take_effect(self, bus):
        """Commits from concurrent tasks, in any order, neither lose nor double anything."""
        await bus.publish(outgoing("in", 200))
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        records = await drain(consumer)

        async def transform(record):
            await asyncio.sleep(record.offset % 7 / 1000)
            await consumer.commit(
                outputs=[Outgoing("out", record.value, partition=0)], done=[record]
            )

        await asyncio.gather(*(transform(record) for record in records))
        assert sorted(await kept(bus, "out"), key=int) == [b"%d" % n for n in range(200)]
        assert consumer.lag() == 0
        await consumer.stop()

    async def test_read_since_a_time(self, bus):
        """Reading from a time gives the records stamped then or later."""
        for n in range(5):
            await bus.publish([Outgoing("in", b"%d" % n, partition=0)])
            await asyncio.sleep(0.01)
        stamps = [record.timestamp async for record in bus.read("in")]
        values = [record.value async for record in bus.read("in", since=stamps[3])]
        assert values == [b"3", b"4"]
        assert [r async for r in bus.read("in", since=stamps[4] + 60_000)] == []

    async def test_follow_reads_from_now_on(self, bus):
        """Following gives what is published after it began, and waits for more."""
        await bus.publish(outgoing("in", 2))
        stream = bus.read("in", follow=True)
        following = asyncio.create_task(anext(stream))
        await asyncio.sleep(0.2)
        assert not following.done()
        await bus.publish([Outgoing("in", b"new", partition=1)])
        assert (await asyncio.wait_for(following, 60)).value == b"new"
        await stream.aclose()
