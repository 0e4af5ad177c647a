"""The assembler: spans and log records from the stream, turns back onto it.

A record of `assay.spans` is done when every trace that needs it is closed. Turns, the memory of the
traces that they came from, the tallies and what is done are committed together, so that a restarted
assembler reads again exactly the traces that were open, and publishes none twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from assay import series
from assay.bus.contract import Bus, Consumer, Outgoing, Position, StateChange
from assay.bus.topics import ROLLUPS, SPANS
from assay.config import Config
from assay.errors import AssayError, Permanent, Retryable, retrying
from assay.records import SCHEMA_VERSION, RollupBatch, Tally, encode
from assay.stage import FIRST_DELAY, MAX_DELAY, Stage
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

_SCHEMA = {"schema": str(SCHEMA_VERSION)}


class Assembler(Stage):
    """A member of the group `assembler`."""

    def __init__(
        self,
        bus: Bus,
        config: Config,
        registry: CollectorRegistry,
        *,
        read: Read = dialects.read,
    ) -> None:
        self._count = Counters(registry)
        super().__init__(bus, GROUP, [SPANS], what="the assembler", retries=self._count.retries)
        self._config = config
        self._read = read
        self._finisher: Finisher | None = None
        self._remote = RemoteParents()
        self._partitions: dict[int, Partition] = {}
        self._pending_since: float | None = None
        self._breath = 0.0
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
        await super().start()

    def lag(self) -> int:
        """Records that have not been read; those that open traces keep do not count."""
        if self._consumer is None:
            return 0
        return max(0, self._consumer.lag() - sum(p.held for p in self._partitions.values()))

    # The loop

    async def _step(self, consumer: Consumer) -> None:
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

    async def _hand_over(self, consumer: Consumer) -> None:
        """Open traces are read again by whoever comes next."""
        await self._give_away(consumer)

    async def _start_over(self) -> None:
        # It cannot be known what of the finished work took effect.
        self._discard()
        await super()._start_over()

    def _discard(self) -> None:
        self._partitions = {}
        self._pending_since = None

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
            self._discard()
            return False
        return True
