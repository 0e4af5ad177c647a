from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from assembly_drive import request, span
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import DEAD_LETTER, ROLLUPS, SPANS, TURNS, partition_of, topics
from assay.config import Config
from assay.errors import Permanent, Retryable
from assay.records import Turn, decode_rollups, decode_turn
from assay.sampling import draw
from collector.assembly import Assembler

START = 1_796_040_000_000


class Wall:
    """A clock that tests move, milliseconds."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


class Rig:
    """The embedded log with a wall clock of its own, and assemblers on it."""

    def __init__(self, folder: Path, wall: Wall) -> None:
        self.wall = wall
        self.bus = EmbeddedBus(folder, topics(), wall=wall)
        self.registry = CollectorRegistry()

    async def send(self, *spans: Any, key: int = 1) -> None:
        """One record with these spans, on the partition of trace `key`."""
        trace_id = key.to_bytes(16, "big")
        partition = partition_of(trace_id, self.bus.partitions(SPANS))
        await self.bus.publish([Outgoing(SPANS, request(spans), trace_id, partition)])

    @asynccontextmanager
    async def assembler(
        self, config: Config | None = None, **options: Any
    ) -> AsyncIterator[Assembler]:
        self.registry = CollectorRegistry()
        assembler = Assembler(self.bus, config or Config(), self.registry, **options)
        await assembler.start()
        try:
            yield assembler
        finally:
            await assembler.stop()

    async def turns(self) -> list[Turn]:
        return [decode_turn(record.value) async for record in self.bus.read(TURNS)]

    async def until(self, count: int) -> list[Turn]:
        """The turns, when there are that many."""
        await eventually(lambda: self._has(count))
        return await self.turns()

    async def _has(self, count: int) -> bool:
        return len(await self.turns()) >= count

    def count(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(name, labels)
        assert value is not None, f"no such series: {name} {labels}"
        return value


async def eventually(condition: Callable[[], Any], seconds: float = 10) -> None:
    ends = time.monotonic() + seconds
    while True:
        result = condition()
        if await result if asyncio.iscoroutine(result) else result:
            return
        assert time.monotonic() < ends, "it did not come about"
        await asyncio.sleep(0.02)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path, Wall())
    await rig.bus.start()
    yield rig
    await rig.bus.stop()


def chat(trace: int, query: str = "Q?", **attributes: Any) -> list[Any]:
    return [span(trace, 1), span(trace, 2, 1, query=query, **attributes)]


async def test_spans_become_a_turn_on_the_stream(rig: Rig) -> None:
    """When the wall clock of a partition read to its end says so, the turn is there, with its
    schema, its tally, and nothing left to do."""
    async with rig.assembler() as assembler:
        await rig.send(*chat(1))
        await eventually(lambda: rig.count("assay_open_traces") == 1)
        assert await rig.turns() == []
        rig.wall.advance(6)
        [turn] = await rig.until(1)
        assert (turn.query, turn.app, turn.arrived_at) == ("Q?", "shop", START * 1_000_000)
        [record] = [record async for record in rig.bus.read(TURNS)]
        assert record.headers["schema"] == "1"
        assert record.key == turn.trace_id.encode()
        [rollup] = [decode_rollups(r.value) async for r in rig.bus.read(ROLLUPS)]
        [tally] = rollup.tallies
        assert (tally.app, tally.turns, tally.sampled_out) == ("shop", 1, 0)
        assert tally.minute == (START + 6000) // 60_000
        assert rig.count("assay_open_traces") == rig.count("assay_open_trace_bytes") == 0
        assert assembler.lag() == 0
        assert assembler.health().ok


async def test_turns_of_a_conversation_share_a_partition(rig: Rig) -> None:
    """The key is the app and the conversation."""
    async with rig.assembler():
        for trace in range(1, 9):
            await rig.send(*chat(trace, **{"gen_ai.conversation.id": "c-1"}), key=trace)
        rig.wall.advance(6)
        await rig.until(8)
    records = [record async for record in rig.bus.read(TURNS)]
    assert {record.key for record in records} == {b"shop\x1fc-1"}
    assert len({record.partition for record in records}) == 1


async def test_a_restart_continues_where_it_was(rig: Rig) -> None:
    """Open traces are read again, finished ones are not, and a trace that was closed is known."""
    async with rig.assembler():
        await rig.send(*chat(1), span(2, 2, 9, query="slow?"))
        await eventually(lambda: rig.count("assay_open_traces") == 2)
        rig.wall.advance(6)
        await rig.until(1)
    async with rig.assembler():
        await eventually(lambda: rig.count("assay_open_traces") == 1)
        await rig.send(span(1, 3, 1, query="late?"))
        rig.wall.advance(90)
        turns = await rig.until(2)
        await eventually(lambda: rig.count("assay_late_spans_total", signal="traces") == 1)
    assert sorted(turn.query or "" for turn in turns) == ["Q?", "slow?"]
    async with rig.assembler() as assembler:
        assert assembler.lag() == 0


async def test_a_backlog_after_an_hours_stop_assembles_like_live(tmp_path: Path) -> None:
    """The same records, read as they came or an hour later, give the same turns and late spans."""

    async def run(folder: Path, live: bool) -> tuple[list[Any], float]:
        wall = Wall()
        rig = Rig(folder, wall)
        await rig.bus.start()
        async with rig.assembler():
            await rig.send(*chat(1000))
            wall.advance(6)
            await rig.until(1)
            if live:
                await feed(rig, wall)
        if not live:
            await feed(rig, wall)
        wall.advance(3600)
        async with rig.assembler() as assembler:
            await eventually(lambda: assembler.lag() == 0 and rig.count("assay_open_traces") == 0)
            await rig.until(42)
            late = rig.count("assay_late_spans_total", signal="traces")
        turns = sorted((t.turn_id, t.query, t.arrived_at, t.orphan) for t in await rig.turns())
        await rig.bus.stop()
        return turns, late

    async def feed(rig: Rig, wall: Wall) -> None:
        for trace in range(1, 41):
            await rig.send(span(trace, 1), key=trace)
            wall.advance(2)
            await rig.send(span(trace, 2, 1, query=f"{trace}?"), key=trace)
            if trace == 7:
                await rig.send(span(107, 2, 1, query="orphan?"), key=trace)
            wall.advance(9)
            await rig.send(span(trace, 3, 1, query="late?"), key=trace)

    backlog, late = await run(tmp_path / "backlog", live=False)
    live, _ = await run(tmp_path / "live", live=True)
    assert backlog == live
    assert late == 40


async def test_upstream_and_head_sampling_of_a_half_keep_a_half(rig: Rig) -> None:
    """With `th:8` announced and a head ratio of 0.5 every second trace is kept, with weight 2."""
    config = Config.model_validate({"sampling": {"head_ratio": 0.5}})
    traces = [(n << 44) + 1 for n in range(0, 4096, 16)]
    accepted = [t for t in traces if draw(t.to_bytes(16, "big")) < 0.5]
    async with rig.assembler(config):
        for trace in accepted:
            await rig.send(span(trace, 1, query="Q?", trace_state="ot=th:8"), key=trace)
        rig.wall.advance(6)
        turns = await rig.until(len(traces) // 2)
    assert len(turns) == len(traces) // 2 == len(accepted)
    assert {turn.inclusion_probability for turn in turns} == {0.5}
    assert all(turn.draw < 0.5 for turn in turns)


async def test_sampled_out_turns_are_tallied(rig: Rig) -> None:
    """What tail sampling drops is not on the stream, and is counted per app and minute."""
    config = Config.model_validate(
        {"sampling": {"ratio": 0.0, "keep": [{"when": "'keep' in query", "ratio": 1, "name": "k"}]}}
    )
    async with rig.assembler(config):
        for trace in range(1, 11):
            await rig.send(*chat(trace, query="keep me" if trace % 5 == 0 else "no"), key=trace)
        rig.wall.advance(6)
        turns = await rig.until(2)
    assert {(turn.stratum, turn.inclusion_probability) for turn in turns} == {("k", 1.0)}
    tallies = [t async for r in rig.bus.read(ROLLUPS) for t in decode_rollups(r.value).tallies]
    assert sum(tally.turns for tally in tallies) == 10
    assert sum(tally.sampled_out for tally in tallies) == 8


async def test_turns_are_completed_redacted_and_bounded(rig: Rig) -> None:
    """Labels, environment and version come from the attributes; personal data does not come
    through; a long text loses its middle and the turn says so."""
    config = Config.model_validate(
        {
            "collector": {"labels": ["user.tier"], "redact": ["email"], "redact_key": "k"},
            "assembly": {"max_text": 2000},
        }
    )
    query = "I am bob@x.com. " + "a" * 5000 + " end"
    spans = chat(1, query=query, **{"user.tier": "gold"})
    resource = {"deployment.environment.name": "prod", "service.version": "7"}
    async with rig.assembler(config):
        partition = partition_of((1).to_bytes(16, "big"), rig.bus.partitions(SPANS))
        await rig.bus.publish([Outgoing(SPANS, request(spans, **resource), b"k", partition)])
        rig.wall.advance(6)
        [turn] = await rig.until(1)
    assert turn.labels == {"user.tier": "gold"}
    assert (turn.environment, turn.version) == ("prod", "7")
    assert turn.truncated
    assert turn.query is not None
    assert turn.query.startswith("I am <EMAIL_")
    assert turn.query.endswith(" end")
    assert "characters cut" in turn.query
    assert len(turn.query) < 2100


async def test_memory_is_bounded_by_closing_the_oldest(rig: Rig) -> None:
    """Over `max_open` the oldest traces are closed before their time and marked."""
    config = Config.model_validate({"assembly": {"max_open": 20_000}})
    async with rig.assembler(config):
        for trace in range(1, 21):
            await rig.send(*chat(trace, note="x" * 2000), key=trace)
            rig.wall.advance(0.001)
        await eventually(lambda: rig.count("assay_assembled_items_total", signal="traces") == 40)
        await eventually(lambda: rig.count("assay_open_trace_bytes") <= 20_000)
        early = await rig.until(10)
        assert all(turn.truncated for turn in early)
        rig.wall.advance(6)
        turns = await rig.until(20)
    assert len({turn.trace_id for turn in turns}) == 20
    oldest = {int(turn.trace_id, 16) for turn in early}
    assert oldest == set(range(1, len(early) + 1))


async def test_a_bad_record_does_not_stop_the_stream(rig: Rig) -> None:
    """It is in the dead letters, and what came after it is on the stream."""
    async with rig.assembler():
        await rig.bus.publish([Outgoing(SPANS, b"\xff\xfe", b"k", 0, {"signal": "logs"})])
        await rig.send(*chat(1))
        rig.wall.advance(6)
        await rig.until(1)
    [letter] = [record async for record in rig.bus.read(DEAD_LETTER)]
    assert letter.value == b"\xff\xfe"
    assert letter.headers["origin"] == "assay.spans/0/0"
    assert letter.headers["original-signal"] == "logs"


async def test_a_commit_that_fails_for_now_is_made_again(rig: Rig) -> None:
    """Nothing is lost and nothing doubled when the log refuses for a while, and it is said so."""
    failures = [Retryable("full"), Retryable("full")]
    async with rig.assembler() as assembler:
        consumer = assembler._consumer
        assert consumer is not None
        commit = consumer.commit

        async def flaky(**work: Any) -> None:
            if failures:
                raise failures.pop()
            await commit(**work)

        consumer.commit = flaky  # type: ignore[method-assign]
        await rig.send(*chat(1))
        rig.wall.advance(6)
        await rig.until(1)
        assert rig.count("assay_assembly_retries_total") == 2
    assert len(await rig.turns()) == 1


async def test_a_log_that_stays_full_does_not_hold_the_stop(rig: Rig) -> None:
    """The assembler stops within its grace, and what it could not commit is read again."""
    async with rig.assembler() as assembler:
        consumer = assembler._consumer
        assert consumer is not None

        async def full(**work: Any) -> None:
            raise Retryable("full", retry_after=60)

        consumer.commit = full  # type: ignore[method-assign]
        await rig.send(*chat(1))
        rig.wall.advance(6)
        await eventually(lambda: rig.count("assay_assembly_retries_total") >= 1)
        started = time.monotonic()
        await assembler.stop()
        assert time.monotonic() - started < 10
    assert await rig.turns() == []
    async with rig.assembler():
        assert len(await rig.until(1)) == 1


async def test_a_great_backlog_is_committed_in_parts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When very much falls due at once, it does not wait in memory for one commit."""
    monkeypatch.setattr("collector.assembly.COMMIT_BYTES", 20_000)
    commits: list[int] = []
    for trace in range(1, 101):
        await rig.send(*chat(trace, query="x" * 2000), key=trace)
    async with rig.assembler() as assembler:
        consumer = assembler._consumer
        assert consumer is not None
        commit = consumer.commit

        async def count(**work: Any) -> None:
            commits.append(len(work["outputs"]))
            await commit(**work)

        consumer.commit = count  # type: ignore[method-assign]
        await eventually(lambda: rig.count("assay_open_traces") == 100)
        rig.wall.advance(6)
        await rig.until(100)
    assert max(commits) < 25
    assert len({turn.turn_id for turn in await rig.turns()}) == len(await rig.turns()) == 100


async def test_a_lost_membership_is_taken_up_again(rig: Rig) -> None:
    """When a commit can never succeed, the work is dropped and read again by a new member."""
    async with rig.assembler() as assembler:
        consumer = assembler._consumer
        assert consumer is not None

        async def refuse(**work: Any) -> None:
            raise Permanent("not the owner")

        consumer.commit = refuse  # type: ignore[method-assign]
        await rig.send(*chat(1))
        rig.wall.advance(6)
        [turn] = await rig.until(1)
        assert turn.query == "Q?"


async def test_stop_is_safe_twice_and_without_start(rig: Rig) -> None:
    """Lifecycle: stopping never fails, and an assembler that was stopped left the group."""
    idle = Assembler(rig.bus, Config(), CollectorRegistry())
    await idle.stop()
    await idle.stop()
    async with rig.assembler() as assembler:
        await assembler.stop()
        await assembler.stop()
    async with rig.assembler():
        pass


async def test_what_is_finished_is_committed_at_the_stop(rig: Rig) -> None:
    """A turn whose trace was closed just before the stop is on the stream."""
    async with rig.assembler():
        await rig.send(*chat(1))
        await eventually(lambda: rig.count("assay_open_traces") == 1)
        rig.wall.advance(6)
        await eventually(lambda: rig.count("assay_open_traces") == 0)
    assert len(await rig.turns()) == 1
