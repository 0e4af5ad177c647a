"""How many spans a second the HTTP door takes in on one core, confirmed after fsync.

Run: python tests/benchmarks/bench_accept.py [seconds]. Requests of 500 spans of about 2 kB go from
another process over loopback into the embedded log. The door's process is held to one core, the
sender to another. The limit is `LIMIT` spans a second; beside it, from the same run, stands what
parsing, parsing and cutting, and the log can do alone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import EMBEDDED_PARTITIONS, topics
from assay.config import Config
from collector.intake import Intake
from collector.otlp_http import HttpDoor
from collector.slices import Cut, cut

LIMIT = 60_000
SPANS = 500
SENDERS = 16
"""Requests that are open at a time."""
REQUESTS = 40
"""Different requests; they are sent over and over."""
PROSE = (
    "order parcel refund invoice delivery address island surcharge morning return label credit "
    "voucher please thanks within days business customer support account balance "
)
WARM_UP = 2.0
"""Seconds that the sender has to start."""


def request(rng: random.Random) -> bytes:
    """100 traces of five spans, as a GenAI instrumentation writes them."""
    words = PROSE.split()

    def text(length: int) -> str:
        return " ".join(rng.choices(words, k=length))[:length]

    spans = []
    for _ in range(SPANS // 5):
        trace_id, root = rng.randbytes(16), rng.randbytes(8)
        for ordinal in range(5):
            start = 1_796_040_000_000_000_000 + rng.randrange(10**9)
            attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
                "gen_ai.response.id": f"chatcmpl-{rng.randbytes(12).hex()}",
                "gen_ai.conversation.id": rng.randbytes(8).hex(),
                "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"'
                + text(900)
                + '"}]}]',
                "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"'
                + text(450)
                + '"}],"finish_reason":"stop"}]',
            }
            spans.append(
                {
                    "trace_id": trace_id,
                    "span_id": root if ordinal == 0 else rng.randbytes(8),
                    "parent_span_id": b"" if ordinal == 0 else root,
                    "name": "chat gpt-4o-mini",
                    "kind": 3,
                    "start_time_unix_nano": start,
                    "end_time_unix_nano": start + 900_000_000,
                    "attributes": [
                        *({"key": k, "value": {"string_value": v}} for k, v in attributes.items()),
                        {"key": "gen_ai.usage.input_tokens", "value": {"int_value": 241}},
                        {"key": "gen_ai.usage.output_tokens", "value": {"int_value": 117}},
                    ],
                }
            )
    rng.shuffle(spans)
    resource = {"attributes": [{"key": "service.name", "value": {"string_value": "help-desk"}}]}
    scope = {"name": "opentelemetry.instrumentation.openai_v2", "version": "2.1b0"}
    return ExportTraceServiceRequest(
        resource_spans=[{"resource": resource, "scope_spans": [{"scope": scope, "spans": spans}]}]
    ).SerializeToString()


def send(port: int, seconds: float, bodies: list[bytes], cores: list[int]) -> None:
    """Keep `SENDERS` requests open until the time is up; each must be accepted."""
    os.sched_setaffinity(0, cores)

    async def connection(first: int, end: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        number = first
        while time.monotonic() < end:
            body = bodies[number % len(bodies)]
            number += 1
            writer.write(
                b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: "
                b"application/x-protobuf\r\ncontent-length: %d\r\n\r\n" % len(body)
            )
            writer.write(body)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200") or b"content-length: 0" not in head:
                sys.exit(f"the door answered {head[:40]!r}")
        writer.close()

    async def all_connections() -> None:
        end = time.monotonic() + seconds
        await asyncio.gather(*(connection(n * 7, end) for n in range(SENDERS)))

    uvloop.run(all_connections())


class Stopwatch:
    """Spans a second of wall time, and the process's CPU time a span, since it was made."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._wall

    def report(self, name: str, spans: float) -> float:
        wall, cpu = self.seconds, time.process_time() - self._cpu
        print(
            f"{name:24}{spans / wall:12,.0f} spans/s{cpu / spans * 1e6:8.2f} us of CPU a span",
            flush=True,
        )
        return spans / wall


def alone(name: str, seconds: float, bodies: list[bytes], work: Callable[[bytes], object]) -> None:
    watch, requests = Stopwatch(), 0
    while watch.seconds < seconds:
        work(bodies[requests % len(bodies)])
        requests += 1
    watch.report(name, requests * SPANS)


async def log_alone(bus: EmbeddedBus, seconds: float, bodies: list[bytes]) -> None:
    slices = [slice_up(body).outgoing for body in bodies]
    watch, requests = Stopwatch(), 0

    async def sender(first: int) -> None:
        nonlocal requests
        number = first
        while watch.seconds < seconds:
            await bus.publish(slices[number % len(slices)])
            number += 1
            requests += 1

    await asyncio.gather(*(sender(number) for number in range(SENDERS)))
    watch.report("log alone", requests * SPANS)


async def door(bus: EmbeddedBus, seconds: float, bodies: list[bytes], cores: list[int]) -> float:
    config = Config.model_validate({"collector": {"http": "127.0.0.1:0"}})
    registry = CollectorRegistry()
    http = HttpDoor(Intake(bus, config, registry), config)
    await http.start()
    sender = multiprocessing.get_context("spawn").Process(
        target=send, args=(http.port, WARM_UP + seconds, bodies, cores), daemon=True
    )
    sender.start()

    def accepted() -> float:
        return registry.get_sample_value("assay_accepted_items_total", {"signal": "traces"}) or 0

    await asyncio.sleep(WARM_UP)
    before, watch = accepted(), Stopwatch()
    await asyncio.sleep(seconds)
    rate = watch.report("door, confirmed", accepted() - before)
    await asyncio.to_thread(sender.join)
    await http.stop()
    if sender.exitcode:
        sys.exit("a request was not accepted whole")
    return rate


def parse(body: bytes) -> object:
    return ExportTraceServiceRequest.FromString(body)


def slice_up(body: bytes) -> Cut:
    return cut("traces", body, head_ratio=1.0, partitions=EMBEDDED_PARTITIONS)


async def main(seconds: float) -> None:
    first, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [first])
    rng = random.Random(1)
    bodies = [request(rng) for _ in range(REQUESTS)]
    print(f"{SPANS} spans a request, {len(bodies[0]) / SPANS:,.0f} bytes a span, one core")
    alone("parse alone", seconds / 4, bodies, parse)
    alone("parse and cut alone", seconds / 4, bodies, slice_up)
    with tempfile.TemporaryDirectory() as folder:
        bus = EmbeddedBus(Path(folder), topics())
        await bus.start()
        await log_alone(bus, seconds / 4, bodies)
        rate = await door(bus, seconds, bodies, others or [first])
        await bus.stop()
    print(f"{rate / LIMIT:.2f} of the limit of {LIMIT:,} spans/s")
    if rate < LIMIT:
        sys.exit("below the limit")


if __name__ == "__main__":
    uvloop.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 8.0))
