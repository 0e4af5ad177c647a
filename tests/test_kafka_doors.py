"""The doors while the brokers are away: senders are told to wait, and lose nothing."""

from __future__ import annotations

import asyncio
import random
import secrets

import grpc.aio
import httpx
import pytest
from kill_drill import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from patience import STILL, settled
from prometheus_client import CollectorRegistry

from assay.bus.kafka import KafkaBus
from assay.bus.topics import SPANS
from assay.cli.wiring import topics_of
from assay.config import Config
from assay.errors import retrying
from collector.intake import Intake
from collector.otlp_grpc import GrpcDoor
from collector.otlp_http import HttpDoor

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings(
        "ignore:unclosed:ResourceWarning",
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
    ),
]
PROTOBUF = {"content-type": "application/x-protobuf"}


async def test_doors_answer_with_a_delay_while_the_broker_is_away_and_recover(own_broker, refused):
    """HTTP 503 with Retry-After and gRPC UNAVAILABLE while it is away; once it is back both take
    the traces in, and each that was answered with success is on the stream."""
    config = Config.model_validate(
        {
            "bus": {"kafka": {"bootstrap": own_broker.bootstrap, "prefix": secrets.token_hex(4)}},
            "collector": {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
        }
    )
    bus = KafkaBus(config.bus.kafka, topics_of(config))
    intake = Intake(bus, config, CollectorRegistry())
    http, rpc = HttpDoor(intake, config), GrpcDoor(intake, config)
    for part in (bus, http, rpc):
        await part.start()
    taken: set[str] = set()
    rng = random.Random(1)
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{http.port}", timeout=60) as client,
        grpc.aio.insecure_channel(f"127.0.0.1:{rpc.port}") as channel,
    ):
        export = TraceServiceStub(channel).Export

        async def by_http() -> httpx.Response:
            trace_id, (body, *_) = trace(rng)
            answer = await client.post("/v1/traces", content=body, headers=PROTOBUF)
            if answer.is_success:
                taken.add(trace_id)
            return answer

        async def by_grpc() -> grpc.StatusCode:
            trace_id, (body, *_) = trace(rng)
            try:
                await export(ExportTraceServiceRequest.FromString(body))
            except grpc.aio.AioRpcError as error:
                return error.code()
            taken.add(trace_id)
            return grpc.StatusCode.OK

        async def well() -> tuple[bool, grpc.StatusCode]:
            return (await by_http()).is_success, await by_grpc()

        working = (True, grpc.StatusCode.OK)
        assert await well() == working
        own_broker.stop()
        told = await by_http()
        assert told.status_code == 503 and int(told.headers["retry-after"]) >= 1
        assert await by_grpc() == grpc.StatusCode.UNAVAILABLE
        await asyncio.to_thread(own_broker.start)
        assert await settled(well, lambda found: found == working, every=1.0) == working
    for part in (rpc, http):
        await part.stop()

    async def kept() -> set[str]:
        return {record.key.hex() async for record in bus.read(SPANS)}

    found = await retrying(kept, deadline=STILL)
    await bus.stop()
    assert taken <= found
