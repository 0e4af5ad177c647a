"""What assembling costs: 10,000 spans a second of about 2 kB in five-span traces, per core.

    python tests/benchmarks/bench_assemble.py [seconds of traffic]

Prints, for the same bytes in the same run: protobuf parse alone (the limit), grouping by trace,
the assembler's core without decoding and reading of attributes, and with them; then the assembler
on the embedded log, both ways.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry

sys.path.insert(0, str(Path(__file__).parents[1]))

from assembly_drive import Stream, request, span

from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import SPANS, topics
from assay.config import Config
from assay.records import Turn
from collector import decode, dialects
from collector.assembly import Assembler
from collector.dialects import Reading
from collector.grouping import by_trace
from collector.spans import Log, Span

RATE = 10_000
RECORD_SPANS = 125
TRACE_SPANS = 5
LIMIT = 0.40
"""Of a core, at RATE, without the dialects' own cost."""


def nothing(spans: Sequence[Span], logs: Sequence[Log]) -> Reading:
    """One empty turn of each trace: what reading content costs is not measured here."""
    trace_id = spans[0].trace_id
    turn = Turn(turn_id=f"{trace_id}-0", trace_id=trace_id, app="shop", query="q", response="r")
    return Reading([turn], {})


def first(request: ExportTraceServiceRequest) -> list[Span]:
    """Of the spans of a trace only what says whose they are."""
    span = request.resource_spans[0].scope_spans[0].spans[0]
    return [Span(trace_id=span.trace_id.hex(), span_id=span.span_id.hex())]


def records(seconds: int) -> list[bytes]:
    """The traffic as the doors write it: each record holds whole and cut traces."""
    filler = {f"gen_ai.attribute.{n}": "value " * 8 for n in range(22)}
    text = "Is there something that I can do about the order that has not arrived? " * 5
    made = []
    total = seconds * RATE // TRACE_SPANS
    spans = []
    for _ in range(total):
        trace = int.from_bytes(os.urandom(16), "big")
        spans.append(span(trace, 1, **filler))
        spans += (
            span(trace, number, 1, query=text if number == 2 else None, **filler)
            for number in range(2, TRACE_SPANS + 1)
        )
    for start in range(0, len(spans), RECORD_SPANS):
        made.append(request(spans[start : start + RECORD_SPANS]))
    return made


def timed(label: str, work, count: int, parse: float | None = None) -> float:
    start = time.process_time()
    work()
    spent = time.process_time() - start
    share = spent / count * RATE
    beside = f"  {parse / spent:5.1%} of parse's speed" if parse else ""
    print(f"{label:42} {count / spent:10,.0f} spans/s  {share:6.1%} of a core{beside}")
    return spent


def core(values: list[bytes], read) -> Stream:
    stream = Stream(read=read)
    for n, value in enumerate(values):
        stream.append(value, n * RECORD_SPANS / RATE)

    for n in range(len(values)):
        stream.deliver()
        if n % 10 == 0:
            stream.commit()
    stream.finish(len(values) * RECORD_SPANS / RATE + 10)
    return stream


async def on_the_log(values: list[bytes], read) -> float:
    """CPU seconds of this process for the records, the bus's threads included."""
    with tempfile.TemporaryDirectory() as folder:
        bus = EmbeddedBus(Path(folder), topics())
        await bus.start()
        for n, value in enumerate(values):
            await bus.publish([Outgoing(SPANS, value, b"k", n % 4)])
        config = Config.model_validate({"assembly": {"settle": 0.5, "idle": 2, "max_age": 4}})
        assembler = Assembler(bus, config, CollectorRegistry(), read=read)
        start = time.process_time()
        await assembler.start()
        consumer = assembler._consumer
        while consumer is not None and consumer.lag():  # noqa: ASYNC110 the bus tells nobody
            await asyncio.sleep(0.05)
        spent = time.process_time() - start
        await assembler.stop()
        await bus.stop()
        return spent


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    values = records(seconds)
    count = len(values) * RECORD_SPANS
    size = sum(map(len, values)) / count
    print(f"{count:,} spans of {size:,.0f} bytes in {len(values)} records")
    parse = timed(
        "protobuf parse alone",
        lambda: [ExportTraceServiceRequest.FromString(value) for value in values],
        count,
    )
    stream = Stream()
    for value in values:
        stream.append(value, 0)
    timed("grouping by trace", lambda: [by_trace(r) for r in stream.records], count, parse)
    with patch.object(decode, "spans", first):
        timed("assembling, nothing decoded or read", lambda: core(values, nothing), count, parse)
        spent = asyncio.run(on_the_log(values, nothing))
    share = spent / count * RATE
    print(
        f"{'the same on the embedded log':42} {count / spent:10,.0f} spans/s  "
        f"{share:6.1%} of a core  limit {LIMIT:.0%}: {'met' if share < LIMIT else 'MISSED'}"
    )
    timed("assembling with the dialects", lambda: core(values, dialects.read), count, parse)
    spent = asyncio.run(on_the_log(values, dialects.read))
    print(
        f"{'the same on the embedded log':42} {count / spent:10,.0f} spans/s  "
        f"{spent / count * RATE:6.1%} of a core"
    )


if __name__ == "__main__":
    main()
