"""What the listings read from the stream and the store, and the API over it."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from assay.api import add_api
from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import SCORES, TURNS, topics
from assay.lookup import Conversation, Lookup, ScoredTurn, Selection
from assay.records import (
    JudgeUsage,
    Message,
    Score,
    ToolCall,
    Turn,
    TurnScores,
    Usage,
    encode,
    turn_id_of,
)
from assay.serving import HttpServer
from assay.store import Source, Store

SECOND = 10**9


def turn(number: int, **more: object) -> Turn:
    """A turn whose start is `number` seconds before an hour that has begun."""
    trace_id = f"{number:032x}"
    started = time.time_ns() - 600 * SECOND + number * SECOND
    values = {"turn_id": turn_id_of(trace_id, 0), "trace_id": trace_id, "started_at": started}
    defaults = {"app": "shop", "query": f"q{number}", "ended_at": started, "arrived_at": started}
    return msgspec.convert(defaults | values | more, Turn)


def scores(of: Turn, passed: bool = True, **more: object) -> TurnScores:
    entry = Score(metric="groundedness", engine="local", value=4.0, passed=passed)
    return TurnScores(
        subject_id=of.turn_id,
        turn_id=of.turn_id,
        trace_id=of.trace_id,
        app=of.app,
        arrived_at=of.arrived_at,
        scores=(entry,),
        **more,  # type: ignore[arg-type]
    )


def outgoing(records: Sequence[Turn | TurnScores]) -> list[Outgoing]:
    return [
        Outgoing(TURNS if isinstance(r, Turn) else SCORES, encode(r), key=r.turn_id.encode())
        for r in records
    ]


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[EmbeddedBus]:
    bus = EmbeddedBus(tmp_path / "data", topics())
    await bus.start()
    yield bus
    await bus.stop()


async def test_turns_come_with_their_scores_in_start_order(bus: EmbeddedBus) -> None:
    """The latest turns of an app, at most the limit, oldest first, each with its own scores."""
    turns = [turn(n) for n in (3, 1, 2)] + [turn(9, app="other")]
    await bus.publish(outgoing([*turns, scores(turns[0]), scores(turns[2])]))
    found = await Lookup(bus, None).turns(Selection(app="shop", limit=2))
    assert [scored.turn.query for scored in found] == ["q2", "q3"]
    assert [len(scored.scores) for scored in found] == [1, 1]


async def test_only_the_latest_are_kept_while_looking(bus: EmbeddedBus) -> None:
    """Of many more turns than asked for, the last by their start come, whatever their order."""
    numbers = list(range(1, 400))
    random.Random(1).shuffle(numbers)
    await bus.publish(outgoing([turn(n) for n in numbers]))
    found = await Lookup(bus, None).turns(Selection(limit=5))
    assert [scored.turn.query for scored in found] == ["q395", "q396", "q397", "q398", "q399"]


async def test_a_turn_is_found_by_the_start_of_its_id(bus: EmbeddedBus) -> None:
    """The full id, the trace id, and a beginning; another text finds nothing."""
    lookup = Lookup(bus, None)
    await bus.publish(outgoing([turn(7), scores(turn(7))]))
    for name in (turn(7).turn_id, turn(7).trace_id, f"{7:032x}"[:20]):
        found = await lookup.turn(name)
        assert found is not None
        assert (found.turn.query, len(found.scores)) == ("q7", 1)
    assert await lookup.turn("q7") is None


async def test_a_turn_that_left_the_stream_comes_from_the_store(
    bus: EmbeddedBus, tmp_path: Path
) -> None:
    """What was stored comes back equal, but for times below a microsecond."""
    kept = turn(
        5,
        messages=[{"role": "user", "content": "hi"}],
        tool_calls=[{"name": "find", "arguments": {"a": [1, None]}}],
        usage={"input_tokens": 0, "cost": 0.5},
        labels={"tier": "gold"},
        ground_truth=["a", "b"],
        conversation_id="c",
        started_at=1_000,
        ended_at=1_700_000_000_000_001_000,
        arrived_at=1_700_000_001_000_000_000,
    )
    assert kept.messages == (Message(role="user", content="hi"),)
    assert kept.tool_calls == (ToolCall(name="find", arguments={"a": [1, None]}),)
    assert kept.usage == Usage(input_tokens=0, cost=0.5)
    judged = scores(kept, event_time=kept.ended_at, group="judge")
    judged = msgspec.structs.replace(
        judged,
        scores=(
            *judged.scores,
            Score(
                metric="relevance",
                engine="m",
                outcome="error",
                outcome_reason="timeout",
                details={"n": 1},
                judge_usage=JudgeUsage(calls=2, input_tokens=9),
            ),
        ),
    )
    store = Store(str(tmp_path / "store"))
    rows = [(judged, entry) for entry in judged.scores]
    await store.append("turns", [Source("t/0", [0], [kept], 1)])
    await store.append("scores", [Source("s/0", [0] * len(rows), rows, 1)])
    found = await Lookup(bus, store).turn(kept.turn_id)
    assert found == ScoredTurn(turn=kept, scores=(judged,))


async def test_conversations_join_turns(bus: EmbeddedBus) -> None:
    """Turns of one id and app are one conversation; a turn without an id belongs to none."""
    turns = [turn(n, conversation_id="c1") for n in (2, 1)] + [turn(3)]
    turns.append(turn(4, conversation_id="c1", app="other"))
    await bus.publish(outgoing([*turns, scores(turns[0], passed=False)]))
    found = await Lookup(bus, None).conversations(Selection())
    assert [(c.app, len(c.turns), c.defects) for c in found] == [("shop", 2, 1), ("other", 1, 0)]
    assert [scored.turn.query for scored in found[0].turns] == ["q1", "q2"]


async def test_tail_joins_each_score_with_its_turn(bus: EmbeddedBus) -> None:
    """Scores are shown with their turn, whichever is read first, and none from before the call."""
    lookup = Lookup(bus, None)
    await bus.publish(outgoing([turn(1), scores(turn(1))]))
    await asyncio.sleep(0.01)
    stream = lookup.tail()
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.05)
    await bus.publish(outgoing([scores(turn(2)), scores(turn(1), group="judge")]))
    await bus.publish(outgoing([turn(2)]))
    seen = [await first, await anext(stream)]
    await stream.aclose()
    assert {(s.turn.query, s.scores[0].group) for s in seen} == {("q1", "judge"), ("q2", "local")}


async def test_end_tails_ends_them(bus: EmbeddedBus) -> None:
    """A reader of a tail is not waited for when the process stops."""
    lookup = Lookup(bus, None)
    reading = asyncio.ensure_future(anext(lookup.tail(), None))
    await asyncio.sleep(0.05)
    await lookup.end_tails()
    assert await asyncio.wait_for(reading, 5) is None


@pytest.fixture
async def client(bus: EmbeddedBus) -> AsyncIterator[httpx.AsyncClient]:
    app, lookup = FastAPI(), Lookup(bus, None)

    async def status() -> dict[str, object]:
        return {"healthy": True}

    add_api(app, lookup, status, SecretStr("k-1"))
    server = HttpServer(app, "127.0.0.1:0", "listen")
    await server.start()
    async with httpx.AsyncClient(
        base_url=f"http://{server.address}/api", headers={"authorization": "Bearer k-1"}
    ) as client:
        yield client
    await lookup.end_tails()
    await server.stop()
    await server.stop()


async def test_the_api_wants_its_key(client: httpx.AsyncClient) -> None:
    """Without the key, or with another, every route answers 401 and nothing of the data."""
    for key in ("", "Bearer k-2", "Bearer \xe9", "Basic k-1"):
        answer = await client.get("/status", headers={"authorization": key.encode("latin-1")})
        assert answer.status_code == (200 if key == "Bearer k-1" else 401)


async def test_the_api_lists_json_lines(client: httpx.AsyncClient, bus: EmbeddedBus) -> None:
    """Listings are records, one a line; what is not there is 404, what is wrong 4xx, never 500."""
    one = turn(1, conversation_id="c")
    await bus.publish(outgoing([one, scores(one)]))
    answer = await client.get("/turns", params={"app": "shop"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    (line,) = answer.content.splitlines()
    assert msgspec.json.decode(line, type=ScoredTurn).turn == one
    answer = await client.get(f"/turns/{one.turn_id}")
    assert msgspec.json.decode(answer.content, type=ScoredTurn).turn == one
    answer = await client.get("/conversations")
    assert msgspec.json.decode(answer.content, type=Conversation).conversation_id == "c"
    assert (await client.get("/turns/nothing")).status_code == 404
    wrong = await client.get("/turns", params={"limit": 0, "since": "x"})
    assert wrong.status_code == 422
    assert wrong.json()["error"].count("limit: ") == wrong.json()["error"].count("since: ") == 1
    unknown = await client.get("/nothing")
    assert (unknown.status_code, unknown.json()) == (404, {"error": "Not Found"})
    refused = await client.post("/query", json={"sql": "select 1"})
    assert (refused.status_code, "no store" in refused.json()["error"]) == (400, True)


async def test_the_api_streams_the_tail(client: httpx.AsyncClient, bus: EmbeddedBus) -> None:
    """A line comes as soon as its turn is scored."""
    one = turn(1)
    async with client.stream("GET", "/tail") as answer:
        await asyncio.sleep(0.05)
        await bus.publish(outgoing([one, scores(one)]))
        line = await asyncio.wait_for(anext(answer.aiter_lines()), 5)
    assert json.loads(line)["turn"]["query"] == "q1"


async def test_without_a_key_the_api_answers_no_host_name(bus: EmbeddedBus) -> None:
    """A page whose name was made to resolve to this machine reads nothing."""
    app, lookup = FastAPI(), Lookup(bus, None)

    async def status() -> dict[str, object]:
        return {}

    add_api(app, lookup, status, None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        for host, code in (("127.0.0.1:1", 200), ("[::1]", 200), ("localhost", 200)):
            assert (await client.get(f"http://{host}/api/status")).status_code == code
        assert (await client.get("http://evil.example/api/status")).status_code == 403
