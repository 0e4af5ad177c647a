"""Requests whose bodies are still arriving: so many at a time, each with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assay.config import Collector
from assay.errors import Retryable
from collector.answers import Refused

GRACE = 0.5
"""Seconds that open uploads have to end at stop."""


class Uploads:
    """The open uploads of one door."""

    def __init__(self, settings: Collector) -> None:
        self._most = settings.max_uploads
        self._timeout = settings.upload_timeout
        self._open: set[asyncio.Timeout] = set()
        self._closing = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Receive one body within. Raises Refused at its deadline, and Retryable when there are too
        many, or the door closes."""
        if len(self._open) >= self._most:
            raise Retryable(f"{self._most} uploads are open, which is collector.max_uploads")
        try:
            async with asyncio.timeout(self._timeout) as deadline:
                self._open.add(deadline)
                try:
                    yield
                finally:
                    self._open.discard(deadline)
        except TimeoutError:
            if self._closing:
                raise Retryable("the door closes") from None
            raise Refused(
                "timeout",
                f"the request did not arrive within collector.upload_timeout, {self._timeout:g} s",
            ) from None

    def close(self) -> None:
        """Let none stay open for longer than `GRACE`."""
        self._closing = True
        ends = asyncio.get_running_loop().time() + GRACE
        for deadline in self._open:
            due = deadline.when()
            if due is None or due > ends:
                deadline.reschedule(ends)
