"""What judging may cost: money reserved before a call, settled after it, and spread over the day.

Money is kept per partition, because a replica's share is its share of the partitions: each
partition may spend usd_per_day / partitions in a UTC day, whoever owns it, and what it spent goes
with its offsets. Callers say which partition they work for by `PARTITION`.

Spreading. `ratio` is the share of turns that the money left can pay for: money left by cost per
turn, by the turns expected until midnight. It comes from the grid of `assay.sampling`, so that
every turn keeps a known, positive probability and no hour is a hole.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable
from contextvars import ContextVar

import msgspec

from assay.config import JudgeBudget
from assay.sampling import GRID
from scorers.judging.faults import OverBudget

PARTITION: ContextVar[int] = ContextVar("partition", default=0)
DAY = 86_400
REVIEW = 60.0
"""Seconds between two looks at the ratio."""
MARGIN = 0.9
"""The part of the money left that the plan spends; the rest covers a busier evening."""


class Spending(msgspec.Struct):
    """What a partition has spent, and what it saw; kept with its offsets."""

    day: int = 0
    """Days since the Unix epoch, UTC."""
    usd: float = 0.0
    turns: int = 0
    """Turns that wanted judging today."""
    paid: float = 0.0
    """Turns that were judged today."""
    yesterday: list[int] = []
    """Turns per hour of the day before, 24 of them once a whole day was seen."""
    hours: list[int] = []
    """Turns per hour of today."""
    ratio: float = 1.0


class Budget:
    """The money of the partitions that this process owns."""

    def __init__(
        self, settings: JudgeBudget, *, partitions: int = 1, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._partitions = partitions
        self._clock = clock
        self._spending: dict[int, Spending] = {}
        self._reserved: dict[int, float] = {}
        self._reviewed: dict[int, float] = {}
        minute = settings.usd_per_minute
        self._money = _Bucket(minute, clock) if minute else None
        tokens = settings.tokens_per_minute
        self._tokens = _Bucket(float(tokens), clock) if tokens else None

    @property
    def needs_price(self) -> bool:
        """Whether a model without a price cannot be held to this budget."""
        return bool(self._settings.usd_per_day or self._settings.usd_per_minute)

    async def reserve(self, usd: float, tokens: int) -> Reservation:
        """Set `usd` and `tokens` aside; waits for the minute's allowance.

        Raises OverBudget when the partition's money of the day does not hold `usd`.
        """
        partition = PARTITION.get()
        limit = self._day_limit()
        if limit is not None:
            spending = self._today(partition)
            if spending.usd + self._reserved.get(partition, 0.0) + usd > limit:
                raise OverBudget("the judge's budget of the day is spent")
        self._reserved[partition] = self._reserved.get(partition, 0.0) + usd
        reservation = Reservation(partition, usd)
        try:
            if self._tokens is not None:
                await self._tokens.take(float(tokens))
            if self._money is not None:
                await self._money.take(usd)
        except asyncio.CancelledError:
            self.settle(reservation, 0.0)
            raise
        return reservation

    def settle(self, reservation: Reservation, usd: float) -> None:
        """Book what the call really cost."""
        left = self._reserved.get(reservation.partition, 0.0) - reservation.usd
        self._reserved[reservation.partition] = max(0.0, left)
        self._today(reservation.partition).usd += usd
        if self._money is not None:
            self._money.give_back(reservation.usd - usd)

    def ratio(self, partition: int) -> float:
        """The share of turns to judge in `partition`; also counts one turn that wants judging."""
        limit = self._day_limit()
        if limit is None:
            return 1.0
        spending = self._today(partition)
        now = self._clock()
        spending.turns += 1
        spending.hours[int(now % DAY // 3600)] += 1
        if now - self._reviewed.get(partition, 0.0) >= REVIEW:
            self._reviewed[partition] = now
            spending.ratio = _affordable(spending, limit, now)
        return spending.ratio

    def least_ratio(self) -> float:
        """The smallest ratio of the partitions owned; 1 before anything is known."""
        return min((spending.ratio for spending in self._spending.values()), default=1.0)

    def judged(self, partition: int) -> None:
        """A turn of `partition` was judged: its cost enters the cost per turn."""
        self._today(partition).paid += 1

    def restore(self, partition: int, state: bytes | None) -> None:
        """Take over a partition with what it had spent. Damaged state counts as nothing spent."""
        try:
            spending = msgspec.json.decode(state, type=Spending) if state else Spending()
        except (msgspec.DecodeError, UnicodeDecodeError):
            spending = Spending()
        self._spending[partition] = spending

    def release(self, partition: int) -> None:
        """Forget a partition that another process owns."""
        self._spending.pop(partition, None)

    def state(self, partition: int) -> bytes:
        """What to keep with the partition's offsets."""
        return msgspec.json.encode(self._today(partition))

    def _day_limit(self) -> float | None:
        limit = self._settings.usd_per_day
        return None if limit is None else limit / self._partitions

    def _today(self, partition: int) -> Spending:
        spending = self._spending.setdefault(partition, Spending())
        day = int(self._clock() // DAY)
        if spending.day != day:
            whole = spending.hours if spending.day == day - 1 and all(spending.hours) else []
            spending = Spending(day=day, yesterday=whole, hours=[0] * 24, ratio=spending.ratio)
            self._spending[partition] = spending
        return spending


class Reservation(msgspec.Struct, frozen=True):
    """Money set aside for one call."""

    partition: int
    usd: float


def grid(ratio: float) -> float:
    """The largest ratio of the grid that is not above `ratio`; never less than its least one."""
    return GRID[max(bisect_right(GRID, ratio + 1e-12) - 1, 0)]


def _affordable(spending: Spending, limit: float, now: float) -> float:
    """The ratio that spends MARGIN of the money left on the turns expected until midnight."""
    if spending.paid < 1 or spending.usd <= 0.0:
        return spending.ratio
    per_turn = spending.usd / spending.paid
    wanted = _expected(spending, now) * per_turn
    return grid(MARGIN * (limit - spending.usd) / wanted) if wanted > 0 else spending.ratio


def _expected(spending: Spending, now: float) -> float:
    """Turns until midnight: like yesterday, scaled to today's traffic; else as today so far."""
    second = now % DAY
    hour = int(second // 3600)
    passed = (second % 3600) / 3600
    if len(spending.yesterday) == 24:
        before = sum(spending.yesterday[:hour]) + passed * spending.yesterday[hour]
        after = sum(spending.yesterday) - before
        scale = min(max(spending.turns / before, 0.25), 4.0) if before >= 50 else 1.0
        return after * scale
    seen = [n for n in spending.hours[: hour + 1] if n]
    first = next((i for i, n in enumerate(spending.hours) if n), hour)
    elapsed = max(second - first * 3600, 60.0)
    return sum(seen) / elapsed * (DAY - second)


class _Bucket:
    """An allowance per minute that refills steadily; callers wait in order."""

    def __init__(self, per_minute: float, clock: Callable[[], float]) -> None:
        self._most = per_minute
        self._level = per_minute
        self._clock = clock
        self._at = clock()
        self._lock = asyncio.Lock()

    async def take(self, amount: float) -> None:
        async with self._lock:
            amount = min(amount, self._most)
            while True:
                now = self._clock()
                self._level = min(self._most, self._level + (now - self._at) * self._most / 60.0)
                self._at = now
                if self._level >= amount:
                    break
                await asyncio.sleep((amount - self._level) * 60.0 / self._most + 0.001)
            self._level -= amount

    def give_back(self, amount: float) -> None:
        self._level = min(self._most, self._level + amount)
