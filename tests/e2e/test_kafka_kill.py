"""Every kind of process killed at random under load, the broker too: nothing lost or doubled."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest
from kafka_broker import Broker
from kafka_fleet import Fleet, metrics_of, seed_of, url_of
from kill_drill import Traffic, fates_on
from prometheus_client.parser import text_string_to_metric_families

from assay.cli.status import ledger
from assay.store import Store

pytestmark = pytest.mark.broker

KILLS = int(os.environ.get("ASSAY_KAFKA_KILLS", "1"))
"""Of each kind of process."""
TRACES = int(os.environ.get("ASSAY_KAFKA_TRACES", "300"))
RATE = float(os.environ.get("ASSAY_KAFKA_RATE", "12"))
"""Traces a second and collector."""
KINDS = {"collect": 2, "assemble": 2, "score": 3, "export": 2}


@pytest.mark.slow
@pytest.mark.timeout(420 + KILLS * 4 * 30 + TRACES / RATE)
async def test_kills_of_every_kind_lose_and_double_nothing(
    tmp_path: Path, own_broker: Broker
) -> None:
    """Each accepted turn has exactly one TurnScores per group and one row per entry, and the
    ledger adds up, after kills of every kind of process, a broker's restart, and a scorer that came
    and one that went."""
    seed = seed_of("ASSAY_SEED")
    rng = random.Random(seed)
    fleet = Fleet(tmp_path, own_broker.bootstrap, "kill.")
    try:
        await _drill(fleet, own_broker, rng, seed)
    finally:
        await fleet.end(signal.SIGKILL)


async def _drill(fleet: Fleet, broker: Broker, rng: random.Random, seed: int) -> None:
    for kind, count in KINDS.items():
        for _ in range(count):
            fleet.add(kind)
    await fleet.members[0].start()
    await asyncio.gather(*(member.start() for member in fleet.members[1:]))
    drills = [
        Traffic(url_of(member), random.Random(rng.random()), RATE, refusal_is_final=False)
        for member in fleet.of("collect")
    ]
    sending = [asyncio.create_task(drill.run()) for drill in drills]

    def accepted() -> int:
        return sum(len(drill.sent) for drill in drills)

    kills: Counter[str] = Counter()
    order = [kind for kind in KINDS for _ in range(KILLS)]
    rng.shuffle(order)
    for index, kind in enumerate(order):
        await asyncio.sleep(rng.uniform(0.3, 3.0))
        if index == len(order) // 3:
            broker.stop()
            await asyncio.to_thread(broker.start)
        if index == len(order) // 2:
            extra = fleet.add("score")
            await extra.start()
            gone = fleet.of("score")[0]
            await gone.end(signal.SIGTERM)
        running = [member for member in fleet.of(kind) if member.process is not None]
        await rng.choice(running).kill_and_restart()
        kills[kind] += 1
    while accepted() < TRACES:  # noqa: ASYNC110 - counted by many tasks
        await asyncio.sleep(0.5)
    for drill in drills:
        drill.running = False
    await asyncio.gather(*sending)

    bus = fleet.bus()
    await bus.start()
    try:
        await fleet.drained(bus)
        await asyncio.sleep(12)  # the owner commits every ten seconds
        rows = await _ledger(fleet)
        await fleet.end(signal.SIGTERM)
        sent = set().union(*(drill.sent for drill in drills))
        unsure = set().union(*(drill.unsure for drill in drills))
        result = await fates_on(bus, Store(str(fleet.store)), sent, unsure)
    finally:
        await bus.stop()
    print(
        f"seed {seed}: kills {dict(kills)}, 1 broker restart; {len(sent)} traces accepted, "
        f"{len(unsure)} unanswered, {sum(d.refused for d in drills)} refused; "
        f"{result.turns} TurnScores, {result.rows} rows, {len(rows)} ledger rows"
    )
    assert result.faults == {}
    assert len(sent) >= TRACES
    assert rows, "nobody owns the windows"
    assert {row["turns"] for row in rows} == {result.turns}
    assert {row["missing"] for row in rows} == {0}


async def _ledger(fleet: Fleet) -> list[dict[str, object]]:
    """The ledger of the one exporter that owns the windows."""
    pages = []
    async with httpx.AsyncClient() as client:
        for member in fleet.of("export"):
            page = (await client.get(metrics_of(member))).text
            samples: dict[str, list[object]] = {}
            for family in text_string_to_metric_families(page):
                for sample in family.samples:
                    samples.setdefault(sample.name, []).append(sample)
            pages.append(ledger(samples))  # type: ignore[arg-type]
    owned = [page for page in pages if page]
    assert len(owned) <= 1, "two own the windows"
    return owned[0] if owned else []
