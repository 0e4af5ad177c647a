"""The assembler: spans and log records from the stream, turns back onto it.

A record of `assay.spans` is done when every trace that needs it is closed. Turns, the memory of the
traces that they came from, the tallies and what is done are committed together, so that a restarted
assembler reads again exactly the traces that were open, and publishes none twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Position, StateChange
from assay.bus.topics import ROLLUPS, SPANS
from assay.config import Config
from assay.errors import AssayError, Permanent, Retryable, retrying
from assay.health import Health, Heartbeat
from assay.records import SCHEMA_VERSION, RollupBatch, Tally, encode
from assay.telemetry import Trouble, error_text
from collector import dialects
from collector.finishing import Finisher, Read
from collector.open_traces import Ending, OpenTrace
from collector.partition import Counters, Partition
from collector.redaction import Redactor, pseudonym_key
from collector.remote_parents import RemoteParents
from collector.tail_sampling import TailSampling

GROUP = "assembler"

COMMIT_AFTER = 0.1
"""Seconds that finished work waits for more to be committed with."""
COMMIT_BYTES = 8 * 2**20
MAX_RECORDS = 64
TICK = 0.2
"""Longest time between two looks at the clock, seconds."""
THREAD_ABOVE = 200
"""Spans of a trace whose reading would hold the event loop for too long."""
HOLD = 0.005
"""Longest time for which the event loop is held, seconds."""
GIVE_AWAY = 5.0
"""Seconds within which finished work is committed before a partition is given away."""
FIRST_DELAY, MAX_DELAY = 0.2, 30.0

_SCHEMA = {"schema": str(SCHEMA_VERSION)}
_log = logging.getLogger(__name__)


class Assembler:
    """A member of the group `assembler`. `start` once; `stop` is safe twice and without."""

    def __init__(
        self,
        bus: Bus,
        config: Config,
        registry: CollectorRegistry,
        *,
        read: Read = dialects.read,
    ) -> None:
        self._bus = bus
        self._config = config
        self._read = read
        self._finisher: Finisher | None = None
        self._remote = RemoteParents()
        self._partitions: dict[int, Partition] = {}
        self._consumer: Consumer | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._pending_since: float | None = None
        self._breath = 0.0
        self._count = Counters(registry)
        self._trouble = Trouble(_log, "the assembler")
        self._heartbeat = Heartbeat(self.lag)
        series.instrument(registry, series.OPEN_TRACES).set_function(
            lambda: sum(len(p.open) for p in self._partitions.values())
        )
        series.instrument(registry, series.OPEN_TRACE_BYTES).set_function(self._open_bytes)

    async def start(self) -> None:
        """Join the group and begin. Raises `Permanent` when the key or the group cannot be had."""
        redact = self._config.collector.redact
        self._finisher = Finisher(
            self._config,
            TailSampling(self._config.sampling, self._bus.partitions(SPANS)),
            Redactor(redact, pseudonym_key(self._config) if redact else b""),
            self._read,
        )
        await self._join()
        self._task = asyncio.create_task(self._run(), name=GROUP)

    async def stop(self) -> None:
        """Read no more, commit what is finished, leave the group. Open traces are read again by
        whoever comes next."""
        self._stopping.set()
        task, self._task = self._task, None
        if task is not None:
            await task
        await self._leave()

    def lag(self) -> int:
        """Records that have not been read; those that open traces keep do not count."""
        if self._consumer is None:
            return 0
        return max(0, self._consumer.lag() - sum(p.held for p in self._partitions.values()))

    def health(self) -> Health:
        return self._heartbeat.health()

    # The loop

    async def _run(self) -> None:
        delay = FIRST_DELAY
        while not self._stopping.is_set():
            try:
                await self._step()
                delay = FIRST_DELAY
                continue
            except Retryable as error:
                self._failed(error)
            except Permanent as error:
                await self._start_over(error)
            except Exception as error:  # noqa: BLE001 logged, and the stream is read again
                _log.exception("the assembler met a fault of its own and starts over")
                await self._start_over(error)
            await self._pause(delay)
            delay = min(delay * 2, MAX_DELAY)

    async def _step(self) -> None:
        consumer = self._consumer or await self._join()
        if self._due() <= 0:
            await self._commit(consumer)
        records = await consumer.poll(max_records=MAX_RECORDS, timeout=max(0.0, self._due()))
        self._breath = time.monotonic()
        for record in records:
            partition = self._partitions[record.partition]
            await self._advance(consumer, partition, record.timestamp)
            partition.take(record)
            await self._bound_memory(consumer)
            await self._breathe()
        for partition in list(self._partitions.values()):
            await self._advance(consumer, partition, consumer.clock(partition.number))
        if any(p.pending for p in self._partitions.values()):
            self._pending_since = self._pending_since or time.monotonic()
        else:
            self._worked()
        self._heartbeat.turned()

    def _due(self) -> float:
        """Seconds until the loop must look again; at most 0 when there is work to commit now."""
        if self._pending_since is None:
            return TICK
        return self._pending_since + COMMIT_AFTER - time.monotonic()

    async def _advance(self, consumer: Consumer, partition: Partition, clock: int) -> None:
        for trace, ending in partition.due(clock):
            await self._close(consumer, partition, trace, ending)

    async def _bound_memory(self, consumer: Consumer) -> None:
        while self._open_bytes() > self._config.assembly.max_open:
            trace, partition = min(
                ((p.open.oldest, p) for p in self._partitions.values() if len(p.open)),
                key=lambda pair: pair[0].first,
            )
            await self._close(consumer, partition, trace, "memory")

    async def _close(
        self, consumer: Consumer, partition: Partition, trace: OpenTrace, ending: Ending
    ) -> None:
        if trace.span_count > THREAD_ABOVE:
            await asyncio.to_thread(partition.close, trace, ending)
        else:
            partition.close(trace, ending)
            await self._breathe()
        if sum(p.pending_bytes for p in self._partitions.values()) >= COMMIT_BYTES:
            await self._commit(consumer)

    async def _breathe(self) -> None:
        """Let others have the event loop, if it was held for long."""
        if time.monotonic() - self._breath > HOLD:
            await asyncio.sleep(0)
            self._breath = time.monotonic()
            self._heartbeat.turned()

    async def _pause(self, seconds: float) -> None:
        """Wait, but not for longer than until the stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _open_bytes(self) -> int:
        return sum(p.open.size for p in self._partitions.values())

    async def _commit(self, consumer: Consumer) -> None:
        """Commit what is finished, however long that takes; at the stop `stop` tries once more.

        Records that were delivered come no second time, so a failure may not end the step.
        """
        delay = FIRST_DELAY
        while True:
            try:
                return await self._flush(consumer)
            except Retryable as error:
                self._failed(error)
                if self._stopping.is_set():
                    return None
                await self._pause(max(delay, error.retry_after or 0.0))
                delay = min(delay * 2, MAX_DELAY)

    async def _flush(self, consumer: Consumer) -> None:
        """Commit what is finished. On an error all of it is still to be committed."""
        outputs: list[Outgoing] = []
        done: list[Position] = []
        state: list[StateChange] = []
        tallies: list[Tally] = []
        finished = [partition for partition in self._partitions.values() if partition.pending]
        for partition in finished:
            work = partition.work()
            outputs += work.outputs
            done += (Position(SPANS, partition.number, offset) for offset in work.done)
            state += work.state
            tallies += work.tallies
        if tallies:
            batch = RollupBatch(tallies=tallies)
            outputs.append(Outgoing(ROLLUPS, encode(batch), partition=0, headers=_SCHEMA))
        if finished:
            await consumer.commit(outputs=outputs, done=done, state=state)
        for partition in finished:
            partition.committed()
        self._pending_since = None
        self._worked()

    # Membership

    async def _join(self) -> Consumer:
        consumer = self._bus.consumer(
            GROUP, [SPANS], on_assigned=self._assigned, on_revoked=self._revoked
        )
        await consumer.start()
        self._consumer = consumer
        return consumer

    async def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            try:
                await self._give_away(consumer)
            finally:
                await consumer.stop()

    async def _assigned(self, number: int, state: Mapping[str, bytes]) -> None:
        assert self._finisher is not None, "not started"
        self._partitions[number] = Partition(
            number, self._config.assembly, self._finisher, self._remote, self._count, state
        )

    async def _revoked(self, number: int) -> None:
        """Raises `Permanent` when finished work was dropped: that of the partitions which stay
        would not be delivered to this member again."""
        kept = self._consumer is None or await self._give_away(self._consumer)
        self._partitions.pop(number, None)
        if not kept:
            raise Permanent("finished work could not be committed before a partition went")

    async def _give_away(self, consumer: Consumer) -> bool:
        """Commit what is finished, or drop it and say so: whoever comes next reads it again."""
        try:
            await retrying(lambda: self._flush(consumer), deadline=GIVE_AWAY)
        except AssayError as error:
            self._failed(error)
            self._forget()
            return False
        return True

    async def _start_over(self, error: Exception) -> None:
        self._failed(error)
        self._forget()
        await self._leave()

    def _forget(self) -> None:
        self._partitions = {}
        self._pending_since = None

    def _worked(self) -> None:
        self._trouble.worked()
        self._heartbeat.finished()

    def _failed(self, error: BaseException) -> None:
        self._count.retries.inc()
        self._trouble.failed(error)
        self._heartbeat.failed(error_text(error))
