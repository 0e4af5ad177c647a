"""The thread that reads for a member of a consumer group, and goes on polling whatever it does.

A member that takes long over its records must not be thrown out of the group, so reading is not
done by those who work: this thread polls, hands over what it found, and stops fetching what the
member has enough of. It also takes part in rebalances: a partition that is to go is given up only
when the member is finished with it, and one that has come is read only when its progress and state
were restored.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.net.selector import KernelEvent
from kafka.structs import MemberState, OffsetAndMetadata

from assay.bus.kafka_assignor import ByNumber
from assay.bus.kafka_options import build, ours
from assay.bus.progress import Progress
from assay.errors import AssayError, Permanent

POLL = 0.2
"""Seconds that one poll waits for records."""
MAX_RECORDS = 2000
BACK_OFF = 0.5
GIVE_UP = 60.0
"""Seconds in which a member must give a partition away; afterwards it goes without. Half of what
the brokers wait for a rebalance, where that is less: who takes longer is thrown out."""
LEAVE = 5.0


class Found(NamedTuple):
    """What was read of a partition: everything from `start` up to `end` that is a record."""

    place: TopicPartition
    records: Sequence[Any]
    start: int
    end: int


class Claim(NamedTuple):
    """A partition as it was given once. Given again it is another claim: what was read under the
    first may not be committed under the second, whose progress was restored without it."""

    number: int
    tenure: int


class Restored(NamedTuple):
    """What the brokers keep of a partition."""

    state: Mapping[str, bytes]
    progress: Mapping[TopicPartition, Progress]


class Given(NamedTuple):
    """A partition has come."""

    claim: Claim
    restored: Restored


class Taken(NamedTuple):
    """Partitions go; `finished` is to be set when the member is done with them."""

    numbers: frozenset[int]
    finished: threading.Event


class Joined(NamedTuple):
    """The member is in the group, and knows what it has."""


class Broken(NamedTuple):
    """Reading has ended for good."""

    error: AssayError


Item = Found | Given | Taken | Joined | Broken
Restore = Callable[[Any, int, Callable[[], bool]], Restored]
"""Blocking; gives a partition's progress and state. `alive` says whether it is still wanted."""


class Pump:
    """`hand_over` is called in this thread, or in the client's."""

    def __init__(
        self,
        options: Mapping[str, Any],
        topics: Sequence[str],
        restore: Restore,
        hand_over: Callable[[Item], None],
    ) -> None:
        self._assignor = ByNumber()
        self._options = {**options, "partition_assignment_strategy": [self._assignor]}
        self.give_up = min(GIVE_UP, options["max_poll_interval_ms"] / 2000)
        self._topics = topics
        self._restore = restore
        self._hand_over = hand_over
        self._consumer: Any = None
        self._lock = threading.Lock()
        self._owned: frozenset[Claim] = frozenset()
        self._tenures = itertools.count()
        self._coming: set[int] = set()
        self._held: frozenset[TopicPartition] = frozenset()
        self._member_id = ""
        self._joined = False
        self._closing = threading.Event()
        self.turned = time.monotonic()
        """When the thread last went round, or was seen to work."""
        self._thread = threading.Thread(target=self._run, name="assay-kafka-read", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Leave the group. Blocking, for a few seconds at most; safe twice."""
        self._closing.set()
        self._owned = frozenset()
        if self._thread.ident is not None:
            self._thread.join(LEAVE + POLL + 1)

    def hold(self, places: Iterable[TopicPartition]) -> None:
        """Fetch nothing further of these, and of all others again."""
        self._held = frozenset(places)

    def owned(self) -> frozenset[Claim]:
        """What the member may commit for at this moment."""
        return self._owned

    def _numbers(self) -> frozenset[int]:
        return frozenset(claim.number for claim in self._owned)

    def membership(self) -> Any:
        """What fences a transaction. Raises `Permanent` when the membership is another one."""
        consumer = self._consumer
        if consumer is None:
            raise Permanent("this member is not in the group")
        group = consumer.group_metadata()
        if group.member_id != self._member_id:
            raise Permanent("this member was thrown out of the group")
        return group

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], within: float) -> None:
        """Commit outside a transaction, as the member of this moment. Blocking, `within` seconds;
        raises what the client does."""
        consumer = self._consumer
        if consumer is None:
            raise kafka_errors.CommitFailedError("this member is not in the group")
        consumer.commit(dict(offsets), timeout_ms=int(within * 1000))

    # In the thread.

    def _run(self) -> None:
        try:
            self._consumer = build(KafkaConsumer, self._options)
            self._consumer.subscribe(topics=self._topics, listener=_Listener(self))
            while not self._closing.is_set():
                self._turn()
        except AssayError as error:
            self._hand_over(Broken(Permanent(str(error))))
        except Exception as error:  # noqa: BLE001 - the member is told, and begins again
            self._hand_over(Broken(Permanent(str(ours(error, "reading")))))
        finally:
            self._owned = frozenset()
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                self._leave(consumer)

    def _leave(self, consumer: Any) -> None:
        try:
            consumer.close(autocommit=False, timeout_ms=int(LEAVE * 1000))
        except (kafka_errors.KafkaError, OSError, RuntimeError):
            return  # the group notices by the session's timeout

    def _turn(self) -> None:
        consumer = self._consumer
        self.turned = time.monotonic()
        self._pause(consumer)
        before = self._positions(consumer)
        try:
            found = consumer.poll(timeout_ms=int(POLL * 1000), max_records=MAX_RECORDS)
        except (kafka_errors.KafkaError, OSError) as error:
            if not getattr(error, "retriable", isinstance(error, OSError)):
                raise
            self._closing.wait(BACK_OFF)
            return
        self._join_on(consumer)
        self._welcome(consumer)
        for place, start in before.items():
            records = found.get(place, ())
            end = self._position(consumer, place, records)
            if end > start:
                self._hand_over(Found(place, records, start, end))
        if not self._joined and self._is_member(consumer):
            self._joined = True
            self._hand_over(Joined())

    def _join_on(self, consumer: Any) -> None:
        """See a rebalance through. The client looks anew at each poll whether it has to join, and
        where the reason was new metadata it may find none half way, and then waits for ever."""
        if consumer.group_metadata().state == MemberState.REBALANCING:
            consumer._coordinator.request_rejoin()

    def _pause(self, consumer: Any) -> None:
        assigned = consumer.assignment()
        with self._lock:
            mine = self._numbers()
            wanted = {
                place for place in assigned if place in self._held or place.partition not in mine
            }
        paused = consumer.paused()
        if wanted - paused:
            consumer.pause(*(wanted - paused))
        if paused - wanted:
            consumer.resume(*(paused - wanted))

    def _positions(self, consumer: Any) -> dict[TopicPartition, int]:
        mine = self._numbers()
        return {
            place: consumer.position(place)
            for place in consumer.assignment()
            if place.partition in mine
        }

    def _position(self, consumer: Any, place: TopicPartition, records: Sequence[Any]) -> int:
        """Where reading stands; beyond the last record lie what transactions left behind."""
        if place in consumer.assignment() and place.partition in self._numbers():
            return int(consumer.position(place))
        return int(records[-1].offset + 1) if records else -1

    def _is_member(self, consumer: Any) -> bool:
        group = consumer.group_metadata()
        return bool(group.generation_id > 0 and group.state == MemberState.STABLE)

    def _welcome(self, consumer: Any) -> None:
        """Restore the partitions that have come, and let them be read."""
        with self._lock:
            coming = sorted(self._coming)
        group = consumer.group_metadata()
        if group.member_id and group.generation_id > 0:
            if self._member_id and group.member_id != self._member_id and self._owned:
                raise Permanent("this member was thrown out of the group")
            self._member_id = group.member_id
        for number in coming:
            restored = self._restore(consumer, number, partial(self._wanted, number))
            claim = Claim(number, next(self._tenures))
            with self._lock:
                if number not in self._coming:
                    continue
                self._coming.discard(number)
                self._owned |= {claim}
            for place, progress in restored.progress.items():
                consumer.seek(place, progress.next)
            self._hand_over(Given(claim, restored))

    def _wanted(self, number: int) -> bool:
        self.turned = time.monotonic()
        return number in self._coming

    # In the client's own thread, in the midst of a rebalance.

    def came(self, places: Iterable[TopicPartition]) -> None:
        with self._lock:
            self._coming |= {place.partition for place in places}
        if self._consumer is not None:
            self._consumer.pause(*places)

    def going(self, places: Iterable[TopicPartition]) -> threading.Event:
        """The member is told; the event is set when it is finished."""
        finished = threading.Event()
        with self._lock:
            numbers = {place.partition for place in places}
            self._coming -= numbers
            numbers &= self._numbers()
        if self._closing.is_set() or not numbers:
            finished.set()
        else:
            self._hand_over(Taken(frozenset(numbers), finished))
        return finished

    def gone(self, places: Iterable[TopicPartition]) -> None:
        numbers = {place.partition for place in places}
        with self._lock:
            self._owned = frozenset(c for c in self._owned if c.number not in numbers)

    def lost(self, places: Iterable[TopicPartition]) -> None:
        """The membership is over: at once nothing may be committed any more."""
        self._assignor.forget()
        with self._lock:
            numbers = {place.partition for place in places}
            mine = numbers & self._numbers()
            self._owned = frozenset(c for c in self._owned if c.number not in numbers)
            self._coming -= numbers
        if mine and not self._closing.is_set():
            self._hand_over(Taken(frozenset(mine), threading.Event()))

    @property
    def closing(self) -> bool:
        return self._closing.is_set()


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Runs in the loop that keeps the membership alive: it may wait, not block."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._pump.came(list(assigned))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        places = list(revoked)
        finished = self._pump.going(places)
        deadline = time.monotonic() + self._pump.give_up
        while not finished.is_set() and time.monotonic() < deadline and not self._pump.closing:
            await KernelEvent("_sleep", 0.02)
        self._pump.gone(places)

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._pump.lost(list(lost))
