"""What a stage may expect of the bus, whichever bus it is.

Delivery. `publish` returns when the records are durable. A consumer group reads each record of its
topics; `commit` makes {outputs, done records, state} take effect together or not at all. A record
that was marked done is never delivered to the group again; one that was not is delivered again
after a restart. Records may be marked done in any order: what is done beyond the first gap is kept
beside the offset (see `progress`).

Time. A record's timestamp is the bus's own, taken when the record was appended. A partition's
clock is the timestamp of the last record delivered; while the partition has been read to its end,
it is the wall clock as it was when the end was seen, less what a bus on other machines must allow
for. So a backlog is read as it would have been read live.

State. Each group may keep values by partition and key. They change only in `commit` and are given
back when the partition is assigned.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic and how it is kept."""

    name: str
    partitions: int
    retention: float
    """Seconds; a record older than this may be deleted."""
    compact: bool = False
    """State topic: the latest value of each key is kept for `retention`."""
    foreign: bool = False
    """Written by others: it is neither created nor checked, only read, and its name is whole."""


class Record(NamedTuple):
    """A record as read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since the Unix epoch, by the bus's clock."""
    key: bytes | None
    value: bytes
    headers: Mapping[str, str]


class Outgoing(NamedTuple):
    """A record to write. Without a partition, murmur2 of the key chooses it."""

    topic: str
    value: bytes
    key: bytes | None = None
    partition: int | None = None
    headers: Mapping[str, str] = {}


class Position(NamedTuple):
    """Where a record stands: enough to mark it done without keeping its value."""

    topic: str
    partition: int
    offset: int


class StateChange(NamedTuple):
    """A new value for a key of a partition's state; none deletes it."""

    partition: int
    key: str
    value: bytes | None


class TopicStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a topic holds."""

    records: int
    oldest: int
    """Timestamp of the oldest record, ms; 0 without one."""
    lag: dict[str, int]
    """Records not yet done, by group."""
    lost: dict[str, int]
    """Records deleted before the group had done them, by group, since the start."""


Assigned = Callable[[int, Mapping[str, bytes]], Awaitable[None]]
"""Called with a partition and its state before its first record is delivered."""
Revoked = Callable[[int], Awaitable[None]]
"""Called when a partition is taken away: what is not committed by its return will be read again."""


class Consumer(Protocol):
    """A member of a consumer group. Not safe for concurrent `poll`; `commit` may overlap it."""

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """Leave the group. Safe twice and without start; commits nothing."""

    async def poll(
        self,
        *,
        max_records: int = 500,
        timeout: float = 1.0,  # noqa: ASYNC109 - running out of time gives an empty answer
    ) -> list[Record]:
        """The next records that are not done, in order within a partition; empty on timeout.

        Returns as soon as there is a record. A record is delivered once a session. A partition
        with too many records done beyond its first gap delivers nothing until the gap closes.
        """

    async def commit(
        self,
        *,
        outputs: Sequence[Outgoing] = (),
        done: Iterable[Position | Record] = (),
        state: Iterable[StateChange] = (),
    ) -> None:
        """Write outputs, progress and state in one atomic, durable step.

        Raises `Retryable` when nothing took effect and the same call may be made again, and
        `Permanent` when that cannot be: this member no longer owns a partition that it names, or
        it cannot be known what took effect. The stage then leaves the group and begins again with
        what is committed.
        """

    def clock(self, partition: int) -> int:
        """The partition's clock in milliseconds; 0 before anything is known."""

    def assignment(self) -> frozenset[int]:
        """The partitions that this member owns."""

    def pause(self, partitions: Iterable[int]) -> None:
        """Deliver nothing from these until `resume`."""

    def resume(self, partitions: Iterable[int]) -> None: ...

    def lag(self) -> int:
        """Records appended and not yet done, over the partitions owned."""


class Bus(Protocol):
    """A connection to the stream."""

    @property
    def max_value(self) -> int:
        """Bytes of the largest value that can be written."""

    async def start(self) -> None:
        """Connect, create or check the topics. Raises `Permanent` when that cannot work."""

    async def stop(self) -> None:
        """Finish what was accepted, then close. Safe twice and without start."""

    async def publish(self, records: Sequence[Outgoing]) -> None:
        """Append the records and return when they are durable: all of them or, on error, none
        that the caller may rely on. Raises `Retryable` when full or away."""

    def consumer(
        self,
        group: str,
        topics: Sequence[str],
        *,
        state_ttl: float | None = None,
        on_assigned: Assigned | None = None,
        on_revoked: Revoked | None = None,
    ) -> Consumer:
        """A new member of `group`. All `topics` have the same number of partitions; the group's
        assignment, state, pause and clock are by partition number over all of them. A state value
        that was not written for `state_ttl` seconds is forgotten; without it, values stay."""

    def read(
        self, topic: str, *, since: int | None = None, follow: bool = False
    ) -> AsyncGenerator[Record, None]:
        """Records outside any group, in timestamp order within a partition: from the first whose
        timestamp is at least `since` (ms; none: the oldest kept), or, with `follow`, from now on
        (or from `since` on) and without end."""

    async def find(self, position: Position) -> Record | None:
        """The record at `position`; none when it is no longer, or not yet, there."""

    async def topic_stats(self) -> dict[str, TopicStats]:
        """What each topic holds and who is behind on it."""

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has."""
