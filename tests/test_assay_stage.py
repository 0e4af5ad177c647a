"""The loop of every stage, on a real bus."""

import asyncio

import pytest

from assay.bus.contract import Outgoing, Record
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import TURNS, topics
from assay.errors import Permanent, Retryable
from assay.records import SCHEMA_VERSION
from assay.stage import Stage, later_schema


class Reader(Stage):
    """Commits what it reads; raises what is in `faults` first, each once, after it has read."""

    def __init__(self, bus, faults=()):
        super().__init__(bus, "reader", [TURNS])
        self.faults = list(faults)
        self.read = []
        self.members = []
        self.discarded = 0

    async def _step(self, consumer):
        if consumer not in self.members:
            self.members.append(consumer)
        records = await consumer.poll(timeout=0.05)
        if records and self.faults:
            raise self.faults.pop(0)
        await consumer.commit(done=records)
        self.read += [record.value for record in records]
        self._worked()

    def _discard(self):
        self.discarded += 1


@pytest.fixture
async def bus(tmp_path):
    bus = EmbeddedBus(tmp_path, topics())
    await bus.start()
    yield bus
    await bus.stop()


async def publish(bus, *values):
    await bus.publish([Outgoing(TURNS, value, partition=0) for value in values])


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("fault", [Permanent("gone"), ValueError("a fault of its own")], ids=repr)
async def test_what_was_read_before_a_fault_is_read_again(bus, fault, caplog):
    """The stage leaves the group, forgets, and joins it anew, and its health tells of work again;
    content of a foreign error is not logged."""
    stage = Reader(bus, [fault])
    await stage.start()
    await publish(bus, b"one", b"two")
    await until(lambda: stage.read == [b"one", b"two"])
    assert len(stage.members) == 2 and stage.discarded == 1
    assert stage.lag() == 0 and stage.health().ok
    await stage.stop()
    assert ("starts over" in caplog.text) == isinstance(fault, ValueError)


async def test_a_failure_that_may_pass_keeps_the_membership(bus):
    """Another step is made by the same member, not before the delay that was asked for."""
    stage = Reader(bus, [Retryable("busy", retry_after=0.6)])
    await stage.start()
    await publish(bus, b"one")
    await until(lambda: not stage.faults)
    began = asyncio.get_running_loop().time()
    await publish(bus, b"two")
    await until(lambda: stage.read == [b"two"])
    assert asyncio.get_running_loop().time() - began > 0.4
    assert len(stage.members) == 1 and stage.discarded == 0
    await stage.stop()


async def test_a_stop_ends_the_wait_between_attempts(bus):
    """However long the wait is."""
    stage = Reader(bus, [Retryable("busy", retry_after=3600)])
    await stage.start()
    await publish(bus, b"one")
    await until(lambda: not stage.faults)
    async with asyncio.timeout(5):
        await stage.stop()
        await stage.stop()


async def test_a_fault_while_leaving_does_not_end_the_stage(bus):
    """It is told, and the group is joined anew all the same."""

    class Clumsy(Reader):
        async def _hand_over(self, consumer):
            if len(self.members) == 1:
                raise KeyError("left behind")

    stage = Clumsy(bus, [Permanent("gone")])
    await stage.start()
    await publish(bus, b"one")
    await until(lambda: stage.read == [b"one"])
    await stage.stop()
    assert len(stage.members) == 2


async def test_a_join_that_fails_leaves_no_member_behind(bus):
    """The next attempt is made by a new member."""

    class Late(Reader):
        refusals = 1

        async def _assigned(self, partition, state):
            if self.refusals:
                self.refusals = 0
                raise Permanent("not yet")

    stage = Late(bus)
    with pytest.raises(Permanent):
        await stage.start()
    assert stage.lag() == 0
    await stage.stop()
    again = Late(bus)
    again.refusals = 0
    await again.start()
    await publish(bus, b"one")
    await until(lambda: again.read == [b"one"])
    await again.stop()


@pytest.mark.parametrize(
    ("text", "later"),
    [(str(SCHEMA_VERSION), False), (str(SCHEMA_VERSION + 1), True), ("", False), ("²", False)],
)
def test_only_a_number_above_ours_is_a_later_schema(text, later):
    """Whatever else stands in the header is not."""
    assert later_schema(Record(TURNS, 0, 0, 0, None, b"", {"schema": text})) is later
