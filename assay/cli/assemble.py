"""`assay assemble`: spans of the stream to turns."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from assay.cli.process import Process
from assay.config import Config
from collector.assembly import Assembler


@contextlib.asynccontextmanager
async def run(config: Config, listen: str | None) -> AsyncIterator[list[str]]:
    """A member of the assemblers' group, running; gives what is served."""
    async with Process(config, listen) as process:
        await process.add("assembler", Assembler(process.bus, config, process.registry))
        yield [f"metrics    http://{process.address}/metrics"]
