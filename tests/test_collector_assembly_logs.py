"""Content on log records, through the HTTP door and the assembler."""

import asyncio

import httpx
import pytest
from prometheus_client import CollectorRegistry

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import TURNS, topics
from assay.config import Config
from assay.records import decode_turn
from collector.assembly import Assembler
from collector.intake import Intake
from collector.otlp_http import HttpDoor

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SETTLE, IDLE = 0.4, 1.2


def attribute(key, value):
    return {"key": key, "value": {"stringValue": value}}


def message(role, text):
    return f'[{{"role": "{role}", "parts": [{{"type": "text", "content": "{text}"}}]}}]'


SPANS = {
    "resourceSpans": [
        {
            "resource": {"attributes": [attribute("service.name", "support")]},
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": TRACE,
                            "spanId": SPAN,
                            "name": "chat m-1",
                            "startTimeUnixNano": "1700000000000000000",
                            "endTimeUnixNano": "1700000001000000000",
                            "attributes": [
                                attribute("gen_ai.operation.name", "chat"),
                                attribute("gen_ai.request.model", "m-1"),
                            ],
                        }
                    ]
                }
            ],
        }
    ]
}
LOGS = {
    "resourceLogs": [
        {
            "resource": {"attributes": [attribute("service.name", "support")]},
            "scopeLogs": [
                {
                    "logRecords": [
                        {
                            "traceId": TRACE,
                            "spanId": SPAN,
                            "timeUnixNano": "1700000000500000000",
                            "eventName": "gen_ai.client.inference.operation.details",
                            "attributes": [
                                attribute("gen_ai.operation.name", "chat"),
                                attribute("gen_ai.input.messages", message("user", "Hello?")),
                                attribute("gen_ai.output.messages", message("assistant", "Hi!")),
                            ],
                        }
                    ]
                }
            ],
        }
    ]
}


class Rig:
    """A door, a bus and an assembler."""

    def __init__(self, client, bus, registry):
        self.client, self.bus, self.registry = client, bus, registry

    async def send(self, request):
        path = "/v1/logs" if "resourceLogs" in request else "/v1/traces"
        assert (await self.client.post(path, json=request)).status_code == 200

    def count(self, name, **labels):
        return self.registry.get_sample_value(name, labels) or 0

    async def closed(self):
        """Wait until the trace is closed and what came of it is committed."""
        endings = ("settled", "idle", "max_age")
        async with asyncio.timeout(20):
            while not any(self.count("assay_closed_traces_total", ending=e) for e in endings):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)

    async def turns(self):
        return [decode_turn(record.value) async for record in self.bus.read(TURNS)]


@pytest.fixture
async def rig(tmp_path):
    config = Config.model_validate(
        {
            "collector": {"http": "127.0.0.1:0"},
            "assembly": {"settle": f"{SETTLE}s", "idle": f"{IDLE}s"},
        }
    )

    bus, registry = EmbeddedBus(tmp_path, topics()), CollectorRegistry()
    await bus.start()
    assembler = Assembler(bus, config, registry)
    door = HttpDoor(Intake(bus, config, registry), config)
    await assembler.start()
    await door.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{door.port}") as client:
        yield Rig(client, bus, registry)
    for part in (door, assembler, bus):
        await part.stop()


@pytest.mark.parametrize("order", [(LOGS, SPANS), (SPANS, LOGS)], ids=["logs first", "spans first"])
async def test_content_on_log_records_joins_its_span_in_either_order(rig, order):
    """The turn has the span's facts and the records' texts, whichever came first."""
    first, second = order
    await rig.send(first)
    # Log records alone wait for `idle`, a root for `settle`.
    await asyncio.sleep(2 * SETTLE if first is LOGS else SETTLE / 4)
    await rig.send(second)
    await rig.closed()
    (turn,) = await rig.turns()
    assert (turn.app, turn.model, turn.query, turn.response) == ("support", "m-1", "Hello?", "Hi!")
    assert rig.count("assay_spanless_traces_total") == 0


async def test_log_records_without_any_span_are_counted_and_make_no_turn(rig):
    """Nothing says of such a trace whether its spans were sampled out, so it would bias the rates:
    it is counted, and spans that come after it was closed are late."""
    await rig.send(LOGS)
    await rig.closed()
    assert await rig.turns() == []
    assert rig.count("assay_spanless_traces_total") == 1
    await rig.send(SPANS)
    async with asyncio.timeout(10):
        while not rig.count("assay_late_spans_total", signal="traces"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await rig.turns() == []
