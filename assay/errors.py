"""Two kinds of failure, and the one loop that retries.

    AssayError
    ├── Retryable    a later attempt may succeed; carries the delay when one is known
    └── Permanent    no attempt will succeed
        └── ConfigError   settings are wrong: all faults, each with its key

Errors of libraries are mapped to these where they enter.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class AssayError(Exception):
    """Anything that Assay itself raises."""


class Retryable(AssayError):
    """Failed for now. `retry_after` is the delay in seconds that the other side asked for."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Permanent(AssayError):
    """Failed for good."""


class ConfigError(Permanent):
    """Settings are wrong. `faults` holds one line for each, beginning with its key."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = list(faults)


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    *,
    deadline: float,
    first_delay: float = 0.2,
    max_delay: float = 30.0,
    on_retry: Callable[[Retryable, float], None] | None = None,
) -> T:
    """Call `attempt` until it succeeds, fails permanently, or `deadline` seconds have passed.

    Waits between attempts grow twofold with full jitter, and are never shorter than a
    `retry_after`. When the next wait would cross the deadline the last error is raised.
    """
    ends = time.monotonic() + deadline
    delay = first_delay
    while True:
        try:
            return await attempt()
        except Retryable as error:
            wait = max(random.uniform(0, delay), error.retry_after or 0.0)
            if time.monotonic() + wait > ends:
                raise
            if on_retry is not None:
                on_retry(error, wait)
        await asyncio.sleep(wait)
        delay = min(delay * 2, max_delay)
