"""Every part of the process starts and stops alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from assay.bus.embedded import EmbeddedBus
from assay.cli.process import Part
from assay.cli.status import Status
from assay.cli.up import configured_by
from assay.cli.wiring import open_bus
from assay.config import Config
from assay.serving import HttpServer
from assay.store import Store
from collector.assembly import Assembler
from collector.intake import Intake
from collector.otlp_grpc import GrpcDoor
from collector.otlp_http import HttpDoor
from exporters.combiner import Combiner
from exporters.owner import Owner
from exporters.stage import StageSeries
from exporters.store_sink import StoreSink
from scorers.registry import resolve
from scorers.worker import Worker

Build = Callable[[EmbeddedBus, Config, CollectorRegistry], Part]


def owner(bus: EmbeddedBus, config: Config, registry: CollectorRegistry) -> Part:
    return Owner(bus, StageSeries(registry), registry, configured=configured_by(resolve(config)))


def store_sink(bus: EmbeddedBus, config: Config, registry: CollectorRegistry) -> Part:
    store = Store(str(config.data_dir / "store"))
    return StoreSink(bus, StageSeries(registry), registry, store)


PARTS: dict[str, Build] = {
    "http door": lambda bus, config, registry: HttpDoor(Intake(bus, config, registry), config),
    "grpc door": lambda bus, config, registry: GrpcDoor(Intake(bus, config, registry), config),
    "assembler": Assembler,
    "worker": lambda bus, config, registry: Worker(bus, resolve(config), registry, processes=1),
    "combiner": lambda bus, _, registry: Combiner(bus, StageSeries(registry), registry),
    "owner": owner,
    "store sink": store_sink,
    "status": lambda bus, _, registry: Status(bus, registry, {}, {}),
    "server": lambda *_: HttpServer(FastAPI(), "127.0.0.1:0", "listen"),
    "bus": lambda _, config, __: open_bus(
        config.model_copy(update={"data_dir": config.data_dir / "second"})
    ),
}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config.model_validate(
        {
            "data_dir": tmp_path / "data",
            "collector": {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
            "metrics": ["latency_seconds"],
        }
    )


@pytest.fixture
async def bus(config: Config) -> AsyncIterator[EmbeddedBus]:
    bus = open_bus(config)
    await bus.start()
    yield bus
    await bus.stop()


@pytest.mark.parametrize("build", PARTS.values(), ids=PARTS)
async def test_stop_is_safe_without_start_and_twice(
    build: Build, bus: EmbeddedBus, config: Config
) -> None:
    """A part that never started stops, and so does one that was stopped before."""
    part = build(bus, config, CollectorRegistry())
    await part.stop()
    await part.stop()


@pytest.mark.parametrize("build", PARTS.values(), ids=PARTS)
async def test_a_stop_leaves_no_task_behind(build: Build, bus: EmbeddedBus, config: Config) -> None:
    """After start and stop, at once or after a while, no task of the part is left."""
    before = asyncio.all_tasks()
    part = build(bus, config, CollectorRegistry())
    await part.start()
    await asyncio.sleep(0.05)
    await part.stop()
    await part.stop()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before
