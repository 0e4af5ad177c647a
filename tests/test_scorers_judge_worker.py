"""The judge's group: every turn ends once, whatever the endpoint does."""

import asyncio
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from judge_drive import TURN, StandInProcess, config_of, open_judge
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import DEAD_LETTER, SCORES, TURNS, topics
from assay.records import decode_turn_scores, encode
from scorers import judge_worker
from scorers.judge_worker import JudgeWorker
from scorers.plan import Plan


@pytest.fixture(scope="module")
def stand_in():
    process = StandInProcess()
    yield process
    process.stop()


@pytest.fixture
async def bus(tmp_path):
    bus = EmbeddedBus(tmp_path, topics())
    await bus.start()
    yield bus
    await bus.stop()


def _turns(count, **changes):
    for number in range(count):
        trace = f"{number:032x}"
        turn = msgspec.structs.replace(
            TURN, turn_id=f"{trace}-0", trace_id=trace, query=f"Question {number}?", **changes
        )
        yield Outgoing(TURNS, encode(turn), key=trace.encode())


def _worker(bus, stand_in, *metrics, registry=None, **settings):
    config = config_of(stand_in.base_url, *(metrics or ("fluency",)), **settings)
    judge, entries = open_judge(config, partitions=bus.partitions(TURNS))
    return JudgeWorker(bus, Plan(base=entries), judge, registry or CollectorRegistry())


async def _scores(bus, count, *, seconds=20.0):
    """The TurnScores on the stream once there are `count`, and a little later."""
    end = time.monotonic() + seconds
    while True:
        found = [decode_turn_scores(record.value) async for record in bus.read(SCORES, since=0)]
        if len(found) >= count or time.monotonic() > end:
            await asyncio.sleep(0.3)
            return [decode_turn_scores(record.value) async for record in bus.read(SCORES, since=0)]
        await asyncio.sleep(0.05)


async def test_every_turn_ends_once(bus, stand_in):
    """Each turn gives one TurnScores with one Score per entry, named after the model."""
    stand_in.script(overrides={"score": 4})
    await bus.publish([*_turns(50)])
    worker = _worker(bus, stand_in, "fluency", "coherence")
    await worker.start()
    found = await _scores(bus, 50)
    assert worker.health().ok
    await worker.stop()
    await worker.stop()
    assert Counter(Counter(s.turn_id for s in found).values()) == {1: 50}
    for scores in found:
        assert (scores.group, scores.run) == ("judge", "live")
        assert [(s.metric, s.engine, s.outcome) for s in scores.scores] == [
            ("fluency", "gpt-4o-mini", "scored"),
            ("coherence", "gpt-4o-mini", "scored"),
        ]
        assert all(s.score_id and s.prompt_digest for s in scores.scores)


async def test_slow_judge_bounds_the_turns_in_flight(bus, stand_in, monkeypatch):
    """With a slow judge reading rests at the bound, the loop goes on, each turn is asked once."""
    monkeypatch.setattr(judge_worker, "WIDTH", 1)
    stand_in.script(latency=0.4)
    await bus.publish([*_turns(60)])
    worker = _worker(bus, stand_in, concurrency=16)
    await worker.start()
    most = 0
    for _ in range(20):
        most = max(most, len(worker._under_way))
        assert worker.health().ok
        await asyncio.sleep(0.05)
    found = await _scores(bus, 60)
    await worker.stop()
    assert 8 <= most <= 16
    assert len({s.turn_id for s in found}) == len(found) == 60
    assert stand_in.received()["calls"] == 60


async def test_turns_that_waited_too_long_are_late(bus, stand_in):
    """A turn older than the stated age is `late` without a call."""
    stand_in.script()
    await bus.publish([*_turns(5)])
    await asyncio.sleep(0.6)
    worker = _worker(bus, stand_in, give_up_after=0.5)
    await worker.start()
    found = await _scores(bus, 5)
    await worker.stop()
    assert [s.scores[0].outcome for s in found] == ["late"] * 5
    assert stand_in.received()["calls"] == 0


async def test_dead_judge_loses_no_turn(bus, stand_in):
    """While nothing answers, turns wait; when the endpoint is back, they are scored."""
    stand_in.script(replies=[{"status": 503}])
    await bus.publish([*_turns(40)])
    worker = _worker(bus, stand_in, give_up_after=60)
    await worker.start()
    await asyncio.sleep(1.5)
    assert await _scores(bus, 0) == []
    probes = stand_in.received()["calls"]
    stand_in.script()
    found = await _scores(bus, 40, seconds=30)
    await worker.stop()
    assert Counter(s.scores[0].outcome for s in found) == {"scored": 40}
    assert probes < 40


async def test_dead_judge_ends_in_late(bus, stand_in):
    """When nothing answers until the stated age, the ledger says `late`, once per turn."""
    stand_in.script(replies=[{"mode": "hang"}])
    await bus.publish([*_turns(10)])
    worker = _worker(bus, stand_in, give_up_after=1.0, timeout=5.0)
    await worker.start()
    found = await _scores(bus, 10)
    await worker.stop()
    assert Counter(s.scores[0].outcome for s in found) == {"late": 10}


async def test_restart_scores_what_was_left_and_nothing_twice(bus, stand_in, monkeypatch):
    """A worker that ends amid its turns leaves the rest to the next one."""
    monkeypatch.setattr(JudgeWorker, "drain", 0.1)
    stand_in.script(latency=0.3)
    await bus.publish([*_turns(60)])
    first = _worker(bus, stand_in, concurrency=4)
    await first.start()
    await asyncio.sleep(1.0)
    await first.stop()
    early = len(await _scores(bus, 0))
    second = _worker(bus, stand_in, concurrency=32)
    await second.start()
    found = await _scores(bus, 60)
    await second.stop()
    assert 0 < early < 60
    assert len({s.turn_id for s in found}) == len(found) == 60


@pytest.mark.slow
async def test_killed_process_doubles_nothing_and_pays_little_twice(tmp_path, stand_in):
    """Killed amid its work again and again, the group still gives each turn exactly one record."""
    stand_in.script(latency=0.1)
    bus = EmbeddedBus(tmp_path, topics())
    await bus.start()
    await bus.publish([*_turns(150)])
    await bus.stop()
    command = [sys.executable, str(Path(__file__).parent / "judge_child.py"), str(tmp_path)]
    kills = 0
    for delay in (0.3, 0.5, 0.7, None):
        child = await asyncio.create_subprocess_exec(
            *command, stand_in.base_url, stdout=asyncio.subprocess.PIPE
        )
        assert await child.stdout.readline() == b"started\n"
        killed = False
        if delay is not None:
            await asyncio.sleep(delay)
            if killed := child.returncode is None:
                child.kill()
                kills += 1
        assert await child.wait() == (-9 if killed else 0)
    await bus.start()
    found = [decode_turn_scores(record.value) async for record in bus.read(SCORES, since=0)]
    await bus.stop()
    assert kills == 3
    assert len({s.turn_id for s in found}) == len(found) == 150
    assert stand_in.received()["calls"] <= 150 + kills * 8


async def test_records_that_cannot_be_read_are_set_aside(bus, stand_in):
    """A damaged record and one of a later schema go to the dead letters; the next is scored."""
    stand_in.script()
    (good,) = _turns(1)
    later = good._replace(headers={"schema": "99"})
    await bus.publish([Outgoing(TURNS, b"{", key=b"a"), later, good])
    worker = _worker(bus, stand_in)
    await worker.start()
    assert len(await _scores(bus, 1)) == 1
    await worker.stop()
    reasons = [r.headers["reason"] async for r in bus.read(DEAD_LETTER, since=0)]
    assert sorted(reasons) == ["schema", "unreadable"]


async def test_budget_thins_the_turns_and_raises_their_weight(bus, stand_in):
    """What the money cannot pay for is sampled out by the turn's own draw, at a known weight."""
    stand_in.script()
    worker = _worker(bus, stand_in, budget={"usd_per_day": 1000.0})
    budget = worker._judge.client.budget
    budget.ratio = lambda partition: 0.5
    await bus.publish(
        [
            Outgoing(
                TURNS,
                encode(msgspec.structs.replace(TURN, turn_id=f"t{n}", draw=n / 100)),
                key=f"{n}".encode(),
            )
            for n in range(100)
        ]
    )
    await worker.start()
    found = await _scores(bus, 100)
    await worker.stop()
    assert Counter(s.scores[0].outcome for s in found) == {"scored": 50, "sampled_out": 50}
    assert {s.scores[0].weight for s in found} == {2.0}
    assert {s.inclusion_probability for s in found} == {1.0}


async def test_spending_is_kept_with_the_offsets(bus, stand_in):
    """A new worker goes on with what was spent before: together they do not exceed the day."""
    stand_in.script()
    budget = {"usd_per_day": 0.012}
    spent = []
    await bus.publish([*_turns(40)])
    for number in range(2):
        worker = _worker(bus, stand_in, budget=budget)
        await worker.start()
        await _scores(bus, 40)
        if number == 0:
            await bus.publish([*_turns(40)])
        spent.append(worker._judge.client.counts.usd)
        await worker.stop()
    found = await _scores(bus, 80)
    assert len(found) == 80
    assert 0 < sum(spent) <= 0.012
    assert Counter(s.scores[0].outcome for s in found)["budget"] > 0


async def test_faulty_endpoint_costs_few_calls(bus, stand_in):
    """With 20 % 429, 5 % 500 and 1 % hung calls every turn is scored in under 1.5 calls each."""
    stand_in.script(share_429=0.2, share_500=0.05, share_hang=0.01, latency=0.02)
    await bus.publish([*_turns(300)])
    worker = _worker(bus, stand_in, timeout=3.0, give_up_after=60)
    await worker.start()
    found = await _scores(bus, 300, seconds=60)
    await worker.stop()
    assert Counter(s.scores[0].outcome for s in found) == {"scored": 300}
    assert stand_in.received()["calls"] < 1.5 * 300


async def test_series_tell_what_was_asked_and_paid(bus, stand_in):
    """Requests, tokens and dollars are counted; a second group may share the registry."""
    stand_in.script()
    registry = CollectorRegistry()
    await bus.publish([*_turns(10)])
    worker = _worker(bus, stand_in, registry=registry)
    _worker(bus, stand_in, registry=registry)
    await worker.start()
    await _scores(bus, 10)
    await worker.stop()

    def value(name, **labels):
        return registry.get_sample_value(name, labels)

    assert value("assay_judge_requests_total", result="ok") == 10
    assert value("assay_judge_tokens_total", kind="input") == 10_000
    assert value("assay_judge_cost_usd_total") == pytest.approx(0.0021)
    assert value("assay_scored_turns_total", group="judge") == 10
