from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import SPANS, partition_of, topics
from assay.config import Config
from assay.errors import Permanent, Retryable
from collector.intake import PENDING_REQUESTS, THREAD_ABOVE, Accepted, Intake

CASES = Path(__file__).parent / "data" / "cases"
SPAN = {"trace_id": b"t" * 16, "span_id": b"s" * 8}


@pytest.fixture
async def bus(tmp_path):
    bus = EmbeddedBus(tmp_path, topics())
    await bus.start()
    yield bus
    await bus.stop()


@pytest.fixture
def registry():
    return CollectorRegistry()


def traces(*spans: dict) -> bytes:
    return ExportTraceServiceRequest(
        resource_spans=[{"scope_spans": [{"spans": spans}]}]
    ).SerializeToString()


async def stored(bus: EmbeddedBus) -> list:
    return [
        (record, span)
        async for record in bus.read(SPANS)
        for group in ExportTraceServiceRequest.FromString(record.value).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def count(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


async def test_an_accepted_span_is_on_the_bus_in_its_traces_partition(bus, registry):
    """JSON and protobuf halves of one trace meet under one id and in one partition."""
    intake = Intake(bus, Config(), registry)
    for name, encoding in (("B02.otlp.json", "json"), ("B02.otlp.pb", "protobuf")):
        assert await intake.accept("traces", encoding, (CASES / name).read_bytes()) == Accepted()
    halves = await stored(bus)
    assert len(halves) == 2
    assert {span.trace_id.hex() for _, span in halves} == {"f90309c22bfeaa1298af2d1f6c93c1cf"}
    assert {record.partition for record, _ in halves} == {partition_of(halves[0][1].trace_id, 4)}
    assert {record.key for record, _ in halves} == {halves[0][1].trace_id}
    assert count(registry, "assay_accepted_items_total", signal="traces") == 2


@pytest.mark.parametrize(
    ("name", "encoding"), [("B05.otlp.json", "json"), ("B05.otlp.pb", "protobuf")]
)
async def test_one_bad_span_is_told_and_counted_and_its_neighbours_stored(
    bus, registry, name, encoding
):
    """Nine of ten are stored; the tenth is rejected with its reason."""
    accepted = await Intake(bus, Config(), registry).accept(
        "traces", encoding, (CASES / name).read_bytes()
    )
    assert accepted == Accepted(1, "1 invalid_trace_id")
    assert len(await stored(bus)) == 9
    labels = {"signal": "traces", "reason": "invalid_trace_id"}
    assert count(registry, "assay_dropped_items_total", **labels) == 1
    assert count(registry, "assay_accepted_items_total", signal="traces") == 9


async def test_what_the_reader_and_the_cutter_reject_is_told_together(bus, registry):
    """Faults found in JSON and faults of ids add up."""
    good = {"traceId": "ab" * 16, "spanId": "cd" * 8}
    spans = [good, good | {"name": 5}, good | {"spanId": "cd"}]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
    accepted = await Intake(bus, Config(), registry).accept("traces", "json", body)
    assert accepted == Accepted(2, "1 malformed, 1 invalid_span_id")


async def test_what_is_dropped_by_rule_is_no_fault_of_the_sender(bus, registry):
    """Head sampling and logs without a trace are counted and not told as rejected."""
    intake = Intake(bus, Config.model_validate({"sampling": {"head_ratio": 0}}), registry)
    child = SPAN | {"span_id": b"child123", "parent_span_id": b"s" * 8}
    assert await intake.accept("traces", "protobuf", traces(SPAN, child)) == Accepted()
    log = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [{}]}]}]}).encode()
    assert await intake.accept("logs", "json", log) == Accepted()
    assert await stored(bus) == []
    dropped = "assay_dropped_items_total"
    assert count(registry, dropped, signal="traces", reason="head_sampling") == 2
    assert count(registry, dropped, signal="logs", reason="no_trace_id") == 1
    assert count(registry, "assay_unsampled_traces_total") == 1


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
@pytest.mark.parametrize(("encoding", "body"), [("protobuf", b""), ("json", b"{}")])
async def test_an_empty_request_is_accepted(bus, registry, signal, encoding, body):
    """A request without anything in it is a success and writes nothing."""
    assert await Intake(bus, Config(), registry).accept(signal, encoding, body) == Accepted()
    assert await stored(bus) == []


async def test_metrics_are_discarded_unread(bus, registry):
    """Metrics are answered with success, whatever they are."""
    assert (
        await Intake(bus, Config(), registry).accept("metrics", "protobuf", b"\xff") == Accepted()
    )


async def test_a_broken_request_is_permanent(bus, registry):
    """No retry helps a body that does not parse."""
    for encoding in ("protobuf", "json"):
        with pytest.raises(Permanent):
            await Intake(bus, Config(), CollectorRegistry()).accept("traces", encoding, b"{\xff")


async def test_a_bus_that_cannot_take_more_is_told_to_the_sender_and_nothing_is_counted(
    tmp_path, registry
):
    """Full and stopped buses give Retryable; the same request succeeds later."""
    full = EmbeddedBus(tmp_path / "full", topics(), max_size=1)
    await full.start()
    intake = Intake(full, Config(), registry)
    with pytest.raises(Retryable) as error:
        await intake.accept("traces", "protobuf", traces(SPAN, SPAN | {"trace_id": b"x"}))
    assert error.value.retry_after
    await full.stop()
    with pytest.raises(Retryable):
        await intake.accept("traces", "protobuf", traces(SPAN))
    assert count(registry, "assay_accepted_items_total", signal="traces") == 0
    labels = {"signal": "traces", "reason": "invalid_trace_id"}
    assert count(registry, "assay_dropped_items_total", **labels) == 0


async def test_only_so_many_bytes_wait_for_the_bus(bus, registry):
    """Above the bound a request is told to come again; room comes back when one ends."""
    body = traces(SPAN)
    config = Config.model_validate({"collector": {"max_request": len(body)}})
    intake = Intake(bus, config, registry)
    answers = await asyncio.gather(
        *(intake.accept("traces", "protobuf", body) for _ in range(PENDING_REQUESTS + 2)),
        return_exceptions=True,
    )
    assert answers[:PENDING_REQUESTS] == [Accepted()] * PENDING_REQUESTS
    assert [type(answer) for answer in answers[PENDING_REQUESTS:]] == [Retryable, Retryable]
    assert await intake.accept("traces", "protobuf", body) == Accepted()


async def test_large_json_leaves_the_event_loop_free(bus, registry):
    """A body above the bound is read in a thread and stored like any other."""
    spans = [{"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "x" * 1000}] * 300
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
    assert len(body) > THREAD_ABOVE
    accepting = asyncio.create_task(Intake(bus, Config(), registry).accept("traces", "json", body))
    await asyncio.sleep(0)
    assert not accepting.done()
    assert await accepting == Accepted()
    assert len(await stored(bus)) == 300
