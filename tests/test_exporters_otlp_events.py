"""Scores as OTLP events: the records, their delivery, and that our own doors drop them."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from exporters_data import message, score, turn_scores
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from prometheus_client import CollectorRegistry

from assay.bus import topics
from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from collector.slices import RESERVED_SCOPE
from exporters.otlp_events import EVENT, SCOPE, OtlpEvents, event_of, request_of
from exporters.stage import StageSeries


class OtlpServer:
    """An OTLP/HTTP logs endpoint of the standard library and OpenTelemetry's own messages."""

    def __init__(self) -> None:
        self.requests: list[ExportLogsServiceRequest] = []
        self.answers: list[int] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = server.answers.pop(0) if server.answers else 200
                if status == 200:
                    assert self.path == "/v1/logs"
                    assert self.headers["content-type"] == "application/x-protobuf"
                    server.requests.append(ExportLogsServiceRequest.FromString(body))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def records(self) -> list[Any]:
        return [
            record
            for request in self.requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def otlp() -> Iterator[OtlpServer]:
    server = OtlpServer()
    yield server
    server.stop()


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not met():  # noqa: ASYNC110 - a list that grows has no event
            await asyncio.sleep(0.05)


def attributes(record: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in record.attributes}


def test_an_event_has_the_conventions_names_and_the_judged_span() -> None:
    """Name, value, label, explanation and response id under GenAI names; ids of the span."""
    one = score(value=2.0, passed=False, threshold=3.0, reason="not in the documents",
                scorer_version="1.2")  # fmt: skip
    turn = turn_scores(7, one, span_id="00000000000000ab", response_id="resp-1", version="1.0")
    record = event_of(turn, one)
    found = attributes(record)
    assert record.event_name == EVENT
    assert record.trace_id == bytes.fromhex(turn.trace_id)
    assert record.span_id == bytes.fromhex("00000000000000ab")
    assert found["gen_ai.evaluation.name"] == "groundedness"
    assert found["gen_ai.evaluation.score.value"] == 2.0
    assert found["gen_ai.evaluation.score.label"] == "fail"
    assert found["gen_ai.evaluation.explanation"] == "not in the documents"
    assert found["gen_ai.response.id"] == "resp-1"
    assert found["assay.passed"] is False
    assert (found["assay.threshold"], found["assay.direction"]) == (3.0, "higher")
    assert found["assay.scorer.version"] == "1.2"
    [resource] = request_of([turn]).resource_logs
    assert attributes(resource.resource)["service.name"] == "shop"


def test_the_scope_is_the_one_that_our_doors_drop() -> None:
    """Nothing that Assay says comes back as an app's data."""
    [resource] = request_of([turn_scores(1)]).resource_logs
    assert resource.scope_logs[0].scope.name == SCOPE == RESERVED_SCOPE


def test_hostile_ids_and_text_make_no_bad_record() -> None:
    """An id that is no id is left out; a lone surrogate is replaced."""
    one = score(value=1.0, reason="a\ud800b")
    record = event_of(turn_scores(1, one, trace_id="zz", span_id="12"), one)
    assert record.trace_id == record.span_id == b""
    assert attributes(record)["gen_ai.evaluation.explanation"] == "a?b"


async def test_every_scored_entry_arrives_once_though_the_receiver_was_away(
    tmp_path: Path, otlp: OtlpServer
) -> None:
    """503 is tried again; what could not be scored makes no event; a bad record harms none."""
    otlp.answers = [503, 503]
    bus = EmbeddedBus(tmp_path / "bus", topics.topics())
    await bus.start()
    registry = CollectorRegistry()
    stage = OtlpEvents(
        bus, StageSeries(registry), registry, endpoint=otlp.url, headers={"x-key": "k"}
    )
    await stage.start()
    turns = [
        turn_scores(i, score(value=1.0, passed=True), score("fluency", outcome="skipped"))
        for i in range(20)
    ]
    await bus.publish([*map(message, turns), Outgoing(topics.SCORES, b"{", key=b"x")])
    await until(lambda: len(otlp.records()) >= 20)
    await stage.stop()
    await stage.stop()
    await bus.stop()
    assert len(otlp.records()) == 20
    sent = registry.get_sample_value("assay_otlp_events_total", {"outcome": "sent"})
    assert sent == 20
    refused = {"stage": "otlp_events", "reason": "unreadable"}
    assert registry.get_sample_value("assay_export_dead_letters_total", refused) == 1
