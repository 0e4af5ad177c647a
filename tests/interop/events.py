"""Evaluation events through an OpenTelemetry Collector: what it takes in and hands on is whole.

Run: python tests/interop/events.py COLLECTOR, with the program that its builder made of
collector.yaml. The events go to its OTLP receiver, and its exporter sends them on to a receiver
here; each must come once, with the ids and attributes that it left with.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from exporters_data import message, score, turn_scores
from kafka_broker import free_port
from prometheus_client import CollectorRegistry
from test_exporters_otlp_events import OtlpServer, attributes

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import topics
from exporters.otlp_events import EVENT, OtlpEvents, event_of
from exporters.stage import StageSeries

TURNS = 500


async def main(program: str) -> None:
    sent = [
        turn_scores(
            number,
            score(value=2.0, passed=False, threshold=3.0, reason="not in the documents"),
            span_id=f"{number:016x}",
            response_id=f"resp-{number}",
        )
        for number in range(1, TURNS + 1)  # Ids of nothing but zeros are none.
    ]
    with tempfile.TemporaryDirectory() as name:
        folder, port, sink = Path(name), free_port(), OtlpServer()
        settings = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
            "exporters": {"otlp_http": {"endpoint": sink.url, "compression": "none"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"logs": {"receivers": ["otlp"], "exporters": ["otlp_http"]}},
            },
        }
        (folder / "collector.json").write_text(json.dumps(settings))
        config = f"file:{folder / 'collector.json'}"
        collector = await asyncio.create_subprocess_exec(program, "--config", config)
        bus, registry = EmbeddedBus(folder / "bus", topics()), CollectorRegistry()
        await bus.start()
        address = f"http://127.0.0.1:{port}"
        stage = OtlpEvents(bus, StageSeries(registry), registry, endpoint=address, headers={})
        try:
            await stage.start()
            await bus.publish([message(turn) for turn in sent])
            async with asyncio.timeout(60):
                while len(sink.records()) < TURNS:  # noqa: ASYNC110 - a list has no event
                    await asyncio.sleep(0.1)
        finally:
            await stage.stop()
            await bus.stop()
            collector.terminate()
            await collector.wait()
            sink.stop()
        came = {record.span_id.hex(): record for record in sink.records()}
        for turn in sent:
            expected, record = event_of(turn, turn.scores[0]), came[turn.span_id]
            assert (record.trace_id, record.event_name) == (expected.trace_id, EVENT)
            assert attributes(record) == attributes(expected)
        assert len(sink.records()) == TURNS
    print(f"{TURNS} events went through the collector, each whole and once")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
