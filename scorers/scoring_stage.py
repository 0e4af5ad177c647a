"""What all scorer groups share: work under way by partition, commits in any order, series.

A piece of work that ends with a fault was read and will not be committed: the next step raises
`Permanent`, so that the group is joined anew and its records are delivered again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Record
from assay.bus.dead_letter import dead_letter
from assay.errors import AssayError, Permanent, retrying
from assay.records import SCHEMA_VERSION
from assay.stage import Stage
from assay.telemetry import error_text

HEADERS = {"schema": str(SCHEMA_VERSION)}
"""Of every TurnScores on the bus."""


class ScoringStage(Stage):
    """A scorer group's member. A step begins with `_raise_lost`."""

    drain = 10.0
    """Seconds in which work under way is finished when a partition or the stage ends."""

    def __init__(
        self,
        bus: Bus,
        registry: CollectorRegistry,
        *,
        group: str,
        topics: Sequence[str],
        what: str,
        state_ttl: float | None = None,
    ) -> None:
        retries = series.shared(registry, series.SCORER_RETRIES).labels(group)
        super().__init__(bus, group, topics, what=what, retries=retries, state_ttl=state_ttl)
        self._turns = series.shared(registry, series.SCORED_TURNS).labels(group)
        self._dead_letters = series.shared(registry, series.SCORER_DEAD_LETTERS)
        series.shared(registry, series.SCORER_LAG).labels(group).set_function(self.lag)
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._lost: AssayError | None = None

    def _begin(
        self,
        partition: int,
        work: Coroutine[None, None, None],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """Do `work` on what was read from a partition; `ended` is called however it ends."""
        task = asyncio.create_task(work)
        self._under_way[task] = partition

        def done(task: asyncio.Task[None]) -> None:
            self._under_way.pop(task, None)
            ended()
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._lost = Permanent(f"work under way was lost: {error_text(error)}")

        task.add_done_callback(done)

    def _raise_lost(self) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost

    async def _committed(
        self, consumer: Consumer, partition: int, commit: Callable[[], Awaitable[None]]
    ) -> bool:
        """Commit, however long that takes. False when the partition has become another member's;
        raises `Permanent` when it is ours and no attempt will succeed."""
        try:
            await retrying(commit, deadline=math.inf, on_retry=self._retried)
        except Permanent:
            if partition in consumer.assignment():
                raise
            return False
        self._trouble.worked()
        return True

    def _refused(self, record: Record, reason: str) -> Outgoing:
        """The dead letter of a record that cannot be read, counted."""
        self._dead_letters.labels(self._group, reason).inc()
        return dead_letter(record, stage=self._group, reason=reason)

    async def _hand_over(self, consumer: Consumer) -> None:
        await self._drain(list(self._under_way))

    async def _revoked(self, partition: int) -> None:
        await self._drain([task for task, of in self._under_way.items() if of == partition])

    async def _drain(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Give work under way a little time, then cancel it: its records will be read again."""
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self.drain)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
