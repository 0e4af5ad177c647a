"""The worker on a real bus with real processes."""

import asyncio
import os
import signal
import sys
import textwrap

import pytest
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing, Record
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import DEAD_LETTER, SCORES, TURNS, topics
from assay.config import Config
from assay.records import SCHEMA_VERSION, Turn, decode_turn_scores, encode, turn_id_of
from scorers import batch
from scorers.batch import Job, Refused
from scorers.plan import Plan
from scorers.registry import resolve
from scorers.worker import BATCH_BYTES, BATCH_RECORDS, Worker, batches

SCHEMA = {"schema": str(SCHEMA_VERSION)}
DEADLY = """
    import os, signal
    from scorers.scorer import scored, scorer

    @scorer("deadly", version="1", needs=("response",))
    def deadly(turn):
        if turn.response == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        return scored(1)
"""


def turn(number, response="fine"):
    trace_id = f"{number:032x}"
    return Turn(
        turn_id=turn_id_of(trace_id, 0), trace_id=trace_id, query="How are you?", response=response
    )


def sent(number, response="fine", **headers):
    value = encode(turn(number, response))
    return Outgoing(TURNS, value, key=b"k%d" % number, headers=SCHEMA | headers)


@pytest.fixture
async def bus(tmp_path):
    bus = EmbeddedBus(tmp_path / "data", topics())
    await bus.start()
    yield bus
    await bus.stop()


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    """A user's scorer that kills its process, importable there and here."""
    (tmp_path / "deadly_scorers.py").write_text(textwrap.dedent(DEADLY))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield resolve(Config(metrics=["deadly_scorers:deadly", "turn_error"]))
    sys.modules.pop("deadly_scorers", None)


async def finished(worker, total):
    """Wait until the worker has finished `total` turns since its start."""
    async with asyncio.timeout(60):
        while worker.lag() or worker._turns._value.get() < total:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def values(bus, topic):
    return [record async for record in bus.read(topic)]


async def test_every_turn_has_one_record(bus):
    """Each turn gets exactly one TurnScores, with the turn's key, also over a restart."""
    plan = resolve(Config())
    await bus.publish([sent(n) for n in range(150)])
    worker = Worker(bus, plan, CollectorRegistry(), processes=2)
    await worker.start()
    await finished(worker, 150)
    await worker.stop()
    await bus.publish([sent(n) for n in range(150, 200)])
    worker = Worker(bus, plan, CollectorRegistry(), processes=1)
    await worker.start()
    await finished(worker, 50)
    assert worker.health().ok
    await worker.stop()
    await worker.stop()
    records = await values(bus, SCORES)
    found = [decode_turn_scores(record.value) for record in records]
    assert sorted(f.turn_id for f in found) == sorted(turn(n).turn_id for n in range(200))
    assert {len(f.scores) for f in found} == {len(plan.base)}
    assert {record.key for record in records} == {b"k%d" % n for n in range(200)}
    assert {record.headers["schema"] for record in records} == {str(SCHEMA_VERSION)}


async def test_bad_records_go_to_the_dead_letter(bus):
    """What holds no turn, or is of a later schema, goes there once; its neighbours are scored."""
    bad = [b"\xff\xfe", b"", b"[1]", b'"hi"', b'{"turn_id":"x', b'{"a":' * 5000, b'{"turn_id":5}']
    await bus.publish(
        [
            sent(0),
            *(Outgoing(TURNS, value, key=b"k", headers=SCHEMA) for value in bad),
            sent(1, schema="999"),
            sent(2),
        ]
    )
    worker = Worker(bus, resolve(Config()), CollectorRegistry(), processes=1)
    await worker.start()
    await finished(worker, len(bad) + 3)
    await worker.stop()
    letters = await values(bus, DEAD_LETTER)
    assert sorted(letter.headers["reason"] for letter in letters) == sorted(
        ["unreadable"] * len(bad) + ["schema"]
    )
    assert {letter.headers["stage"] for letter in letters} == {"local"}
    assert len(await values(bus, SCORES)) == 2


async def test_a_deadly_turn_is_found_and_given_up(bus, deadly):
    """A turn that kills its process is bisected to; it ends in errors and the others in scores."""
    await bus.publish([sent(n, "poison" if n == 7 else "fine") for n in range(20)])
    worker = Worker(bus, deadly, CollectorRegistry(), processes=1)
    await worker.start()
    await finished(worker, 20)
    await worker.stop()
    found = {f.turn_id: f for f in [decode_turn_scores(r.value) for r in await values(bus, SCORES)]}
    assert len(found) == 20
    poisoned = found.pop(turn(7).turn_id)
    assert {(s.outcome, s.outcome_reason) for s in poisoned.scores} == {("error", "exception")}
    assert {s.outcome for f in found.values() for s in f.scores} == {"scored"}


async def test_a_killed_process_loses_nothing(bus):
    """A process that is killed from outside is replaced and its batch is scored."""
    worker = Worker(bus, resolve(Config()), CollectorRegistry(), processes=1)
    await worker.start()
    await bus.publish([sent(0)])
    await finished(worker, 1)
    (executor,) = worker._pool._workers
    for process in list(executor._processes.values()):
        os.kill(process.pid, signal.SIGKILL)
    await bus.publish([sent(1)])
    await finished(worker, 2)
    await worker.stop()
    assert len(await values(bus, SCORES)) == 2


async def test_stop_without_start(bus):
    """Stopping what was not started does nothing."""
    await Worker(bus, Plan(), CollectorRegistry(), processes=1).stop()


def record(partition, offset, size=10):
    return Record(TURNS, partition, offset, 0, None, b"x" * size, {})


def test_batches_are_bounded_and_of_one_partition():
    """A batch is of one partition, in order, bounded in number and bytes; none is empty."""
    records = [record(n % 2, n) for n in range(5 * BATCH_RECORDS)]
    records += [record(2, n, BATCH_BYTES) for n in range(3)]
    found = list(batches(records))
    assert sorted(r for b in found for r in b) == sorted(records)
    for own in found:
        assert len({r.partition for r in own}) == 1
        assert [r.offset for r in own] == sorted(r.offset for r in own)
        assert 1 <= len(own) <= BATCH_RECORDS
    assert [len(own) for own in found if own[0].partition == 2] == [1, 1, 1]
    assert list(batches([])) == []


def test_a_batch_needs_its_job():
    """A process that has not begun refuses work; one record more or less is its own affair."""
    with pytest.raises(RuntimeError):
        batch.score([b"{}"])
    job = Job(resolve(Config(metrics=["turn_error"])), "local", "live")
    assert batch.score_values([b"{}"], job) == [Refused("unreadable")]
    assert batch.give_up(b"{}", job) == Refused("unreadable")
    values = [encode(turn(1)), b"{}", encode(turn(2))]
    found = batch.score_values(values, job)
    assert [isinstance(result, Refused) for result in found] == [False, True, False]
