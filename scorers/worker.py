"""The consumer group of the computed and local metrics: turns in, one TurnScores per turn out.

Batches are of one partition and finish in any order. A batch's outputs and offsets are one commit,
so every turn gets exactly one TurnScores of the group, whatever dies in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Record
from assay.bus.dead_letter import dead_letter
from assay.bus.topics import SCORES, TURNS
from assay.errors import AssayError, Permanent, Retryable, retrying
from assay.health import Health, Heartbeat
from assay.records import SCHEMA_VERSION
from assay.telemetry import Trouble, error_text
from scorers.batch import Job, Refused
from scorers.plan import Plan
from scorers.pool import ScorerPool

BATCH_RECORDS = 64
BATCH_BYTES = 2 * 10**6
QUEUED = 2
"""Batches per process that are read ahead of it."""
POLL = 0.5
"""Seconds."""
GATHER = 0.1
"""Seconds to wait after a poll that brought less than a batch, so that batches are fewer and
fuller: each is a task of a process and a commit."""
FIRST_DELAY, MAX_DELAY = 0.2, 30.0
"""Seconds between attempts."""
DRAIN = 20.0
"""Seconds in which batches under way are finished when a partition or the worker ends."""

_HEADERS = {"schema": str(SCHEMA_VERSION)}


class Worker:
    """A member of the group. `start` once; `stop` is safe twice and without start."""

    def __init__(
        self,
        bus: Bus,
        plan: Plan,
        registry: CollectorRegistry,
        *,
        group: str = "local",
        run: str = "live",
        source: str = TURNS,
        target: str = SCORES,
        processes: int | None = None,
    ) -> None:
        self._bus = bus
        self._group = group
        self._source = source
        self._target = target
        self._count = _Counters(registry, group)
        job = Job(plan.part(lambda entry: not entry.waits), group, run)
        self._pool = ScorerPool(job, processes=processes, on_death=self._count.deaths.inc)
        self._consumer: Consumer | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._room = asyncio.Semaphore(QUEUED * self._pool.processes)
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._committing = asyncio.Lock()
        self._lost: AssayError | None = None
        self._log = logging.getLogger(__name__)
        self._trouble = Trouble(self._log, f"scoring ({group})")
        self._heartbeat = Heartbeat(self.lag)
        self._count.lag.set_function(self.lag)

    async def start(self) -> None:
        """Start the processes and join the group."""
        self._pool.start()
        await self._join()
        self._task = asyncio.create_task(self._loop(), name=f"scorers {self._group}")

    async def stop(self) -> None:
        """Read no more, finish what is under way, leave the group, end the processes."""
        self._stopping.set()
        task, self._task = self._task, None
        if task is not None:
            await task
        await self._leave()
        await self._pool.stop()

    def lag(self) -> int:
        """Turns that this member has not finished."""
        return self._consumer.lag() if self._consumer is not None else 0

    def health(self) -> Health:
        return self._heartbeat.health()

    async def _loop(self) -> None:
        delay = FIRST_DELAY
        while not self._stopping.is_set():
            try:
                await self._step()
                delay = FIRST_DELAY
                continue
            except Retryable as error:
                self._failed(error)
                wait = max(delay, error.retry_after or 0.0)
            except Permanent as error:
                self._failed(error)
                await self._leave()
                wait = delay
            except Exception as error:  # noqa: BLE001 - a fault in our code must not end the stage
                self._log.exception("scoring met a fault of its own and starts over")
                self._failed(error)
                await self._leave()
                wait = delay
            delay = min(delay * 2, MAX_DELAY)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)

    async def _step(self) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost
        consumer = self._consumer or await self._join()
        async with self._room:
            records = await consumer.poll(
                max_records=BATCH_RECORDS * self._pool.processes, timeout=POLL
            )
        self._heartbeat.turned()
        if not records and not self._under_way:
            self._heartbeat.finished()
        for batch in batches(records):
            await self._room.acquire()
            task = asyncio.create_task(self._finish(consumer, batch))
            self._under_way[task] = batch[0].partition
            task.add_done_callback(self._ended)
        if 0 < len(records) < BATCH_RECORDS:
            await asyncio.sleep(GATHER)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        self._room.release()
        if not task.cancelled() and task.exception() is not None:
            self._lost = Permanent(f"a batch was lost: {error_text(task.exception())}")  # type: ignore[arg-type]

    async def _finish(self, consumer: Consumer, batch: Sequence[Record]) -> None:
        """Score a batch and commit it. A batch whose partition is gone is another member's."""
        outputs = await self._outputs(batch)

        async def commit() -> None:
            async with self._committing:
                await consumer.commit(outputs=outputs, done=batch)

        try:
            await retrying(commit, deadline=math.inf, on_retry=self._retried)
        except Permanent:
            if batch[0].partition in consumer.assignment():
                raise
            return
        self._count.turns.inc(len(batch))
        self._trouble.worked()
        self._heartbeat.finished()

    async def _outputs(self, batch: Sequence[Record]) -> list[Outgoing]:
        known = [record for record in batch if not later_schema(record)]
        found = iter(await self._pool.score([record.value for record in known]) if known else ())
        outputs: list[Outgoing] = []
        for record in batch:
            result = Refused("schema") if later_schema(record) else next(found)
            if isinstance(result, Refused):
                self._count.dead_letters.labels(self._group, result.reason).inc()
                outputs.append(dead_letter(record, stage=self._group, reason=result.reason))
            else:
                outputs.append(Outgoing(self._target, result, key=record.key, headers=_HEADERS))
        return outputs

    async def _join(self) -> Consumer:
        consumer = self._bus.consumer(self._group, (self._source,), on_revoked=self._revoked)
        self._consumer = consumer
        await consumer.start()
        return consumer

    async def _leave(self) -> None:
        await self._drain(list(self._under_way))
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def _revoked(self, partition: int) -> None:
        await self._drain([task for task, of in self._under_way.items() if of == partition])

    async def _drain(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for the batches; those that take too long are dropped and will be read again."""
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=DRAIN)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _retried(self, error: Retryable, wait: float) -> None:
        del wait
        self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._count.retries.inc()
        self._trouble.failed(error)
        self._heartbeat.failed(error_text(error))


class _Counters:
    """The worker's series."""

    def __init__(self, registry: CollectorRegistry, group: str) -> None:
        self.turns = series.shared(registry, series.SCORED_TURNS).labels(group)
        self.deaths = series.shared(registry, series.SCORER_DEATHS).labels(group)
        self.retries = series.shared(registry, series.SCORER_RETRIES).labels(group)
        self.lag = series.shared(registry, series.SCORER_LAG).labels(group)
        self.dead_letters = series.shared(registry, series.SCORER_DEAD_LETTERS)


def batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records in batches of one partition, each bounded in number and bytes, in order."""
    by_partition: dict[int, list[Record]] = {}
    for record in records:
        by_partition.setdefault(record.partition, []).append(record)
    for own in by_partition.values():
        batch: list[Record] = []
        size = 0
        for record in own:
            if batch and (len(batch) == BATCH_RECORDS or size + len(record.value) > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(record)
            size += len(record.value)
        yield batch


def later_schema(record: Record) -> bool:
    """The record was written by a later version whose meaning is not known here."""
    text = record.headers.get("schema", "")
    return text.isascii() and text.isdigit() and int(text) > SCHEMA_VERSION
