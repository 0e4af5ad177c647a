"""`assay collect`: the doors, and topics that others write."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from assay.cli.process import Process, started
from assay.config import Config
from collector.foreign_topic import ForeignTopic
from collector.intake import Intake
from collector.otlp_grpc import GrpcDoor
from collector.otlp_http import HttpDoor


@contextlib.asynccontextmanager
async def run(
    config: Config, listen: str | None, from_kafka: Sequence[str]
) -> AsyncIterator[list[str]]:
    """The doors of the settings and an intake for each topic, running; gives what is served."""
    async with Process(config, listen, from_kafka) as process:
        intake = Intake(process.bus, config, process.registry)
        served = [f"metrics    http://{process.address}/metrics"]
        for topic in from_kafka:
            foreign = ForeignTopic(process.bus, intake, topic, process.registry)
            await process.add(foreign.name, foreign)
            served.append(f"topic      {topic}")
        collector = config.collector
        if collector.grpc is not None:
            grpc = await started(process.stack, GrpcDoor(intake, config))
            served.append(f"OTLP/gRPC  {collector.grpc.rpartition(':')[0]}:{grpc.port}")
        if collector.http is not None:
            http = await started(process.stack, HttpDoor(intake, config))
            scheme = "https" if collector.tls else "http"
            served.append(f"OTLP/HTTP  {scheme}://{collector.http.rpartition(':')[0]}:{http.port}")
        yield served
