"""From the stream into the store: each row once, whatever happens in between."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from exporters_data import message, score, turn, turn_scores
from prometheus_client import CollectorRegistry

from assay.bus import topics
from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.errors import Permanent
from assay.store import Store
from exporters import store_sink
from exporters.stage import StageSeries
from exporters.store_sink import StoreSink

ROOT = Path(__file__).parent.parent


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[EmbeddedBus]:
    bus = EmbeddedBus(folder, topics.topics())
    await bus.start()
    try:
        yield bus
    finally:
        await bus.stop()


@asynccontextmanager
async def sinking(bus: EmbeddedBus, store: Store) -> AsyncIterator[StoreSink]:
    registry = CollectorRegistry()
    sink = StoreSink(bus, StageSeries(registry), registry, store)
    await sink.start()
    try:
        yield sink
    finally:
        await sink.stop()


async def until(met: Callable[[], bool], seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds):
        while not met():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.02)


async def counts(store: Store) -> tuple[int, int, int, int]:
    """Turns, different turns, scores, different scores."""
    (turns,) = await store.query("SELECT count(*) AS n, count(DISTINCT turn_id) AS d FROM turns")
    (scores,) = await store.query("SELECT count(*) AS n, count(DISTINCT score_id) AS d FROM scores")
    return turns["n"], turns["d"], scores["n"], scores["d"]


def records(start: int, end: int) -> list[Outgoing]:
    outgoing = []
    for i in range(start, end):
        outgoing.append(message(turn(i)))
        entries = [score(f"m{m}", value=1.0, score_id=f"{i}-{m}") for m in range(4)]
        outgoing.append(message(turn_scores(i, *entries)))
    return outgoing


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_sink, "INTERVAL", 0.05)


async def test_a_row_per_turn_and_per_entry(tmp_path: Path, often: None) -> None:
    """What is on the stream is in the store within an interval; stopping commits the rest."""
    store = Store(str(tmp_path / "store"))
    async with started(tmp_path / "bus") as bus:
        await bus.publish(records(0, 30))
        async with sinking(bus, store) as sink:
            await until(lambda: sink.lag() == 0)
            assert await counts(store) == (30, 30, 120, 120)
            assert sink.health().ok
            await bus.publish(records(30, 40))
        await asyncio.sleep(0)
        async with sinking(bus, store) as sink:
            await until(lambda: sink.lag() == 0)
        assert await counts(store) == (40, 40, 160, 160)


@pytest.mark.slow
async def test_killed_at_random_it_stores_each_row_once(tmp_path: Path) -> None:
    """SIGKILL at any moment, over and over: one row per turn and per entry. Prints seed, counts."""
    seed = int.from_bytes(os.urandom(4), "big")
    rng = random.Random(seed)
    async with started(tmp_path / "bus") as bus:
        await bus.publish(records(0, 900))
    kills = 0
    while True:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "tests" / "store_sink_child.py"),
            str(tmp_path / "bus"),
            str(tmp_path / "store"),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
        # The tenth is left to finish, so that the test ends on any machine.
        patience = rng.uniform(0.02, 0.5) if kills < 10 else 60.0
        try:
            done = await asyncio.wait_for(child.stdout.readline(), patience)
        except TimeoutError:
            kills += 1
            child.kill()
            await child.wait()
            continue
        assert done == b"done\n"
        assert await child.wait() == 0
        break
    found = await counts(Store(str(tmp_path / "store")))
    print(f"\nseed {seed}: {kills} kills, turns {found[:2]}, scores {found[2:]}")
    assert found == (900, 900, 3600, 3600)
    assert kills > 0


async def test_a_crash_between_store_and_offsets_is_recognised(
    tmp_path: Path, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows whose offsets were never committed are read again and not stored again."""
    store = Store(str(tmp_path / "store"))
    async with started(tmp_path / "bus") as bus:
        await bus.publish(records(0, 20))
        async with sinking(bus, store) as sink:
            consumer = sink._consumer
            assert consumer is not None
            commit = consumer.commit

            async def lost(**work: object) -> None:
                if "done" in work:
                    raise Permanent("this member no longer owns the partition")
                await commit(**work)  # type: ignore[arg-type]

            monkeypatch.setattr(consumer, "commit", lost)
            # The stage leaves the group and joins again with a consumer that works.
            await until(lambda: sink._consumer not in (None, consumer) and sink.lag() == 0)
            assert sum(sink._replayed.labels(t)._value.get() for t in ("turns", "scores")) == 100
        assert await counts(store) == (20, 20, 80, 80)


async def test_a_stream_begun_anew_is_not_taken_for_a_replay(tmp_path: Path, often: None) -> None:
    """After the log was deleted, offsets start at 0 again and the new rows are stored."""
    store = Store(str(tmp_path / "store"))
    for run in range(2):
        async with started(tmp_path / "bus") as bus:
            await bus.publish(records(run * 10, run * 10 + 10))
            async with sinking(bus, store) as sink:
                await until(lambda s=sink: s.lag() == 0)
        shutil.rmtree(tmp_path / "bus")
    assert await counts(store) == (20, 20, 80, 80)


async def test_while_the_store_is_away_nothing_is_lost_and_others_go_on(
    tmp_path: Path, often: None
) -> None:
    """The sink says so and backs off with its rows; the bus delivers to others meanwhile."""
    store = Store(str(tmp_path / "store"))
    (tmp_path / "store").write_text("where the folder should be")
    async with started(tmp_path / "bus") as bus, sinking(bus, store) as sink:
        await bus.publish(records(0, 10))
        await until(lambda: sink._retries._value.get() >= 2)
        assert sink.health().ok and "tries again: the store is away" in sink.health().detail
        await bus.publish(records(10, 20))
        other = bus.consumer("other", [topics.TURNS])
        await other.start()
        seen = 0
        while seen < 20:
            seen += len(await other.poll(timeout=2.0))
        await other.stop()
        (tmp_path / "store").unlink()
        await until(lambda: sink.lag() == 0)
        assert await counts(store) == (20, 20, 80, 80)
        assert sink.health().detail == ""


async def test_unreadable_records_are_set_aside(tmp_path: Path, often: None) -> None:
    """A record that is no turn goes to the dead letters; its neighbours are stored."""
    store = Store(str(tmp_path / "store"))
    async with started(tmp_path / "bus") as bus:
        bad = [
            Outgoing(topics.TURNS, b"\x00", key=b"k"),
            message(turn(9))._replace(headers={"schema": "2"}),
        ]
        await bus.publish([*bad, message(turn(1))])
        async with sinking(bus, store) as sink:
            await until(lambda: sink.lag() == 0)
        reasons = [record.headers["reason"] async for record in bus.read(topics.DEAD_LETTER)]
    assert sorted(reasons) == ["schema", "unreadable"]
    assert (await counts(store))[:2] == (1, 1)
