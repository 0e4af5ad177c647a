from __future__ import annotations

import asyncio
import base64
import random
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from debian_tools import self_signed
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from prometheus_client import CollectorRegistry

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import SPANS, topics
from assay.config import Config
from assay.errors import Permanent
from collector.intake import Intake
from collector.otlp_grpc import SERVICES, GrpcDoor

CASES = Path(__file__).parent / "data" / "cases"


class Running:
    """A door with its bus and a channel."""

    def __init__(self, door, bus, registry, channel):
        self.door, self.bus, self.registry, self.channel = door, bus, registry, channel
        self.export = TraceServiceStub(channel).Export

    def raw(self, signal="traces"):
        return self.channel.unary_unary(f"/{SERVICES[signal]}/Export")

    def requests(self, outcome: str, signal: str = "traces") -> float:
        labels = {"door": "grpc", "signal": signal, "outcome": outcome}
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

    @asynccontextmanager
    async def running(*, max_size=10**9, trust=None, **collector):
        bus = EmbeddedBus(tmp_path / "data", topics(), max_size=max_size)
        config = Config.model_validate({"collector": {"grpc": "127.0.0.1:0", **collector}})
        registry = CollectorRegistry()
        door = GrpcDoor(Intake(bus, config, registry), config)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(bus.stop)
            await bus.start()
            stack.push_async_callback(door.stop)
            await door.start()
            address = f"127.0.0.1:{door.port}"
            channel = (
                grpc.aio.secure_channel(address, trust)
                if trust
                else grpc.aio.insecure_channel(address)
            )
            yield Running(door, bus, registry, await stack.enter_async_context(channel))

    return running


def request_of(size: int = 0, **fields) -> ExportTraceServiceRequest:
    span = {"trace_id": b"t" * 16, "span_id": b"s" * 8, "name": "x" * size, **fields}
    return ExportTraceServiceRequest(resource_spans=[{"scope_spans": [{"spans": [span]}]}])


def details(error: grpc.aio.AioRpcError) -> Status:
    [value] = [v for k, v in error.trailing_metadata() if k == "grpc-status-details-bin"]
    return Status.FromString(value)


async def test_the_three_services_accept_their_requests(open_door):
    """Traces and logs go to the bus; metrics are answered with success."""
    async with open_door() as running:
        answer = await running.export(request_of())
        assert not answer.HasField("partial_success")
        record = {"trace_id": b"t" * 16, "event_name": "gen_ai.choice"}
        logs = ExportLogsServiceRequest(resource_logs=[{"scope_logs": [{"log_records": [record]}]}])
        await LogsServiceStub(running.channel).Export(logs)
        await MetricsServiceStub(running.channel).Export(ExportMetricsServiceRequest())
        records = [record async for record in running.bus.read(SPANS)]
        assert [dict(record.headers).get("signal") for record in records] == [None, "logs"]
        assert len({record.partition for record in records}) == 1
        for signal in SERVICES:
            assert running.requests("accepted", signal) == 1


async def test_one_bad_span_gives_partial_success(open_door):
    """OK with the count and a message; the other nine are stored."""
    async with open_door() as running:
        body = (CASES / "B05.otlp.pb").read_bytes()
        answer = await running.export(ExportTraceServiceRequest.FromString(body))
        assert answer.partial_success.rejected_spans == 1
        assert answer.partial_success.error_message == "1 invalid_trace_id"
        assert await running.spans() == 9


async def test_a_broken_message_is_invalid_argument(open_door):
    """Damaged messages are taken or refused as the sender's fault, and nothing else."""
    rng = random.Random(3)
    body = (CASES / "B05.otlp.pb").read_bytes()
    async with open_door() as running:
        for _ in range(80):
            damaged = bytearray(body)
            for _ in range(rng.randint(1, 8)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            try:
                await running.raw()(bytes(damaged))
            except grpc.aio.AioRpcError as error:
                assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
                assert details(error).code == 3
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await running.raw()(b"\x00\x01not protobuf")
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
async def test_a_message_above_the_limit_is_resource_exhausted(open_door, compression):
    """Refused without a delay, so that it is not sent again; counted; the limit is named."""
    limit = 1_000_000
    async with open_door(max_request=limit) as running:
        for size in (limit + 1, 10 * limit):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await running.export(request_of(size), compression=compression)
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            if size == limit + 1:
                assert f"{limit} bytes" in refused.value.details()
                assert not details(refused.value).details
        assert running.requests("too_large") == 2
        await running.export(request_of(limit - 1000), compression=compression)


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
async def test_a_5_mib_prompt_is_within_the_default_limit(open_door, compression):
    """LLM payloads above gRPC's usual 4 MiB are accepted, as on the other door."""
    async with open_door() as running:
        await running.export(request_of(5 * 2**20), compression=compression)
        assert await running.spans() == 1


async def test_a_full_bus_is_unavailable_with_a_delay(open_door):
    """Retryable, with RetryInfo in the status details."""
    async with open_door(max_size=1) as running:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await running.export(request_of())
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        info = RetryInfo()
        assert details(refused.value).details[0].Unpack(info)
        assert info.retry_delay.seconds >= 1
        assert running.requests("unavailable") == 1


async def test_only_senders_with_a_key_come_in(open_door):
    """Keys come as metadata in each of their places; without one nothing is read."""
    basic = base64.b64encode(b"pk-lf:secret-key").decode()
    async with open_door(api_keys=["secret-key"]) as running:
        for entry in (
            ("authorization", "Bearer secret-key"),
            ("x-api-key", "secret-key"),
            ("authorization", f"Basic {basic}"),
        ):
            await running.export(request_of(), metadata=(entry,))
        for metadata in ((), (("x-api-key", "secret-kez"),)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await running.export(request_of(), metadata=metadata)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert running.requests("unauthenticated") == 2
        assert await running.spans() == 3


async def test_a_taken_port_is_permanent(open_door, capfd):
    """The second door on an address says which address it cannot have."""
    async with open_door() as running:
        address = f"127.0.0.1:{running.door.port}"
        config = Config.model_validate({"collector": {"grpc": address}})
        second = GrpcDoor(Intake(running.bus, config, CollectorRegistry()), config)
        with pytest.raises(Permanent, match=address):
            await second.start()
        await second.stop()


async def test_stop_answers_what_is_open_and_takes_no_more(open_door):
    """A call that is under way is finished; a new one is refused; stop is safe twice."""
    async with open_door() as running:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slowly():
            begun.set()
            await go_on.wait()
            yield request_of().SerializeToString()

        # On the wire a stream of one message is the same as the message alone.
        method = f"/{SERVICES['traces']}/Export"
        call = running.channel.stream_unary(method)(slowly())
        await begun.wait()
        await asyncio.sleep(0.2)
        stopping = asyncio.create_task(running.door.stop())
        await asyncio.sleep(0.2)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{running.door.port}") as late:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await late.unary_unary(method)(b"", timeout=5)
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert not stopping.done()
        go_on.set()
        assert await call == b""
        await stopping
        await running.door.stop()
        assert await running.spans() == 1


async def test_stop_without_start_does_nothing(tmp_path):
    """A door that was never opened can be stopped."""
    bus = EmbeddedBus(tmp_path, topics())
    await GrpcDoor(Intake(bus, Config(), CollectorRegistry()), Config()).stop()


async def test_tls_is_spoken_when_configured(open_door, tmp_path):
    """A client that trusts the certificate is answered; one without TLS is not."""
    cert, key = await asyncio.to_thread(self_signed, tmp_path)
    trust = grpc.ssl_channel_credentials(cert.read_bytes())
    async with open_door(tls={"cert": str(cert), "key": str(key)}, trust=trust) as running:
        await running.export(request_of())
        async with grpc.aio.insecure_channel(f"127.0.0.1:{running.door.port}") as plain:
            with pytest.raises(grpc.aio.AioRpcError):
                await TraceServiceStub(plain).Export(request_of(), timeout=5)


async def test_an_unusable_certificate_is_permanent(tmp_path, open_door):
    """A missing or broken certificate stops the start and names the setting."""
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for path in (broken, tmp_path / "missing.pem"):
        with pytest.raises(Permanent, match="certificate"):
            async with open_door(tls={"cert": str(path), "key": str(path)}):
                pass


async def never():
    """A request that never comes."""
    await asyncio.sleep(60)
    yield b""


def begin(running):
    """A call whose request is still to come."""
    export = running.channel.stream_unary(f"/{SERVICES['traces']}/Export")
    return export(never())


async def test_a_request_that_does_not_come_is_told_so(open_door):
    """A call that sends nothing ends at its deadline."""
    async with open_door(upload_timeout=0.3) as running:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await begin(running)
        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert running.requests("timeout") == 1


async def test_more_uploads_than_allowed_are_unavailable(open_door):
    """Calls that wait for their request are bounded in number."""
    async with open_door(max_uploads=1) as running:
        waiting = begin(running)
        await asyncio.sleep(0.2)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await running.export(request_of())
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        waiting.cancel()


async def test_a_stop_does_not_wait_for_open_uploads(open_door):
    """Calls that wait for their request are told that the door closes."""
    async with open_door() as running:
        waiting = [begin(running) for _ in range(20)]
        await asyncio.sleep(0.2)
        began = time.monotonic()
        await running.door.stop()
        assert time.monotonic() - began < 3.0
        for call in waiting:
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
