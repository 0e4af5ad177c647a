"""How many calls may be in flight at an endpoint.

The limit moves once per round, a round being as many answers as the limit allows calls. It doubles
until something is refused, then falls back by half and grows by one a round. A round in which the
share s was refused multiplies it by 1 - s / 2, so that one refusal in 64 costs half a call and not
half the throughput. Where few are refused the limit is sharp: it is remembered, and tried again
only after `PROBE_EVERY`. Growth rests while answers take much longer than they usually do.

An endpoint that answers nothing falls to one call in flight, spaced further apart each time: the
probe that finds it back.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

PROBE_EVERY = 30.0
"""Seconds until a limit that was found sharp is tried again."""
SHARP = 0.1
"""Share of refusals below which they mark a limit and not a general shortage."""
SLOW = 2.0
"""Growth rests while answers take this many times their usual time."""
FIRST_REST = 0.5
LONGEST_REST = 30.0
"""Seconds between probes of an endpoint that is away."""


class Pace:
    """A gate with a moving limit, fair in order of arrival.

    `enter` gives a ticket; exactly one of `answered`, `refused`, `failed` and `abandoned` must
    follow it.
    """

    def __init__(
        self, most: int, *, start: int = 8, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit = float(min(start, most))
        self.in_flight = 0
        self._most = float(most)
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._ceiling = self._most
        self._ceiling_until = 0.0
        self._doubling = True
        self._epoch = 0
        self._answers = self._refusals = 0
        self._in_a_row = 0
        self._rests = 0
        self._rest_until = 0.0
        self._usual = self._recent = 0.0

    @property
    def away(self) -> bool:
        """The endpoint answers nothing: it takes only probes."""
        return self._rests > 0

    @property
    def free(self) -> bool:
        """Whether a call would start at once."""
        return not self._waiting and self._open()

    async def enter(self) -> int:
        """Wait for a place."""
        if self.free:
            self.in_flight += 1
            return self._epoch
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.abandoned(self._epoch)
            raise
        return self._epoch

    def answered(self, ticket: int, seconds: float) -> None:
        """The endpoint did its work in `seconds`, whatever it said."""
        self._in_a_row = 0
        if self._rests:
            self._rests = 0
            self._rest_until = 0.0
        self._recent = 0.9 * self._recent + 0.1 * seconds if self._recent else seconds
        if not self._usual or self._recent < self._usual:
            self._usual = self._recent
        else:
            self._usual += 0.001 * (self._recent - self._usual)
        self._count(ticket)
        self._free_place()

    def refused(self, ticket: int, rest: float = 0.0) -> None:
        """The endpoint asked for fewer calls, and for a pause of `rest` seconds.

        Its place stays taken for as long as an answer takes: else the waiting callers would be
        refused through it one after another.
        """
        if ticket == self._epoch:
            self._refusals += 1
            if self._doubling:
                self._doubling = False
                self._restart(self.limit / 2)
        self._unanswered(ticket, rest)
        asyncio.get_running_loop().call_later(min(self._usual, 1.0), self._free_place)

    def failed(self, ticket: int) -> None:
        """The endpoint was away, hung or broke."""
        self._unanswered(ticket, 0.0)
        self._free_place()

    def abandoned(self, ticket: int) -> None:
        """The caller gave up, which says nothing about the endpoint."""
        self._free_place()

    def rest(self, seconds: float) -> None:
        """Start nothing for so long: the endpoint says that its allowance is spent."""
        if seconds > 0.0:
            self._rest_until = max(self._rest_until, self._clock() + seconds)

    def _unanswered(self, ticket: int, rest: float) -> None:
        if ticket == self._epoch:
            self._in_a_row += 1
            if self._in_a_row > max(3.0, self.limit):
                pause = max(rest, min(FIRST_REST * 2.0**self._rests, LONGEST_REST))
                self._rest_until = self._clock() + pause
                self._rests = min(self._rests + 1, 16)
                self._in_a_row = 3
                self._doubling = True
                self._restart(1.0)
        self._count(ticket)

    def _count(self, ticket: int) -> None:
        if ticket == self._epoch:
            self._answers += 1
            if self._answers >= self.limit:
                self._end_round()

    def _free_place(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _restart(self, limit: float) -> None:
        """Begin a round in which answers to calls of before do not count."""
        self._epoch += 1
        self.limit = max(1.0, limit)
        self._answers = self._refusals = 0

    def _end_round(self) -> None:
        share = self._refusals / self._answers
        if share:
            self._restart(self.limit * (1.0 - share / 2))
            if share < SHARP:
                self._ceiling = self.limit
                self._ceiling_until = self._clock() + PROBE_EVERY
            else:
                self._grow(1.0)
            return
        self._answers = 0
        if not self.away and self.in_flight >= 0.8 * self.limit and not self._slow:
            self._grow(self.limit if self._doubling else 1.0)

    def _grow(self, step: float) -> None:
        ceiling = self._ceiling if self._clock() < self._ceiling_until else self._most
        self.limit = max(self.limit, min(self.limit + step, ceiling))

    @property
    def _slow(self) -> bool:
        return self._recent > SLOW * self._usual

    def _open(self) -> bool:
        return self.in_flight < int(self.limit) and self._clock() >= self._rest_until

    def _admit(self) -> None:
        while self._waiting and self._open():
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)
        if self._waiting and self.in_flight < int(self.limit) and self._timer is None:
            delay = max(0.0, self._rest_until - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._rested)

    def _rested(self) -> None:
        self._timer = None
        self._admit()
