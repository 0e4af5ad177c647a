"""Users' own async scorers, on a real bus and in the whole agent."""

import asyncio
import sys
import textwrap

import httpx
import pytest
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import DEAD_LETTER, SCORES, TURNS, topics
from assay.cli.up import run
from assay.config import Config, load
from assay.records import Turn, decode_turn_scores, encode, turn_id_of
from scorers import waiting_worker
from scorers.registry import resolve
from scorers.scoring import waited
from scorers.waiting_worker import WaitingWorker

OWN = """
    import asyncio
    from scorers.scorer import scored, scorer

    @scorer("tone", version="1", needs=("response",))
    async def tone(turn):
        await asyncio.sleep(0.01)
        return scored(0.0 if "!" in turn.response else 1.0)

    @scorer("broken", version="1")
    async def broken(turn):
        raise ValueError(turn.response)

    @scorer("wrong", version="1")
    async def wrong(turn):
        return 1.0

    @scorer("endless", version="1")
    async def endless(turn):
        await asyncio.sleep(3600)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A user's module of async scorers, importable here."""
    (tmp_path / "own_scorers.py").write_text(textwrap.dedent(OWN))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("own_scorers", None)


@pytest.fixture
async def bus(tmp_path):
    bus = EmbeddedBus(tmp_path / "data", topics())
    await bus.start()
    yield bus
    await bus.stop()


def turn(number):
    trace_id = f"{number:032x}"
    return Turn(
        turn_id=turn_id_of(trace_id, 0), trace_id=trace_id, query="How are you?", response="Well!"
    )


def sent(value, **headers):
    return Outgoing(TURNS, value, key=b"k", headers={"schema": "1"} | headers)


async def finished(worker):
    async with asyncio.timeout(60):
        while worker.lag():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_each_turn_gets_one_record_whatever_the_scorers_do(bus, own, monkeypatch):
    """Values, faults, answers of the wrong type and endless waits are outcomes of one TurnScores a
    turn, over a restart too; what cannot be read is a dead letter."""
    short = 0.2
    monkeypatch.setattr(waiting_worker, "waited", lambda t, e: waited(t, e, short))
    names = ("tone", "broken", "wrong", "endless")
    plan = resolve(Config(metrics=["latency_seconds", *(f"own_scorers:{n}" for n in names)]))
    await bus.publish([sent(encode(turn(n))) for n in range(150)])
    await bus.publish([sent(b"{"), sent(b"{}", schema="99")])
    for _ in range(2):
        worker = WaitingWorker(bus, plan, CollectorRegistry())
        await worker.start()
        await asyncio.sleep(0.3)
        await worker.stop()
    worker = WaitingWorker(bus, plan, CollectorRegistry())
    await worker.start()
    await finished(worker)
    assert worker.health().ok
    await worker.stop()
    found = [decode_turn_scores(record.value) async for record in bus.read(SCORES)]
    assert len({scores.turn_id for scores in found}) == len(found) == 150
    for scores in found:
        assert scores.group == "waiting"
        outcomes = [(s.metric, s.outcome, s.outcome_reason, s.value) for s in scores.scores]
        assert outcomes == [
            ("tone", "scored", None, 0.0),
            ("broken", "error", "exception", None),
            ("wrong", "error", "exception", None),
            ("endless", "error", "timeout", None),
        ]
    dead = [record.headers["reason"] async for record in bus.read(DEAD_LETTER)]
    assert sorted(dead) == ["schema", "unreadable"]


TRACE = {
    "resourceSpans": [
        {
            "resource": {
                "attributes": [{"key": "service.name", "value": {"stringValue": "support"}}]
            },
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "0af7651916cd43dd8448eb211c80319c",
                            "spanId": "b7ad6b7169203331",
                            "name": "chat m-1",
                            "startTimeUnixNano": "1700000000000000000",
                            "endTimeUnixNano": "1700000001000000000",
                            "attributes": [
                                {
                                    "key": "gen_ai.operation.name",
                                    "value": {"stringValue": "chat"},
                                },
                                {
                                    "key": "gen_ai.input.messages",
                                    "value": {
                                        "stringValue": '[{"role":"user","parts":'
                                        '[{"type":"text","content":"Hello?"}]}]'
                                    },
                                },
                                {
                                    "key": "gen_ai.output.messages",
                                    "value": {
                                        "stringValue": '[{"role":"assistant","parts":'
                                        '[{"type":"text","content":"Go away!"}]}]'
                                    },
                                },
                            ],
                        }
                    ]
                }
            ],
        }
    ]
}


async def test_a_scorer_named_in_the_settings_is_served_without_a_judge(own, tmp_path):
    """An async scorer of a user's module scores what comes in at the door, and is in the ledger."""
    path = tmp_path / "assay.yaml"
    path.write_text(
        f"data_dir: {tmp_path / 'agent'}\n"
        "collector: {http: '127.0.0.1:0', grpc: null}\n"
        "assembly: {settle: 200ms}\n"
        "exporters: {prometheus: {listen: '127.0.0.1:0'}, store: {enabled: false}}\n"
        "metrics: [turn_error, 'own_scorers:tone']\n"
    )
    async with run(load(path, {})) as running, httpx.AsyncClient() as client:
        sent = await client.post(f"{running.http}/v1/traces", json=TRACE)
        assert sent.status_code == 200
        asked = 'assay_evaluations_total{app="support"'
        async with asyncio.timeout(30):
            while True:
                page = (await client.get(f"http://{running.api}/metrics")).text
                rows = [line for line in page.splitlines() if line.startswith(asked)]
                if any('metric="tone"' in row and 'outcome="scored"' in row for row in rows):
                    break
                await asyncio.sleep(0.2)
        health = (await client.get(f"http://{running.api}/health")).json()
        assert health["stages"]["waiting"]["ok"]
