"""What is Kafka's alone: members that come, go, die and are taken for dead."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter

import pytest
from kafka import KafkaProducer
from patience import settled

from assay.bus.contract import Outgoing, Position, StateChange, Topic
from assay.bus.kafka import KafkaBus
from assay.config import Kafka
from assay.errors import Permanent

TOPICS = (
    Topic(name="in", partitions=4, retention=3600.0),
    Topic(name="out", partitions=4, retention=3600.0),
)
SESSION = 6
"""Seconds until a silent member counts as dead: more than a busy machine keeps a thread waiting."""
pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]


@pytest.fixture
def settings(broker):
    return Kafka(
        bootstrap=broker.bootstrap,
        prefix=f"m{secrets.token_hex(4)}.",
        options={"session_timeout_ms": SESSION * 1000, "heartbeat_interval_ms": 1000},
    )


@pytest.fixture
async def buses(settings):
    """Two processes' connections."""
    both = [KafkaBus(settings, TOPICS) for _ in range(2)]
    for bus in both:
        await bus.start()
    yield both
    for bus in both:
        await bus.stop()


class Worker:
    """Copies records from `in` to `out`, and notes what it is told of its partitions."""

    def __init__(self, bus: KafkaBus, *, step: float = 0.0) -> None:
        self.consumer = bus.consumer(
            "g", ["in"], on_assigned=self._assigned, on_revoked=self._revoked
        )
        self.step = step
        self.states: dict[int, dict[str, bytes]] = {}
        self.pending: list = []
        self.news: list[str] = []
        self.task: asyncio.Task | None = None

    async def _assigned(self, number, state):
        self.news.append(f"+{number}")
        self.states[number] = dict(state)

    async def _revoked(self, number):
        self.news.append(f"-{number}")
        await self.flush()

    async def flush(self):
        records, self.pending = self.pending, []
        if records:
            await self.consumer.commit(
                outputs=[Outgoing("out", r.value, r.key, r.partition) for r in records],
                done=records,
                state=[StateChange(n, "count", b"x") for n in {r.partition for r in records}],
            )

    async def start(self):
        await self.consumer.start()
        self.task = asyncio.create_task(self._run())

    async def _run(self):
        while True:
            self.pending += await self.consumer.poll(max_records=20, timeout=0.2)
            await asyncio.sleep(self.step)
            await self.flush()

    async def stop(self):
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.consumer.stop()


async def publish(bus, start, count):
    await bus.publish(
        [Outgoing("in", b"%d" % n, partition=n % 4) for n in range(start, start + count)]
    )


async def copied(bus, count):
    """How often each value came out, once `count` of them are there."""

    async def look():
        return Counter([int(record.value) async for record in bus.read("out")])

    return await settled(look, lambda found: len(found) >= count)


async def until_it_has(worker, count):
    async def look():
        return worker.consumer.assignment()

    assert len(await settled(look, lambda owned: len(owned) == count)) == count, worker.news


async def test_members_share_come_and_go_without_loss_or_double(buses):
    """A second member takes half of the partitions and gives them back; what is under way at each
    moment is neither lost nor done twice, and a partition that stays is not interrupted."""
    first, second = Worker(buses[0], step=0.02), Worker(buses[1], step=0.02)
    await first.start()
    assert first.consumer.assignment() == {0, 1, 2, 3}
    sending = asyncio.create_task(_send(buses[0], 40))
    await asyncio.sleep(1)
    await second.start()
    await until_it_has(second, 2)
    shared = first.consumer.assignment(), second.consumer.assignment()
    assert shared[0] | shared[1] == {0, 1, 2, 3} and not shared[0] & shared[1]
    await asyncio.sleep(1)
    await second.stop()
    await until_it_has(first, 4)
    count = await sending
    assert await copied(buses[0], count) == Counter(range(count))
    kept = [news for news in first.news if news[1:] in map(str, shared[0])]
    assert len(kept) == len(shared[0]), first.news
    await first.stop()


async def _send(bus, batches):
    for n in range(batches):
        await publish(bus, n * 20, 20)
        await asyncio.sleep(0.1)
    return batches * 20


async def test_a_member_taken_for_dead_cannot_commit(buses):
    """A member whose heart stopped for the session's time is refused by the brokers, even though it
    never heard of it; what it held is done by the other, once."""
    await publish(buses[0], 0, 40)
    sleeper = Worker(buses[0])
    await sleeper.consumer.start()
    while len(sleeper.pending) < 40:
        sleeper.pending += await sleeper.consumer.poll(timeout=0.5)
    sleeper.consumer._pump._consumer._coordinator._close_heartbeat()
    other = Worker(buses[1])
    await other.start()
    assert await copied(buses[1], 40) == Counter(range(40))
    with pytest.raises(Permanent):
        await sleeper.flush()
    assert await copied(buses[1], 40) == Counter(range(40))
    await sleeper.consumer.stop()
    await other.stop()


async def test_what_was_read_before_a_membership_was_lost_cannot_be_committed_in_the_next(buses):
    """A member that was thrown out and let in again has the same partitions as before, with the
    progress of that moment: its earlier work is refused, and done anew once."""
    await publish(buses[0], 0, 40)
    worker = Worker(buses[0])
    await worker.consumer.start()
    while len(worker.pending) < 40:
        worker.pending += await worker.consumer.poll(timeout=0.5)
    before, held = worker.consumer._pump.owned(), worker.pending
    coordinator = worker.consumer._pump._consumer._coordinator
    coordinator.reset_generation()
    coordinator.request_rejoin()

    async def anew():
        return worker.consumer._pump.owned() - before

    assert len(await settled(anew, lambda claims: len(claims) == 4)) == 4
    with pytest.raises(Permanent):
        await worker.flush()
    with pytest.raises(Permanent):
        await worker.consumer.commit(
            outputs=[Outgoing("out", r.value, r.key, r.partition) for r in held], done=held
        )
    assert [record async for record in buses[0].read("out")] == []
    await worker.consumer.stop()
    other = Worker(buses[1])
    await other.start()
    assert await copied(buses[1], 40) == Counter(range(40))
    await other.stop()


async def test_a_member_that_does_not_poll_keeps_its_membership(buses):
    """Slow work beyond the session's time brings no rebalance, and its commit is taken."""
    await publish(buses[0], 0, 8)
    worker = Worker(buses[0])
    await worker.consumer.start()
    while len(worker.pending) < 8:
        worker.pending += await worker.consumer.poll(timeout=0.5)
    generation = worker.consumer._pump.membership().generation_id
    await asyncio.sleep(SESSION + 2)
    assert worker.consumer._pump.membership().generation_id == generation
    await worker.flush()
    assert await copied(buses[0], 8) == Counter(range(8))
    await worker.consumer.stop()


async def test_state_goes_with_its_partition_whatever_its_size(buses):
    """The next owner is given the state as it was committed last, values larger than a record too;
    what was deleted or became smaller leaves nothing behind."""
    large = secrets.token_bytes(20 * 10**6)
    first = Worker(buses[0])
    await first.consumer.start()
    await first.consumer.commit(
        state=[
            StateChange(1, "large", large),
            StateChange(1, "gone", large),
            StateChange(2, "a", b"1"),
        ]
    )
    await first.consumer.commit(
        state=[StateChange(1, "gone", None), StateChange(2, "a", b"2"), StateChange(2, "e", b"")]
    )
    await first.consumer.stop()
    second = Worker(buses[1])
    await second.consumer.start()
    assert second.states == {0: {}, 1: {"large": large}, 2: {"a": b"2", "e": b""}, 3: {}}
    await second.consumer.commit(state=[StateChange(1, "large", b"small")])
    await second.consumer.stop()
    third = Worker(buses[0])
    await third.consumer.start()
    assert third.states[1] == {"large": b"small"}
    await third.consumer.stop()


async def test_what_a_dead_member_left_open_takes_no_effect(buses, settings):
    """Records of a transaction that nobody ended are seen by no reader, and hold up the group only
    until the brokers abort it."""
    await publish(buses[0], 0, 4)
    producer = KafkaProducer(
        bootstrap_servers=settings.bootstrap,
        transactional_id="dead",
        transaction_timeout_ms=2000,
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(settings.prefix + "out", b"99", partition=0)
    producer.flush()
    worker = Worker(buses[0])
    await worker.start()
    assert await copied(buses[0], 4) == Counter(range(4))
    await worker.stop()
    producer._sender.force_close()
    producer.close(timeout=1)


async def test_a_tombstone_of_others_is_read_as_empty(buses, settings):
    """A record without a value is delivered like any other, and can be done."""
    producer = KafkaProducer(bootstrap_servers=settings.bootstrap)
    producer.send(settings.prefix + "in", None, key=b"k", partition=0).get(timeout=60)
    producer.close()
    worker = Worker(buses[0])
    await worker.consumer.start()
    (record,) = await worker.consumer.poll(timeout=60)
    assert (record.value, record.key) == (b"", b"k")
    await worker.consumer.commit(done=[record])
    assert worker.consumer.lag() == 0
    await worker.consumer.stop()


async def test_lag_of_every_group_is_told_from_outside(buses):
    """What is done beyond an offset does not count as lag, nor do markers of transactions."""
    await publish(buses[0], 0, 40)
    consumer = buses[0].consumer("assembler", ["in"])
    await consumer.start()
    records = []
    while len(records) < 40:
        records += await consumer.poll(timeout=0.5)
    await consumer.commit(done=[r for r in records if r.offset != 2])
    await consumer.stop()
    stats = await buses[1].topic_stats()
    assert stats["in"].records == 40
    found = await buses[0].find(Position("in", 1, 2))
    assert found is not None and found.value == b"9"
    assert await buses[0].find(Position("in", 1, 200)) is None


async def test_too_large_and_cut(buses, settings):
    """A value over the limit is refused at once, naming the setting."""
    with pytest.raises(Permanent, match="max_record"):
        await buses[0].publish([Outgoing("in", bytes(settings.max_record + 1), partition=0)])


async def test_unknown_and_vital_options_are_refused(settings):
    """An option that no client knows, or on which delivery rests, stops the start."""
    wrong = settings.model_copy(update={"options": {"acks": 1, "nonsense": 2}})
    with pytest.raises(Permanent) as caught:
        KafkaBus(wrong, TOPICS)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "bus.kafka.options.acks",
        "bus.kafka.options.nonsense",
    ]


async def test_a_topic_kept_otherwise_stops_the_start(buses, settings):
    """Times of the senders, or a shorter retention than the settings ask for, are refused."""
    admin = buses[0]._topics.admin
    name = settings.prefix + "foreign"
    admin.create_topics({name: {"num_partitions": 1, "configs": {"retention.ms": "1000"}}})
    admin.wait_for_topics([name])
    other = KafkaBus(settings, (Topic(name="foreign", partitions=1, retention=3600.0),))
    with pytest.raises(Permanent) as caught:
        await other.start()
    assert "LogAppendTime" in str(caught.value) and "retention.ms is 1000" in str(caught.value)
    missing = KafkaBus(settings, (Topic(name="none", partitions=1, retention=1.0),), create=False)
    with pytest.raises(Permanent, match=r"missing.*assay topics --create"):
        await missing.start()
