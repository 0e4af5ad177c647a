"""What reading costs: protobuf to spans to turns, per five-span turn, beside the parse alone.

    python tests/benchmarks/bench_dialects.py [seconds]

Prints for captures of several layouts the time of the protobuf parse (the limit: nothing is read
without it), of `decode.spans` and of `dialects.read`, scaled to five spans, in microseconds of CPU
time of one core, the best of several rounds. The aim is 400 for decode and read together.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import decode, dialects
from collector.otlp_json import parse_traces

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
CASES = (
    ("otel-genai-openai", "rag_handler"),
    ("otel-genai-openai", "tool_handler"),
    ("otel-openai-v2", "rag_latest"),
    ("openinference-openai", "rag"),
    ("openinference-openai", "tool"),
    ("openinference-langchain", "rag"),
    ("traceloop", "tool"),
    ("langfuse", "tool"),
    ("vercel-ai-sdk", "tool"),
    ("pydantic-ai", "tool"),
)
SPANS = 5
AIM = 400.0
ROUNDS = 15


def bodies(library: str, scenario: str) -> list[bytes]:
    """The protobuf bodies of a capture."""
    lines = gzip.decompress((CAPTURES / f"{library}.jsonl.gz").read_bytes()).splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        parse_traces(json.dumps(row["body"]).encode()).SerializeToString()
        for row in rows
        if row["scenario"] == scenario and row["signal"] == "traces"
    ]


def cost(work: Callable[[], object], seconds: float) -> float:
    """Microseconds of CPU time of one call, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        count, began = 0, time.process_time()
        while time.process_time() - began < seconds / ROUNDS:
            work()
            count += 1
        best = min(best, (time.process_time() - began) / count)
    return best * 1e6


def main() -> None:
    """Print one line a capture and the worst ratio to the aim."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.3
    parsed_with = ExportTraceServiceRequest.FromString
    worst = 0.0
    print(f"us per {SPANS} spans".ljust(40), "   parse  decode    read   of the aim")
    for library, scenario in CASES:
        raw = bodies(library, scenario)
        requests = [parsed_with(body) for body in raw]
        spans = [span for request in requests for span in decode.spans(request)]
        scale = SPANS / len(spans)
        parse = cost(lambda raw=raw: [parsed_with(body) for body in raw], seconds) * scale
        decoding = cost(lambda reqs=requests: [decode.spans(r) for r in reqs], seconds) * scale
        reading = cost(lambda spans=spans: dialects.read(spans), seconds) * scale
        share = (decoding + reading) / AIM
        worst = max(worst, share)
        name = f"{library}/{scenario}"
        print(f"{name:40} {parse:8.1f}{decoding:8.0f}{reading:8.0f} {share:12.2f}")
    print(f"worst: {worst:.2f} of {AIM:.0f} us")


if __name__ == "__main__":
    main()
