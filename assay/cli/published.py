"""The turns that the stream holds, as a source for a backfill."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from assay.bus.topics import TURNS
from assay.cli.wiring import open_bus
from assay.config import Config
from assay.records import Turn
from scorers import batch

CLOCKS_APART = 3600 * 10**9
"""Nanoseconds by which an app's clock may be ahead of the brokers', by whose time it is read."""


def published(config: Config, since: int) -> Iterator[Turn]:
    """The turns that the stream holds of those that ended at `since` (nanoseconds; 0: all that it
    keeps) or later, and some before. What is no turn is left out and told."""
    unreadable = 0
    with asyncio.Runner() as runner:
        values = _values(config, max(0, since - CLOCKS_APART) // 10**6)
        try:
            while (value := runner.run(anext(values, None))) is not None:
                turn = batch.read(value)
                if turn is None:
                    unreadable += 1
                else:
                    yield turn
        finally:
            runner.run(values.aclose())
    if unreadable:
        print(f"left out: {unreadable:,} records that hold no turn", file=sys.stderr)


async def _values(config: Config, since_ms: int) -> AsyncGenerator[bytes, None]:
    bus = open_bus(config)
    await bus.start()
    try:
        async with aclosing(bus.read(TURNS, since=since_ms or None)) as records:
            async for record in records:
                yield record.value
    finally:
        await bus.stop()
