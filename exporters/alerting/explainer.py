"""Says of an alert that begins which slices of the traffic made the rate move."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from assay.errors import AssayError
from exporters.alerting.lifecycle import State
from exporters.attribution import DIMENSIONS, Count, Split, explanation, query, split

Ask = Callable[[str], Awaitable[list[dict[str, Any]]]]
LOOK_BACK = 86400.0
"""Seconds of what was before."""
LEAD = 900.0
"""Seconds for which a move may have gone on before its alert."""
TIMEOUT = 60.0

log = logging.getLogger(__name__)


def period_of(since: float) -> tuple[float, float]:
    """(begin of what was before, begin of the move) of an alert that holds since then."""
    return since - LEAD - LOOK_BACK, since - LEAD


def splits_of(rows: Mapping[str, list[dict[str, Any]]]) -> list[Split]:
    """The splits that the store's answers, by dimension, give."""
    found = (
        split(dimension, [Count(**row) for row in answer]) for dimension, answer in rows.items()
    )
    return [one for one in found if one is not None]


class Explainer:
    """Asks the store in the background; an answer becomes the alert's annotation `explanation`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, alert: State) -> None:
        """To be called in the event loop with an alert that began to fire."""
        if alert.labels["cause"] in ("objective", "regression"):
            task = asyncio.create_task(self._explain(alert), name="explain")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def start(self) -> None:
        """Nothing runs before the first alert."""

    async def stop(self) -> None:
        """Safe twice and without start."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _explain(self, alert: State) -> None:
        before, since = period_of(alert.since)
        try:
            async with asyncio.timeout(TIMEOUT):
                rows = {
                    dimension: await self._ask(
                        query(dimension, alert.labels, since=since, before=before)
                    )
                    for dimension in DIMENSIONS
                }
        except (AssayError, TimeoutError) as error:
            log.warning("an alert is not explained", extra={"error": type(error).__name__})
            return
        if text := explanation(splits_of(rows)):
            alert.annotations = alert.annotations | {"explanation": text}
