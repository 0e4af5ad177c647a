from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
import ssl
import time
import zlib
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from debian_tools import self_signed
from google.protobuf.json_format import Parse
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from prometheus_client import CollectorRegistry

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import SPANS, topics
from assay.config import Config
from assay.errors import Permanent
from collector.intake import Intake
from collector.otlp_http import PATHS, HttpDoor

CASES = Path(__file__).parent / "data" / "cases"
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}


class Running:
    """A door with its bus and a client."""

    def __init__(self, door, bus, registry, client):
        self.door, self.bus, self.registry, self.client = door, bus, registry, client

    async def post(self, content, headers=PROTOBUF, path="/v1/traces"):
        return await self.client.post(path, content=content, headers=headers)

    def requests(self, outcome: str, signal: str = "traces") -> float:
        labels = {"door": "http", "signal": signal, "outcome": outcome}
        return self.registry.get_sample_value("assay_requests_total", labels) or 0.0

    async def spans(self) -> int:
        return sum(
            len(scope.spans)
            for record in [record async for record in self.bus.read(SPANS)]
            for group in ExportTraceServiceRequest.FromString(record.value).resource_spans
            for scope in group.scope_spans
        )


@pytest.fixture
async def open_door(tmp_path):
    """Opens a door with these settings of the collector."""
    opened = []

    @asynccontextmanager
    async def running(*, max_size=10**9, verify=True, **collector):
        bus = EmbeddedBus(tmp_path / f"{len(opened)}", topics(), max_size=max_size)
        config = Config.model_validate({"collector": {"http": "127.0.0.1:0", **collector}})
        registry = CollectorRegistry()
        door = HttpDoor(Intake(bus, config, registry), config)
        opened.append(door)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(bus.stop)
            await bus.start()
            stack.push_async_callback(door.stop)
            await door.start()
            scheme = "https" if "tls" in collector else "http"
            url = f"{scheme}://127.0.0.1:{door.port}"
            client = httpx.AsyncClient(base_url=url, verify=verify)
            yield Running(door, bus, registry, await stack.enter_async_context(client))

    return running


def request_of(count: int = 1) -> bytes:
    rng = random.Random(count)
    spans = [{"trace_id": rng.randbytes(16), "span_id": rng.randbytes(8)} for _ in range(count)]
    return ExportTraceServiceRequest(
        resource_spans=[{"scope_spans": [{"spans": spans}]}]
    ).SerializeToString()


async def test_the_answer_has_the_requests_own_type_in_success_and_error(open_door):
    """Status, content type and body of good and bad requests in both encodings."""
    async with open_door() as running:
        for case in json.loads((CASES / "B07.http.json").read_text())["requests"]:
            named = case.get("body_file")
            body = (CASES / named).read_bytes() if named else case["body_text"].encode()
            answer = await running.post(body, case["headers"])
            assert answer.status_code == case["expect_status"]
            assert answer.headers["content-type"] == case["expect_response_type"]
            kind = Status if answer.status_code == 400 else ExportTraceServiceResponse
            if case["expect_response_type"] == "application/json":
                message = Parse(answer.content, kind())
            else:
                message = kind.FromString(answer.content)
            if answer.status_code == 400:
                assert message.code == 3
                assert message.message
            else:
                assert not message.HasField("partial_success")
        assert (running.requests("accepted"), running.requests("malformed")) == (2, 2)


async def test_one_bad_span_gives_partial_success_in_both_encodings(open_door):
    """200 with the count and a message; the other nine of each request are stored."""
    async with open_door() as running:
        answer = await running.post((CASES / "B05.otlp.json").read_bytes(), JSON)
        assert answer.status_code == 200
        assert answer.json() == {
            "partialSuccess": {"rejectedSpans": "1", "errorMessage": "1 invalid_trace_id"}
        }
        answer = await running.post((CASES / "B05.otlp.pb").read_bytes())
        partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
        assert (partial.rejected_spans, partial.error_message) == (1, "1 invalid_trace_id")
        assert await running.spans() == 18
        assert running.requests("partial") == 2


async def test_every_path_takes_its_signal(open_door):
    """Traces, logs, metrics and the path of Langfuse's SDKs; only by POST."""
    async with open_door() as running:
        for path, signal in PATHS.items():
            before = running.requests("accepted", signal)
            assert (await running.post(b"", path=path)).status_code == 200
            assert running.requests("accepted", signal) == before + 1
            assert (await running.client.get(path)).status_code == 405
        assert (await running.post(b"", path="/v1/profiles")).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "Application/X-Protobuf; charset=utf-8"},
        PROTOBUF | {"content-encoding": "identity"},
        PROTOBUF | {"content-encoding": "gzip"},
        PROTOBUF | {"content-encoding": "GZIP"},
        PROTOBUF | {"content-encoding": "deflate"},
    ],
)
async def test_content_types_with_parameters_and_encodings_are_taken(open_door, headers):
    """The same span arrives however it is labelled and packed."""
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}
    async with open_door() as running:
        encoding = headers.get("content-encoding", "").lower()
        answer = await running.post(pack.get(encoding, bytes)(request_of()), headers)
        assert answer.status_code == 200
        assert await running.spans() == 1


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({}, "application/json"),
        ({"content-type": "text/plain"}, "application/json"),
        (PROTOBUF | {"content-encoding": "br"}, "application/x-protobuf"),
        (JSON | {"content-encoding": "zstd"}, "application/json"),
    ],
)
async def test_other_types_and_encodings_are_415(open_door, headers, kind):
    """What we cannot read is refused as unsupported, and says what we can read."""
    async with open_door() as running:
        answer = await running.post(request_of(), headers)
        assert answer.status_code == 415
        assert answer.headers["content-type"] == kind
        assert b"must be" in answer.content
        assert running.requests("unsupported") == 1


async def test_a_request_above_the_limit_is_413_and_names_it(open_door):
    """Told by its length, found while it comes in, or found while it is unpacked."""
    limit = 1_000_000

    async def pieces():
        for _ in range(30):
            yield bytes(100_000)

    async with open_door(max_request=limit) as running:
        packed = PROTOBUF | {"content-encoding": "gzip"}
        for content, headers in (
            (bytes(limit + 1), PROTOBUF),
            (pieces(), PROTOBUF),
            (gzip.compress(bytes(200 * limit)), packed),
        ):
            answer = await running.post(content, headers)
            assert answer.status_code == 413
            assert f"{limit} bytes" in Status.FromString(answer.content).message
        assert running.requests("too_large") == 3
        assert (await running.post(request_of())).status_code == 200


async def test_a_5_mib_prompt_is_within_the_default_limit(open_door):
    """LLM payloads above the usual 4 MiB are accepted."""
    span = {"trace_id": b"t" * 16, "span_id": b"s" * 8, "name": "x" * 5 * 2**20}
    body = ExportTraceServiceRequest(
        resource_spans=[{"scope_spans": [{"spans": [span]}]}]
    ).SerializeToString()
    async with open_door() as running:
        assert (await running.post(body)).status_code == 200
        packed = PROTOBUF | {"content-encoding": "gzip"}
        assert (await running.post(gzip.compress(body), packed)).status_code == 200
        assert await running.spans() == 2


async def test_a_full_bus_is_503_with_a_delay(open_door):
    """Retryable, with Retry-After and the same delay in the status; never 500."""
    async with open_door(max_size=1) as running:
        for headers, body in (
            (PROTOBUF, request_of()),
            (JSON, (CASES / "B03.otlp.json").read_bytes()),
        ):
            answer = await running.post(body, headers)
            assert answer.status_code == 503
            delay = int(answer.headers["retry-after"])
            assert delay >= 1
            status = (
                Status.FromString(answer.content)
                if headers is PROTOBUF
                else Parse(answer.content, Status())
            )
            info = RetryInfo()
            assert status.details[0].Unpack(info)
            assert (status.code, info.retry_delay.seconds) == (14, delay)
        await running.bus.stop()
        assert (await running.post(request_of())).status_code == 503
        assert running.requests("unavailable") == 3


async def test_only_senders_with_a_key_come_in(open_door):
    """Bearer, x-api-key or the password of Basic; everything else is 401, on every path."""
    basic = base64.b64encode(b"pk-lf:secret-key").decode()
    async with open_door(api_keys=["other-key", "secret-key"]) as running:
        for header in (
            {"authorization": "Bearer secret-key"},
            {"x-api-key": "other-key"},
            {"authorization": f"Basic {basic}"},
        ):
            assert (await running.post(request_of(), PROTOBUF | header)).status_code == 200
        for path, signal in PATHS.items():
            answer = await running.post(request_of(), PROTOBUF, path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert Status.FromString(answer.content).code == 16
            assert running.requests("unauthenticated", signal)
        wrong = await running.post(request_of(), PROTOBUF | {"authorization": "Bearer secret-kez"})
        assert wrong.status_code == 401
        assert b"secret" not in wrong.content


async def test_no_body_is_answered_with_500(open_door):
    """Damaged and random bodies in both encodings are taken or refused as the sender's fault."""
    rng = random.Random(5)
    sound = {
        "application/json": (CASES / "B12.otlp.json").read_bytes(),
        "application/x-protobuf": request_of(20),
    }
    async with open_door() as running:
        for kind, body in sound.items():
            for _ in range(60):
                damaged = bytearray(body)
                for _ in range(rng.randint(1, 6)):
                    damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                answer = await running.post(bytes(damaged), {"content-type": kind})
                assert answer.status_code in (200, 400)
            answer = await running.post(rng.randbytes(300), {"content-type": kind})
            assert answer.status_code == 400


async def test_a_taken_port_is_permanent(open_door):
    """The second door on an address says which address it cannot have."""
    async with open_door() as running:
        address = f"127.0.0.1:{running.door.port}"
        config = Config.model_validate({"collector": {"http": address}})
        second = HttpDoor(Intake(running.bus, config, CollectorRegistry()), config)
        with pytest.raises(Permanent, match=address):
            await second.start()
        await second.stop()


async def test_stop_answers_what_is_open_and_takes_no_more(open_door):
    """A request that is under way is finished; a new connection is refused; stop is safe twice."""
    body = request_of()
    async with open_door() as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.door.port)
        writer.write(
            b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"
            b"content-length: %d\r\n\r\n" % len(body)
        )
        writer.write(body[:5])
        await writer.drain()
        await asyncio.sleep(0.2)
        stopping = asyncio.create_task(running.door.stop())
        await asyncio.sleep(0.05)
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", running.door.port)
        assert not stopping.done()
        writer.write(body[5:])
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await stopping
        writer.close()
        await running.door.stop()
        assert await running.spans() == 1


HALF = (
    b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"
    b"content-length: 1000\r\n\r\n12345"
)


async def half_sent(door, count=1, sent=HALF):
    """Connections that have sent a part of a request."""
    opened = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(count)]
    for _, writer in opened:
        writer.write(sent)
        await writer.drain()
    await asyncio.sleep(0.2)
    return opened


async def answer(opened):
    """All that the door says on a connection until it closes it."""
    reader, writer = opened
    said = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return said


async def test_a_body_that_does_not_come_is_408_and_holds_nobody_up(open_door):
    """Half-sent uploads are answered at their deadline, and other requests meanwhile."""
    async with open_door(upload_timeout=0.6) as running:
        waiting = await half_sent(running.door, 50)
        assert (await running.post(request_of())).status_code == 200
        for opened in waiting:
            said = await answer(opened)
            assert said.startswith(b"HTTP/1.1 408")
            assert b"collector.upload_timeout" in said
        assert running.requests("timeout") == 50


async def test_a_body_that_trickles_has_the_same_deadline(open_door):
    """Bytes that come now and then do not put the deadline off."""
    async with open_door(upload_timeout=1.0) as running:
        (opened,) = await half_sent(running.door)
        began = time.monotonic()
        # It ends before the answer: a byte that meets a closed connection would undo the answer.
        for _ in range(8):
            opened[1].write(b"1")
            await asyncio.sleep(0.1)
        assert (await answer(opened)).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - began < 1.7


@pytest.mark.parametrize("sent", [b"", b"POST /v1/tra", b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n"])
async def test_a_connection_that_sends_no_request_is_closed(open_door, monkeypatch, sent):
    """Neither silence nor half of the headers keeps a connection open."""
    monkeypatch.setattr("collector.otlp_http.ANSWER_WITHIN", 0.1)
    async with open_door(upload_timeout=0.3) as running:
        (opened,) = await half_sent(running.door, sent=sent)
        assert await answer(opened) == b""


async def test_more_uploads_than_allowed_are_503_with_a_delay(open_door):
    """Open uploads are bounded in number; when they have ended the next ones are taken."""
    async with open_door(max_uploads=2, upload_timeout=0.8) as running:
        waiting = await half_sent(running.door, 2)
        refused = await running.post(request_of())
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        for opened in waiting:
            await answer(opened)
        assert (await running.post(request_of())).status_code == 200


async def test_a_stop_does_not_wait_for_open_uploads(open_door, caplog):
    """Uploads that do not end soon are answered 503, and the stop is quick and quiet."""
    async with open_door() as running:
        waiting = await half_sent(running.door, 100)
        began = time.monotonic()
        await running.door.stop()
        assert time.monotonic() - began < 3.0
        for opened in waiting:
            assert (await answer(opened)).startswith(b"HTTP/1.1 503")
    assert not [line for line in caplog.records if line.levelname in ("ERROR", "WARNING")]


async def test_stop_without_start_does_nothing(tmp_path):
    """A door that was never opened can be stopped."""
    bus = EmbeddedBus(tmp_path, topics())
    await HttpDoor(Intake(bus, Config(), CollectorRegistry()), Config()).stop()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    cert, key = self_signed(tmp_path_factory.mktemp("tls"))
    return {"cert": str(cert), "key": str(key)}


async def test_tls_is_spoken_when_configured(open_door, certificate):
    """A client that trusts the certificate is answered; one without TLS is not."""
    trust = ssl.create_default_context(cafile=certificate["cert"])
    async with open_door(tls=certificate, verify=trust) as running:
        assert (await running.post(request_of())).status_code == 200
        with pytest.raises(httpx.HTTPError):
            await running.client.post(
                f"http://127.0.0.1:{running.door.port}/v1/traces", content=b""
            )


async def test_an_unusable_certificate_is_permanent(tmp_path, open_door):
    """A missing or broken certificate stops the start and names the setting."""
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for path in (broken, tmp_path / "missing.pem"):
        with pytest.raises(Permanent, match="certificate"):
            async with open_door(tls={"cert": str(path), "key": str(path)}):
                pass


async def test_the_official_exporter_is_understood(open_door):
    """Spans of the OpenTelemetry SDK arrive through its own OTLP/HTTP exporter."""
    async with open_door(api_keys=["secret-key"]) as running:
        exporter = OTLPSpanExporter(
            endpoint=f"http://127.0.0.1:{running.door.port}/v1/traces",
            headers={"x-api-key": "secret-key"},
        )
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("app")
        await asyncio.to_thread(lambda: tracer.start_span("chat").end())
        await asyncio.to_thread(provider.shutdown)
        assert await running.spans() == 1
