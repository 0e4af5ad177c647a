"""A consumer group's member on Kafka: see `contract.Consumer`.

Three parts work for it: the pump reads in a thread of its own, the shelves keep what is read ahead,
and the commits are transactions. What happens to the membership is told to the stage inside its
own calls of `start`, `poll` and `stop`, never in between.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from kafka import TopicPartition

from assay.bus.contract import Assigned, Outgoing, Position, Record, Revoked, StateChange
from assay.bus.kafka_at_least_once import AtLeastOnce
from assay.bus.kafka_commits import Commits
from assay.bus.kafka_options import Clients
from assay.bus.kafka_pump import Broken, Found, Given, Item, Joined, Pump, Restore, Taken
from assay.bus.kafka_records import Ready
from assay.bus.kafka_shelf import Shelves
from assay.bus.kafka_state import StateLog
from assay.bus.kafka_transactions import Transactions
from assay.errors import AssayError, Permanent, Retryable

JOIN = 90.0
"""Seconds in which the group must have let the member in."""
STALLED = 100.0
"""Seconds without a turn of the reading thread, longer than a partition may take to be given away,
after which the membership is begun anew."""
LOOK = 0.5
"""Seconds between looks at the partitions' ends while records come."""
HIDDEN = 0.5
"""Seconds for which a record may be stamped and not shown yet, by a busy broker or an open
transaction, and by which a broker's clock may be behind ours."""

Ends = Callable[[Iterable[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]
"""The offsets after the last record appended, transactions under way included."""


class KafkaMember:
    """Built by `KafkaBus.consumer`."""

    def __init__(
        self,
        group: str,
        names: Mapping[str, str],
        *,
        clients: Clients,
        transactional_id: str | None,
        restore: Restore,
        state: StateLog,
        prepare_state: Callable[[], Awaitable[None]],
        ready: Callable[[Iterable[Outgoing]], list[Ready]],
        ends: Ends,
        on_assigned: Assigned | None,
        on_revoked: Revoked | None,
    ) -> None:
        """`names` are the topics as on the brokers and as delivered; without a `transactional_id`
        a commit is no transaction."""
        self._group = group
        self._places = {delivered: named for named, delivered in names.items()}
        self._ready = ready
        self._ends = ends
        self._state = state
        self._prepare_state = prepare_state
        self._keeps_state = on_assigned is not None
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        options = clients.consumer(
            group_id=clients.config.prefix + group,
            max_poll_records=2000,
            max_poll_interval_ms=300_000,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=2_000,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pump = Pump(options, list(names), restore, self._receive)
        self._shelves = Shelves(names, self._pump.hold)
        self._transactions = (
            Transactions(clients, transactional_id)
            if transactional_id is not None
            else AtLeastOnce(clients, self._pump.commit)
        )
        self._commits = Commits(
            group, self._transactions, self._pump, lambda: self._shelves.by_place
        )
        self._news: deque[Given | Taken | Found] = deque()
        """In the order in which it happened; records wait behind the news of their partition."""
        self._wake = asyncio.Event()
        self._joined = False
        self._running = False
        self._broken: AssayError | None = None
        self._paused: frozenset[int] = frozenset()
        self._last_ends: Mapping[TopicPartition, int] = {}
        self._looked = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Join the group; returns when it is known which partitions are ours."""
        self._loop = asyncio.get_running_loop()
        if self._keeps_state:
            await self._prepare_state()
        try:
            await self._transactions.start()
            self._pump.start()
            self._running = True
            async with asyncio.timeout(JOIN):
                while not self._joined:
                    self._check()
                    self._wake.clear()
                    await self._wake.wait()
            await self._tell()
            await self._look()
        except TimeoutError:
            await self._end()
            raise Retryable(f"the group {self._group} did not let this member in") from None
        except BaseException:
            await self._end()
            raise

    async def stop(self) -> None:
        """Leave the group. Safe twice and without start; commits nothing."""
        if not self._running:
            return
        try:
            if self._on_revoked is not None:
                for number in sorted(self._shelves.numbers()):
                    await self._on_revoked(number)
        finally:
            await self._commits.finish()
            await self._end()

    async def _end(self) -> None:
        self._running = False
        self._shelves.remove(self._shelves.numbers())
        self._wake.set()
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.to_thread(self._pump.close)
        await self._transactions.stop()

    async def poll(
        self,
        *,
        max_records: int = 500,
        timeout: float = 1.0,  # noqa: ASYNC109 - running out of time gives an empty answer
    ) -> list[Record]:
        """See `contract.Consumer.poll`. Raises `Permanent` when the membership is over."""
        deadline = time.monotonic() + timeout
        began = time.time()
        while True:
            self._wake.clear()
            await self._tell()
            self._check()
            records = self._shelves.take(max_records, self._paused)
            left = deadline - time.monotonic()
            if records or left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                continue
        if not records and timeout > 0 and self._looked < began:
            await self._look()
        elif time.time() - self._looked > LOOK and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())
        return records

    async def commit(
        self,
        *,
        outputs: Sequence[Outgoing] = (),
        done: Iterable[Position | Record] = (),
        state: Iterable[StateChange] = (),
    ) -> None:
        """See `contract.Consumer.commit`."""
        marks: dict[TopicPartition, list[int]] = {}
        numbers: set[int] = set()
        for position in done:
            place = TopicPartition(self._places.get(position[0], position[0]), position[1])
            marks.setdefault(place, []).append(position[2])
            numbers.add(position[1])
        changes = list(state)
        numbers.update(change.partition for change in changes)
        foreign = numbers - self._shelves.numbers()
        if foreign or not marks.keys() <= self._shelves.by_place.keys() or not self._running:
            raise Permanent(f"this member of group {self._group} does not own what it commits for")
        if changes and not self._keeps_state:
            await self._prepare_state()
            self._keeps_state = True
        records = self._ready(outputs) + self._state.records(changes)
        if records or marks:
            claims = frozenset(c for c in self._shelves.claims() if c.number in numbers)
            await self._commits.commit(records, marks, claims)

    def clock(self, partition: int) -> int:
        """See `contract.Consumer.clock`; over several topics, the one that is furthest behind."""
        clocks = [s.clock for s in self._shelves.by_place.values() if s.number == partition]
        return min(clocks, default=0)

    def assignment(self) -> frozenset[int]:
        return frozenset(claim.number for claim in self._shelves.claims() & self._pump.owned())

    def pause(self, partitions: Iterable[int]) -> None:
        self._paused |= set(partitions)

    def resume(self, partitions: Iterable[int]) -> None:
        self._paused -= set(partitions)
        self._wake.set()

    def lag(self) -> int:
        """Records appended and not yet done, over the partitions owned, as of the last look."""
        return sum(
            shelf.progress.undone(
                shelf.progress.next, max(shelf.read, self._last_ends.get(place, 0))
            )
            for place, shelf in self._shelves.by_place.items()
        )

    async def _tell(self) -> None:
        """Pass on to the stage what happened to its partitions."""
        while self._news:
            news = self._news.popleft()
            if isinstance(news, Given):
                self._shelves.add(news.claim, news.restored.progress)
                if self._on_assigned is not None:
                    await self._on_assigned(news.claim.number, news.restored.state)
                continue
            if isinstance(news, Found):
                self._shelves.put(news)
                continue
            try:
                if self._on_revoked is not None:
                    for number in sorted(news.numbers & self._shelves.numbers()):
                        await self._on_revoked(number)
                await self._commits.finish()
            finally:
                self._shelves.remove(news.numbers)
                news.finished.set()

    def _check(self) -> None:
        broken = self._broken or self._commits.broken
        if broken is not None:
            raise broken
        if not self._running:
            raise Permanent(f"this member of group {self._group} is not started")
        if time.monotonic() - self._pump.turned > STALLED:
            raise Permanent(f"reading for group {self._group} stands still")

    async def _look(self) -> None:
        """See where the partitions end. One that was delivered to its end has the wall's time as it
        was before the look, less `HIDDEN`: what is shown later is stamped later."""
        now = time.time()
        places = list(self._shelves.by_place)
        if not places:
            self._looked = now
            return
        try:
            ends = await self._ends(places)
        except Retryable:
            return  # the clock stands while the brokers are away
        self._looked = now
        self._last_ends = ends
        for place, end in ends.items():
            shelf = self._shelves.by_place.get(place)
            if shelf is not None and shelf.delivered_to(end):
                shelf.clock = max(shelf.clock, int((now - HIDDEN) * 1000))

    def _receive(self, item: Item) -> None:
        """Called in the pump's threads."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._arrived, item)

    def _arrived(self, item: Item) -> None:
        match item:
            case Found() if item.place in self._shelves.by_place and not self._news:
                self._shelves.put(item)
            case Joined():
                self._joined = True
            case Broken():
                self._broken = item.error
            case _:
                self._news.append(item)
        self._wake.set()
