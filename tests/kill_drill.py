"""Traffic for kill tests: traces whose every fate is known, and the count of what became of them.

A trace is `sent` when its requests were answered 2xx, and `unsure` when a request ended without an
answer: the agent may or may not have it. The invariant: each sent trace has exactly one TurnScores
per group on the bus and one row per entry in the store; an unsure one at most that.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from assay.bus.contract import Bus
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import SCORES, topics
from assay.records import TurnScores, decode_turn_scores
from assay.store import Store

WORDS = ("order", "lamp", "kettle", "shelf", "warranty", "delivery", "refund", "parcel")


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def trace(rng: random.Random) -> tuple[str, list[bytes]]:
    """A trace id and its request bodies: one, or two where a tool span comes on its own."""
    trace_id, root_id = rng.randbytes(16), rng.randbytes(8)
    now = time.time_ns()
    query = " ".join(rng.choices(WORDS, k=8)) + "?"
    answer = " ".join(rng.choices(WORDS, k=30)) + "."

    def request(name: str, span_id: bytes, parent: bytes, **attributes: str) -> bytes:
        body = ExportTraceServiceRequest()
        spans = body.resource_spans.add()
        spans.resource.attributes.append(_text("service.name", "drill"))
        span = spans.scope_spans.add().spans.add(
            trace_id=trace_id,
            span_id=span_id,
            parent_span_id=parent,
            name=name,
            start_time_unix_nano=now,
            end_time_unix_nano=now + 10**9,
        )
        for key, value in attributes.items():
            span.attributes.append(_text(key.replace("__", "."), value))
        return body.SerializeToString()

    root = request(
        "chat gpt-4o-mini",
        root_id,
        b"",
        gen_ai__operation__name="chat",
        gen_ai__request__model="gpt-4o-mini",
        gen_ai__input__messages=f'[{{"role":"user","parts":[{{"type":"text","content":"{query}"}}]}}]',
        gen_ai__output__messages=(
            f'[{{"role":"assistant","parts":[{{"type":"text","content":"{answer}"}}]}}]'
        ),
    )
    bodies = [root]
    if rng.random() < 0.3:
        tool = request(
            "execute_tool find_order",
            rng.randbytes(8),
            root_id,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name="find_order",
        )
        bodies.insert(0, tool)
    return trace_id.hex(), bodies


@dataclass
class Traffic:
    """Sends traces until told to stop, and remembers the fate of each."""

    url: str
    rng: random.Random
    rate: float
    refusal_is_final: bool = True
    """Whether what was refused is not there. A broker that went away may have had it."""
    sent: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    refused: int = 0
    running: bool = True

    async def run(self) -> None:
        async with httpx.AsyncClient(timeout=10) as client, asyncio.TaskGroup() as group:
            while self.running:
                await asyncio.sleep(self.rng.expovariate(self.rate))
                group.create_task(self._send(client, *trace(self.rng)))

    async def _send(self, client: httpx.AsyncClient, trace_id: str, bodies: list[bytes]) -> None:
        self.unsure.add(trace_id)
        answers = 0
        for body in bodies:
            try:
                answer = await client.post(
                    self.url, content=body, headers={"content-type": "application/x-protobuf"}
                )
            except httpx.ConnectError:
                break
            except httpx.TransportError:
                return
            if answer.status_code == 503:
                if not self.refusal_is_final:
                    self.refused += 1
                    return
                break
            assert answer.is_success, answer.text
            answers += 1
        if answers == len(bodies):
            self.sent.add(trace_id)
        if answers in (0, len(bodies)):
            self.unsure.discard(trace_id)
        self.refused += answers == 0


@dataclass
class Fates:
    """What became of the traces. All but the counts must be empty."""

    turns: int = 0
    rows: int = 0
    lost: set[str] = field(default_factory=set)
    doubled: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)
    rows_missing: set[str] = field(default_factory=set)
    rows_doubled: set[str] = field(default_factory=set)

    @property
    def faults(self) -> dict[str, list[str]]:
        return {
            name: sorted(getattr(self, name))[:5]
            for name in ("lost", "doubled", "strangers", "rows_missing", "rows_doubled")
            if getattr(self, name)
        }


async def fates(data_dir: Path, traffic: Traffic) -> Fates:
    """Count, with the agent down, what the bus and the store hold of the traffic."""
    bus = EmbeddedBus(data_dir, topics())
    await bus.start()
    try:
        return await fates_on(bus, Store(f"{data_dir}/store"), traffic.sent, traffic.unsure)
    finally:
        await bus.stop()


async def fates_on(bus: Bus, store: Store, sent: set[str], unsure: set[str]) -> Fates:
    """Count what the bus and the store hold of traces that were sent, and of unsure ones."""
    scores: list[TurnScores] = [decode_turn_scores(r.value) async for r in bus.read(SCORES)]
    stored = {
        row["turn_id"]: (row["n"], row["entries"])
        for row in await store.query(
            "select turn_id, count(*) as n, count(distinct score_id) as entries "
            "from scores group by turn_id"
        )
    }
    seen = Counter((s.trace_id, s.group) for s in scores)
    traces = {trace_id for trace_id, _ in seen}
    result = Fates(turns=len(scores), rows=sum(n for n, _ in stored.values()))
    result.lost = {t for t in sent if not seen[t, "local"]}
    result.doubled = {t for (t, _), n in seen.items() if n > 1}
    result.strangers = (traces - sent - unsure) | (stored.keys() - {s.turn_id for s in scores})
    for turn in scores:
        rows, entries = stored.get(turn.turn_id, (0, 0))
        if entries < len(turn.scores):
            result.rows_missing.add(turn.turn_id)
        if rows > entries or entries > len(turn.scores):
            result.rows_doubled.add(turn.turn_id)
    return result
