"""The stream on Kafka as a source of listings: nobody owns it, so the brokers are asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from assay import __version__
from assay.bus.kafka import KafkaBus
from assay.cli.source import Local
from assay.cli.wiring import open_bus, open_store
from assay.lookup import Lookup, ScoredTurn


class Brokers(Local):
    """What every process sees of the stream, and the store of the settings."""

    def tail(self, app: str | None) -> Iterator[ScoredTurn]:
        with asyncio.Runner() as runner:
            scored = self._tail(app)
            try:
                while True:
                    try:
                        yield runner.run(anext(scored))
                    except StopAsyncIteration:
                        return
            finally:
                runner.run(scored.aclose())

    async def _tail(self, app: str | None) -> AsyncGenerator[ScoredTurn, None]:
        bus = open_bus(self._config)
        await bus.start()
        try:
            async with aclosing(Lookup(bus, open_store(self._config)).tail(app)) as tail:
                async for scored in tail:
                    yield scored
        finally:
            await bus.stop()

    def status(self) -> dict[str, Any]:
        """Plain values: the topics with the lag of each group, and the groups' members."""
        return asyncio.run(self._status())

    async def _status(self) -> dict[str, Any]:
        bus = open_bus(self._config)
        assert isinstance(bus, KafkaBus)
        await bus.start()
        try:
            stats = await bus.topic_stats()
            groups = sorted({group for topic in stats.values() for group in topic.lag})
            members = await bus.members(groups)
        finally:
            await bus.stop()
        return {
            "version": __version__,
            "topics": [
                {"topic": name, "records": topic.records, "lag": topic.lag, "lost": topic.lost}
                for name, topic in stats.items()
            ],
            "groups": [
                {
                    "group": group,
                    "members": members[group],
                    "lag": sum(topic.lag.get(group, 0) for topic in stats.values()),
                }
                for group in groups
            ],
        }
