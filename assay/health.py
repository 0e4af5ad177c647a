"""Whether a stage moves on: what `/health` tells of it.

A process that merely lives is not healthy. A stage is healthy when its loop turned lately and,
while records wait for it, some of them were finished lately.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

STALE_AFTER = 30.0
"""Seconds without a turn of the loop."""
STUCK_AFTER = 90.0
"""Seconds with records waiting and none finished; longer than any back-off between attempts."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one stage at one moment."""

    ok: bool
    detail: str = ""
    """Why not, or what is being tried again, in words; no content and no secret."""
    lag: int = 0
    """Records that wait."""
    idle_seconds: float = 0.0
    """Since a record was last finished, or since the start."""


Check = Callable[[], Health]


class Heartbeat:
    """Kept by a stage's loop; `health` reads it."""

    def __init__(self, lag: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._lag = lag
        self._clock = clock
        self._turned = self._finished = clock()
        self._trouble = ""

    def turned(self) -> None:
        """The loop went round."""
        self._turned = self._clock()

    def finished(self) -> None:
        """Records were finished, or none were waiting."""
        self._finished = self._turned = self._clock()
        self._trouble = ""

    def failed(self, text: str) -> None:
        """An attempt failed; it will be made again."""
        self._turned = self._clock()
        self._trouble = text

    def health(self) -> Health:
        now = self._clock()
        lag, idle = self._lag(), now - self._finished
        detail = ""
        if now - self._turned > STALE_AFTER:
            detail = f"no turn of the loop for {now - self._turned:.0f} s"
        elif lag and idle > STUCK_AFTER:
            detail = f"{lag} records wait and none was finished for {idle:.0f} s"
        ok = not detail
        if self._trouble:
            detail = f"{detail or 'tries again'}: {self._trouble}"
        return Health(ok=ok, detail=detail, lag=lag, idle_seconds=round(idle, 1))
