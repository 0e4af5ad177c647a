"""What every long-running command does alike: start its parts in order, serve `/metrics` and
`/health`, run until it is told to stop, and stop the parts the other way round."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol, TypeVar

import uvloop
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from assay import __version__
from assay.bus.contract import Bus
from assay.cli.status import Status
from assay.cli.wiring import open_bus
from assay.config import Config
from assay.errors import ConfigError
from assay.health import Check, Health
from assay.serving import HttpServer
from assay.telemetry import configure_logging, process_registry
from exporters.prometheus import router

log = logging.getLogger(__name__)

COLLECT_AFTER = (20_000, 20, 20)
"""Objects made and not freed before the youngest are looked at, and how often before older ones."""


class Part(Protocol):
    """Something that runs. `stop` is safe twice and without `start`."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Stage(Part, Protocol):
    """A part that tells whether it moves on."""

    def health(self) -> Health: ...


P = TypeVar("P", bound=Part)
S = TypeVar("S", bound=Stage)
T = TypeVar("T")


async def started(stack: AsyncExitStack, part: P) -> P:
    """`part`, started; the stack stops it."""
    stack.push_async_callback(part.stop)
    await part.start()
    return part


def run_until_signalled(
    running: AbstractAsyncContextManager[T], greet: Callable[[T], None], *, verbose: bool
) -> None:
    """Run until SIGINT or SIGTERM; a second one ends the process at once."""
    configure_logging(verbose=verbose)
    uvloop.run(_until_signalled(running, greet))


async def _until_signalled(
    running: AbstractAsyncContextManager[T], greet: Callable[[T], None]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_once(number: int) -> None:
        loop.remove_signal_handler(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_once, number)
    async with running as what:
        _quiet_collector()
        greet(what)
        await stop.wait()
        log.info("stopping: nothing more is taken in, and what came in is finished")
    log.info("stopped")


def _quiet_collector() -> None:
    """Let the garbage collector look less often, and not at what the start left.

    Open traces are many objects that live for seconds: as it comes, it would walk over all of them
    several times a second, and find nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def health_app(config: Config, registry: CollectorRegistry, checks: Mapping[str, Check]) -> FastAPI:
    """`/metrics` and `/health` over the registry and the stages' checks."""
    bearer = config.exporters.prometheus.bearer
    app = FastAPI(title="Assay", version=__version__, docs_url=None, redoc_url=None)
    key = bearer.get_secret_value() if bearer is not None else None
    app.include_router(router(registry, checks, bearer=key))
    return app


class Process:
    """One stage's process over a stream that others share: `async with` it, then add stages."""

    def __init__(self, config: Config, listen: str | None, foreign: Collection[str] = ()) -> None:
        """`listen` is where `/metrics` and `/health` are, in place of the settings' address;
        `foreign` are topics of others that are read.

        Raises ConfigError without a stream that several processes can share."""
        if config.bus.kafka is None:
            raise ConfigError(
                ["bus.kafka: it is required to run stages apart; `assay up` runs all of them"]
            )
        self.config = config
        self.registry = process_registry()
        self.bus: Bus = open_bus(config, foreign)
        self.checks: dict[str, Check] = {}
        self.stack = AsyncExitStack()
        self.address = ""
        self._listen = listen or config.exporters.prometheus.listen

    async def __aenter__(self) -> Process:
        try:
            await started(self.stack, self.bus)
            status = Status(self.bus, self.registry, self.checks, {})
            await started(self.stack, status)
            self.app = health_app(self.config, self.registry, self.checks)
            server = HttpServer(self.app, self._listen, "exporters.prometheus.listen")
            self.address = (await started(self.stack, server)).address
        except BaseException:
            await self.stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    async def add(self, name: str, stage: S) -> S:
        """`stage`, started and asked for its health under `name`. Until it is started `/health`
        answers that it is not."""
        self.checks[name] = lambda: Health(ok=False, detail="it is starting")
        await started(self.stack, stage)
        self.checks[name] = stage.health
        return stage
