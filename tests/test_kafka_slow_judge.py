"""A judge slower than the poll interval, on a real broker: nobody is thrown out of the group."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from contextlib import AsyncExitStack

import msgspec
import pytest
from judge_drive import TURN, StandInProcess, config_of, open_judge
from patience import settled
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing
from assay.bus.kafka import KafkaBus
from assay.bus.topics import SCORES, TURNS
from assay.cli.wiring import topics_of
from assay.config import Config
from assay.records import decode_turn_scores, encode
from scorers.judge_worker import JudgeWorker
from scorers.plan import Plan

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(600)]
COUNT = 50
INTERVAL = 8.0
"""Seconds within which a member must poll, and its heart must beat."""
DELAY = 11.0
"""Seconds that each of the judge's answers takes."""


@pytest.fixture
def stand_in():
    process = StandInProcess()
    process.script(latency=DELAY)
    yield process
    process.stop()


def turns() -> list[Outgoing]:
    found = []
    for number in range(COUNT):
        trace = f"{number:032x}"
        turn = msgspec.structs.replace(
            TURN, turn_id=f"{trace}-0", trace_id=trace, query=f"Question {number}?"
        )
        found.append(Outgoing(TURNS, encode(turn), key=trace.encode()))
    return found


@pytest.fixture
async def members(broker, stand_in):
    """Starts two members of the judge's group over one stream; gives them and their buses."""
    async with AsyncExitStack() as stack:

        async def start(concurrency: int, **options: int):
            kafka = {
                "bootstrap": broker.bootstrap,
                "prefix": f"j{secrets.token_hex(4)}.",
                "partitions": 4,
                "options": options,
            }
            settings = Config.model_validate({"bus": {"kafka": kafka}})
            config = config_of(
                stand_in.base_url,
                "fluency",
                timeout=60.0,
                give_up_after=500.0,
                concurrency=concurrency,
            )
            workers, buses = [], []
            for _ in range(2):
                bus = KafkaBus(settings.bus.kafka, topics_of(settings))
                stack.push_async_callback(bus.stop)
                await bus.start()
                judge, entries = open_judge(config, partitions=4)
                stack.push_async_callback(judge.stop)
                worker = JudgeWorker(bus, Plan(base=entries), judge, CollectorRegistry())
                stack.push_async_callback(worker.stop)
                await worker.start()
                workers.append(worker)
                buses.append(bus)

            async def shares() -> list[int]:
                return [len(worker._consumer.assignment()) for worker in workers]

            assert await settled(shares, lambda found: found == [2, 2]) == [2, 2]
            return workers, buses

        yield start


async def scored(bus: KafkaBus) -> Counter[str]:
    """How often each turn was scored, once all are."""

    async def look() -> Counter[str]:
        values = [record.value async for record in bus.read(SCORES)]
        return Counter(decode_turn_scores(value).turn_id for value in values)

    return await settled(look, lambda found: len(found) >= COUNT, every=0.5)


def generation(worker: JudgeWorker) -> int:
    return int(worker._consumer._pump.membership().generation_id)


async def test_answers_slower_than_the_poll_interval_cost_no_membership(members, stand_in):
    """Two members score 50 turns, each call longer than the group allows between polls: every turn
    is asked once and scored once, the lag falls to nothing, and nobody joins again."""
    workers, buses = await members(
        16,
        max_poll_interval_ms=int(INTERVAL * 1000),
        session_timeout_ms=int(INTERVAL * 1000),
        heartbeat_interval_ms=1000,
    )
    before = [generation(worker) for worker in workers]
    await buses[0].publish(turns())
    found = await scored(buses[0])
    assert Counter(found.values()) == {1: COUNT}
    assert [generation(worker) for worker in workers] == before
    assert [worker.lag() for worker in workers] == [0, 0]
    assert stand_in.received()["calls"] == COUNT


async def test_a_member_that_goes_gives_its_work_up_without_a_double(members, stand_in):
    """A member that ends in the midst of slow calls leaves the rest to the other: each turn is
    scored once."""
    stand_in.script(latency=3.0)
    workers, buses = await members(8)
    await buses[0].publish(turns())
    await asyncio.sleep(4.0)
    await workers[0].stop()
    assert Counter((await scored(buses[1])).values()) == {1: COUNT}
