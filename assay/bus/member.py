"""A consumer group's member on the embedded log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from assay.bus.contract import Assigned, Outgoing, Position, Record, Revoked, StateChange
from assay.bus.log import Log
from assay.bus.rows import Advance, Append, Partition, Transaction, keep
from assay.bus.writer import Writer
from assay.errors import Permanent

Run = Callable[..., Awaitable[Any]]
"""Runs a function in a reading thread."""

POLL_BYTES = 16 * 2**20
"""Bytes that one poll reads, so that memory stays bounded."""


class _Cursor:
    """Where the member stands in one partition of one topic."""

    __slots__ = ("clock", "partition", "position")

    def __init__(self, partition: Partition, position: int) -> None:
        self.partition = partition
        self.position = position
        self.clock = 0


class Member:
    """The only member of its group, owner of every partition: see `contract.Consumer`."""

    def __init__(
        self,
        group: str,
        topics: Sequence[str],
        *,
        log: Log,
        writer: Writer,
        run: Run,
        encode: Callable[[Iterable[Outgoing]], list[Append]],
        wakers: set[asyncio.Event],
        state_ttl: float | None,
        on_assigned: Assigned | None,
        on_revoked: Revoked | None,
    ) -> None:
        self._group = group
        self._topics = topics
        self._log = log
        self._writer = writer
        self._run = run
        self._encode = encode
        self._wakers = wakers
        self._state_ttl = state_ttl
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._cursors: dict[tuple[str, int], _Cursor] = {}
        self._paused: frozenset[int] = frozenset()
        self._wake = asyncio.Event()
        self._turn = 0

    async def start(self) -> None:
        """Join the group. Raises `Permanent` when it has a member already."""
        partitions = [p for p in self._log.partitions.values() if p.topic.name in self._topics]
        await self._writer.call(lambda: self._log.join(self._group, partitions))
        self._cursors = {
            (partition.topic.name, partition.number): _Cursor(
                partition, self._log.progress[self._group, partition.id].next
            )
            for partition in partitions
        }
        self._wakers.add(self._wake)
        try:
            if self._on_assigned is not None:
                for number in sorted(self.assignment()):
                    state = await self._run(
                        self._log.reader.state, self._group, number, self._log.horizon()
                    )
                    await self._on_assigned(number, state)
        except BaseException:
            self._leave()
            raise

    async def stop(self) -> None:
        """Leave the group. Safe twice and without start; commits nothing."""
        if not self._cursors:
            return
        try:
            if self._on_revoked is not None:
                for number in sorted(self.assignment()):
                    await self._on_revoked(number)
        finally:
            self._leave()

    def _leave(self) -> None:
        self._cursors = {}
        self._wakers.discard(self._wake)
        self._wake.set()
        self._log.leave(self._group)

    async def poll(
        self,
        *,
        max_records: int = 500,
        timeout: float = 1.0,  # noqa: ASYNC109 - running out of time gives an empty answer
    ) -> list[Record]:
        """See `contract.Consumer.poll`. Raises `Permanent` at a damaged record."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            self._wake.clear()
            records = await self._advance(max_records)
            if records or loop.time() >= deadline:
                return records
            try:
                async with asyncio.timeout_at(deadline):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def commit(
        self,
        *,
        outputs: Sequence[Outgoing] = (),
        done: Iterable[Position | Record] = (),
        state: Iterable[StateChange] = (),
    ) -> None:
        """See `contract.Consumer.commit`."""
        offsets: dict[tuple[str, int], list[int]] = {}
        for position in done:
            offsets.setdefault((position[0], position[1]), []).append(position[2])
        changes = list(state)
        self._check_owned(offsets, {change.partition for change in changes})
        expires = (
            None if self._state_ttl is None else self._log.horizon() + int(self._state_ttl * 1000)
        )
        await self._writer.write(
            Transaction(
                self._encode(outputs),
                [
                    Advance(self._group, self._cursors[key].partition, marks)
                    for key, marks in offsets.items()
                ],
                [keep(self._group, change, expires) for change in changes],
            ),
            refusable=False,
        )

    def clock(self, partition: int) -> int:
        """See `contract.Consumer.clock`; over several topics, the one that is furthest behind."""
        clocks = [c.clock for (_, number), c in self._cursors.items() if number == partition]
        return min(clocks, default=0)

    def assignment(self) -> frozenset[int]:
        return frozenset(number for _, number in self._cursors)

    def pause(self, partitions: Iterable[int]) -> None:
        self._paused |= set(partitions)

    def resume(self, partitions: Iterable[int]) -> None:
        self._paused -= set(partitions)
        self._wake.set()

    def lag(self) -> int:
        """Records appended and not yet done, over the partitions owned."""
        return sum(
            self._log.progress[self._group, c.partition.id].undone(
                c.partition.first, c.partition.next
            )
            for c in self._cursors.values()
        )

    def _check_owned(self, offsets: Iterable[tuple[str, int]], states: Iterable[int]) -> None:
        foreign = {f"{t}/{p}" for t, p in offsets if (t, p) not in self._cursors}
        foreign |= {f"state of {p}" for p in set(states) - self.assignment()}
        if foreign or not self._cursors:
            raise Permanent(
                f"this member of group {self._group} does not own {', '.join(sorted(foreign))}"
                if foreign
                else f"this member of group {self._group} is not started"
            )

    async def _advance(self, max_records: int) -> list[Record]:
        while ready := self._ready():
            self._turn += 1
            if all(self._log.tail.holds(c.partition, c.position) for c in ready):
                read = self._read(ready, max_records)
                await asyncio.sleep(0)  # a poll always gives the loop a turn
            else:
                read = await self._run(self._read, ready, max_records)
            records: list[Record] = []
            for cursor, found in read:
                progress = self._log.progress[self._group, cursor.partition.id]
                records += [record for record in found if not progress.done(record.offset)]
                if found:
                    cursor.position = found[-1].offset + 1
                    cursor.clock = max(cursor.clock, found[-1].timestamp)
            if records:
                return records
        return []

    def _ready(self) -> list[_Cursor]:
        """Cursors that have something to read, the next one in turn first."""
        # The horizon comes first: what is appended after it is stamped no earlier, so a partition
        # that holds nothing further by then was read to its end as of that time.
        horizon = self._log.horizon()
        ready = []
        for cursor in self._cursors.values():
            progress = self._log.progress[self._group, cursor.partition.id]
            cursor.position = max(cursor.position, progress.next)
            if cursor.position >= cursor.partition.next:
                cursor.clock = max(cursor.clock, horizon)
            elif cursor.partition.number not in self._paused and not progress.full:
                ready.append(cursor)
        first = self._turn % len(ready) if ready else 0
        return ready[first:] + ready[:first]

    def _read(
        self, cursors: Sequence[_Cursor], max_records: int
    ) -> list[tuple[_Cursor, Sequence[Record]]]:
        found = []
        for index, cursor in enumerate(cursors):
            share = len(cursors) - index
            records = self._log.read(
                cursor.partition,
                cursor.position,
                max_records=-(-max_records // share),
                max_bytes=POLL_BYTES // len(cursors),
            )
            found.append((cursor, records))
            max_records -= len(records)
            if max_records <= 0:
                break
        return found
