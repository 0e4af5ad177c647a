"""Waiting for what takes as long as the machine is busy: given up when nothing moves any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
STILL = 90.0
"""Seconds without any change after which waiting ends."""


async def settled(
    look: Callable[[], Awaitable[T]], done: Callable[[T], bool], *, every: float = 0.2
) -> T:
    """What `look` gives once it is `done`, or once it has not changed for STILL seconds: the
    caller's own check then shows what was missing."""
    seen = await look()
    since = time.monotonic()
    while not done(seen) and time.monotonic() - since < STILL:
        await asyncio.sleep(every)
        found = await look()
        if found != seen:
            seen, since = found, time.monotonic()
    return seen
