"""Scores on the stream to numbers on the page, over the embedded bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from exporters_data import message, score, turn_scores
from prometheus_client import CollectorRegistry

from assay.bus import topics
from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.errors import Retryable
from assay.records import RollupBatch, Tally, encode
from exporters.combiner import Combiner
from exporters.owner import Configured, Owner
from exporters.stage import StageSeries

RELEVANCE = Configured("relevance", "local", "defect", "response")
LABELS = {
    "app": "shop",
    "environment": "test",
    "metric": "groundedness",
    "engine": "local",
    "kind": "defect",
    "subject": "response",
    "model": "",
    "version": "",
}


class Exporter:
    """A combiner and an owner of the windows in one process."""

    def __init__(self, bus: EmbeddedBus) -> None:
        self.registry = CollectorRegistry()
        shared = StageSeries(self.registry)
        self.combiner = Combiner(bus, shared, self.registry)
        self.owner = Owner(
            bus, shared, self.registry, configured=lambda app: [RELEVANCE] if app == "shop" else []
        )

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, LABELS | labels)

    def quality(self) -> list[str]:
        return sorted(
            f"{sample.name}{sorted(sample.labels.items())} {sample.value!r}"
            for metric in self.registry.collect()
            for sample in metric.samples
            if "metric" in sample.labels or sample.name == "assay_turns_total"
        )

    async def __aenter__(self) -> Exporter:
        await self.owner.start()
        await self.combiner.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.combiner.stop()
        await self.owner.stop()


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[EmbeddedBus]:
    async with AsyncExitStack() as stack:
        one = EmbeddedBus(tmp_path / "bus", topics.topics())
        await one.start()
        stack.push_async_callback(one.stop)
        yield one


async def until(met: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not met():  # noqa: ASYNC110 - a number on a page has no event
            await asyncio.sleep(0.05)


async def test_replicas_add_up_to_one_mean(bus: EmbeddedBus) -> None:
    """90 scores of 1 from one replica and 10 of 0 from another show a mean of 0.9 (case B86)."""
    await bus.publish([message(turn_scores(i, score(value=1.0, passed=True))) for i in range(90)])
    await bus.publish(
        [message(turn_scores(i + 90, score(value=0.0, passed=False))) for i in range(10)]
    )
    async with Exporter(bus) as exporter:
        await until(lambda: exporter.value("assay_window_turns", window="5m") == 100)
        assert exporter.value("assay_score_mean", window="5m") == pytest.approx(0.9)
        assert exporter.value("assay_defect_rate", window="1h") == pytest.approx(0.1)
        assert exporter.value("assay_passed_total", passed="true") == 90
        assert exporter.value("assay_evaluations_total", outcome="scored", reason="") == 100
        assert exporter.value("assay_score_count") == 100
        assert exporter.combiner.health().ok and exporter.owner.health().ok


async def test_a_successor_continues_with_the_same_numbers(bus: EmbeddedBus) -> None:
    """Owners that stop in mid-way, cleanly or as if killed, leave counters that never fall and
    count every score once."""
    seen = 0.0
    for run in range(4):
        await bus.publish([message(turn_scores(run * 50 + i)) for i in range(50)])
        async with Exporter(bus) as exporter:
            expected = (run + 1) * 50
            await until(
                lambda e=exporter, n=expected: (
                    (e.value("assay_evaluations_total", outcome="scored", reason="") or 0) >= n
                )
            )
            value = exporter.value("assay_evaluations_total", outcome="scored", reason="")
            assert value == expected and value > seen
            seen = value
            if run % 2:
                # As if killed: nothing of the pending work is committed.
                exporter.owner._discard()
            before = exporter.quality()
    async with Exporter(bus) as exporter:
        await until(lambda: exporter.value("assay_window_turns", window="24h") == 200)
        assert exporter.quality() and len(exporter.quality()) >= len(before)


async def test_sampled_out_turns_enter_the_ledger(bus: EmbeddedBus) -> None:
    """Eligible turns are the sum of the outcomes: what tail sampling left out is counted too."""
    tally = Tally("shop", "test", 1, turns=10, sampled_out=7)
    await bus.publish([Outgoing(topics.ROLLUPS, encode(RollupBatch(tallies=[tally])), partition=0)])
    await bus.publish([message(turn_scores(i, score("relevance", value=1.0))) for i in range(3)])
    async with Exporter(bus) as exporter:
        await until(
            lambda: exporter.value("assay_window_turns", window="5m", metric="relevance") == 3
        )
        turns = {"app": "shop", "environment": "test"}
        get = exporter.registry.get_sample_value
        assert get("assay_turns_total", turns | {"decision": "kept"}) == 3
        assert get("assay_turns_total", turns | {"decision": "sampled_out"}) == 7
        outcomes = {
            (sample.labels["outcome"], sample.labels["reason"]): sample.value
            for metric in exporter.registry.collect()
            for sample in metric.samples
            if sample.name == "assay_evaluations_total"
        }
        assert outcomes == {("scored", ""): 3, ("sampled_out", "turn"): 7}


async def test_bad_records_go_to_the_dead_letters_and_the_stream_goes_on(bus: EmbeddedBus) -> None:
    """What cannot be read, or was written by a later version, is kept aside with its reason."""
    later = message(turn_scores(1))._replace(headers={"schema": "999"})
    bad = [
        Outgoing(topics.SCORES, b'{"trace_id": 7}', key=b"k"),
        Outgoing(topics.SCORES, b"\xff not json", key=b"k"),
        later,
        Outgoing(topics.ROLLUPS, b"[]", partition=0),
    ]
    await bus.publish([*bad, message(turn_scores(2))])
    async with Exporter(bus) as exporter:
        await until(lambda: exporter.value("assay_window_turns", window="5m") == 1)
        await until(lambda: exporter.combiner.lag() == 0)
    letters = [record async for record in bus.read(topics.DEAD_LETTER)]
    assert sorted((r.headers["stage"], r.headers["reason"]) for r in letters) == [
        ("combiner", "schema"),
        ("combiner", "unreadable"),
        ("combiner", "unreadable"),
        ("windows", "unreadable"),
    ]
    assert {r.headers["origin"].partition("/")[0] for r in letters} == {
        topics.SCORES,
        topics.ROLLUPS,
    }


async def test_a_bus_that_fails_for_a_while_loses_and_doubles_nothing(
    bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits that fail for now are made again with the same work."""
    async with Exporter(bus) as exporter:
        consumer = exporter.combiner._consumer
        assert consumer is not None
        commit, failures = consumer.commit, iter(range(2))

        async def failing(**work: object) -> None:
            if next(failures, None) is not None:
                raise Retryable("the disk is full")
            await commit(**work)  # type: ignore[arg-type]

        monkeypatch.setattr(consumer, "commit", failing)
        await bus.publish([message(turn_scores(i)) for i in range(30)])
        await until(lambda: exporter.value("assay_window_turns", window="5m") == 30)
        assert exporter.value("assay_evaluations_total", outcome="scored", reason="") == 30
        retries = exporter.registry.get_sample_value(
            "assay_export_retries_total", {"stage": "combiner"}
        )
        assert retries == 2


async def test_stages_stop_twice_and_without_start(bus: EmbeddedBus) -> None:
    """`stop` is safe at any time."""
    exporter = Exporter(bus)
    await exporter.combiner.stop()
    await exporter.owner.start()
    await exporter.owner.stop()
    await exporter.owner.stop()
