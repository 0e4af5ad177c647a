from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from assembly_drive import Stream
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assay.records import Turn
from collector import decode, dialects, otlp_json

CAPTURES = Path(__file__).parent / "data" / "captures"
LIBRARIES = sorted(path.name.removesuffix(".jsonl.gz") for path in CAPTURES.glob("*.jsonl.gz"))

Part = tuple[str, bytes]
"""A signal, and a request of one item."""


def apart(signal: str, body: dict) -> Iterator[Part]:
    """The request cut into one request for each span or log record."""
    text = json.dumps(body).encode()
    if signal == "traces":
        for group in otlp_json.parse_traces(text).resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    one = ExportTraceServiceRequest()
                    out = one.resource_spans.add(resource=group.resource)
                    out.scope_spans.add(scope=scope.scope, spans=[span])
                    yield signal, one.SerializeToString()
    else:
        for group in otlp_json.parse_logs(text).resource_logs:
            for scope in group.scope_logs:
                for log in scope.log_records:
                    if log.trace_id:
                        one = ExportLogsServiceRequest()
                        out = one.resource_logs.add(resource=group.resource)
                        out.scope_logs.add(scope=scope.scope, log_records=[log])
                        yield signal, one.SerializeToString()


def scenarios(library: str) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    lines = gzip.decompress((CAPTURES / f"{library}.jsonl.gz").read_bytes()).splitlines()
    for row in map(json.loads, lines):
        found.setdefault(row["scenario"], []).extend(apart(row["signal"], row["body"]))
    return found


def read_at_once(parts: list[Part]) -> list[Turn]:
    """What the dialects make of each trace with all that belongs to it."""
    spans = [
        span
        for signal, value in parts
        if signal == "traces"
        for span in decode.spans(ExportTraceServiceRequest.FromString(value))
    ]
    logs = [
        log
        for signal, value in parts
        if signal == "logs"
        for log in decode.logs(ExportLogsServiceRequest.FromString(value))
    ]
    return [
        turn
        for trace in {span.trace_id for span in spans}
        for turn in dialects.read(
            [span for span in spans if span.trace_id == trace],
            [log for log in logs if log.trace_id == trace],
        ).turns
    ]


def comparable(turns: list[Turn]) -> list[Turn]:
    """Without what only the assembler sets."""
    return sorted(
        (msgspec.structs.replace(turn, arrived_at=0, draw=0.0) for turn in turns),
        key=lambda turn: turn.turn_id,
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_capture_in_pieces_gives_the_turns_of_the_whole(library: str) -> None:
    """Cut span by span, shuffled, sent twice and with the assembler restarted in between, every
    capture gives the turns that its traces give when they come at once."""
    random_ = random.Random(library)
    for name, parts in scenarios(library).items():
        expected = read_at_once(parts)
        arrivals = [(random_.uniform(0, 5), part) for part in parts * 2]
        stream = Stream(save_after=random_.choice([0, 3, 10_000]))
        for at, (signal, value) in sorted(arrivals, key=lambda arrival: arrival[0]):
            stream.append(value, at, signal)
        for _ in arrivals:
            stream.deliver()
            if random_.random() < 0.1:
                stream.commit()
            if random_.random() < 0.05:
                stream.crash()
        assert comparable(stream.finish()) == comparable(expected), name
        assert stream.done == set(range(len(arrivals)))
        assert stream.partition.open.size == 0
