"""How many calls may be in flight at an endpoint.

The limit moves once per round. A round looks at the next calls that are sent, as many as may be in
flight, and at which share of them was not answered: refused, failed or broken off. The limit
doubles until that share is above what does not depend on us, then grows by one a round.

Which refusals depend on us. A limit refuses more calls the more are in flight; random failures come
at any number. So where many more than usual are refused the limit is halved, as a trial: when the
share falls as it would under a limit, the refusals were ours, and growth goes on by one from there;
when it does not, it is the endpoint's `background`, which is borne, and growth goes on as before.
Where a few more than usual are refused the limit is sharp: it falls by half their share, so that
one refusal in 64 costs half a call and not half the throughput. Either finding is put to the test
again after `PROBE_EVERY`.

Growth rests while answers take much longer than they usually do. An endpoint that answers nothing
falls to one call in flight, spaced further apart each time: the probe that finds it back.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

PROBE_EVERY = 30.0
"""Seconds until a limit that was found sharp, or a background, is put to the test again."""
SHARP = 0.1
"""Share of refusals beyond the background below which they mark a limit."""
HOPELESS = 0.9
"""Share of refusals from which a trial says nothing: the endpoint is as good as away."""
SLOW = 2.0
"""Growth rests while answers take this many times their usual time."""
LEAST_ROUND = 20
"""Calls of a round, if any of them was refused; a smaller one would say too little."""
ENDED = 0.9
"""Part of a round's calls after which it is judged: hung ones are not waited for."""
TRIAL_ROUND = 40
"""Calls of the round after the limit was halved to see what follows."""
NOISE = 2.5
"""Standard errors by which a share must be higher to count as higher."""
FIRST_WEIGHT, MOST_WEIGHT = 100.0, 600.0
"""Calls that the background stands for before any was sent, and the most that it remembers."""
FIRST_REST = 0.5
LONGEST_REST = 30.0
"""Seconds between probes of an endpoint that is away."""


class Ticket(NamedTuple):
    """A place in flight."""

    epoch: int
    """Of the limit under which the call began."""
    counted: bool
    """Whether its end counts for the round."""


class Share(NamedTuple):
    """A share of calls, and of how many."""

    value: float
    calls: float

    def exceeds(self, other: Share) -> bool:
        """Whether it is higher by more than chance explains."""
        calls = self.calls + other.calls
        mean = (self.value * self.calls + other.value * other.calls) / calls
        error = math.sqrt(mean * (1.0 - mean) * (1.0 / self.calls + 1.0 / other.calls))
        return self.value - other.value > NOISE * error

    def falls_to(self, half: Share) -> bool:
        """Whether `half`, seen with half as many in flight, is nearer to what a limit would leave
        of this share than to the share itself."""
        under_limit = max(0.0, 2.0 * self.value - 1.0)
        return half.value < (self.value + under_limit) / 2

    def with_(self, other: Share) -> Share:
        """Both together, as of at most MOST_WEIGHT calls."""
        calls = self.calls + other.calls
        mean = (self.value * self.calls + other.value * other.calls) / calls
        return Share(mean, min(calls, MOST_WEIGHT))


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
        self.background = Share(0.0, FIRST_WEIGHT)
        """Of the calls that end without an answer however few are in flight."""
        self._most = float(most)
        self._clock = clock
        self._waiting: deque[asyncio.Future[Ticket]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._ceiling = self._most
        self._ceiling_until = 0.0
        self._doubling = True
        self._before_trial: Share | None = None
        self._borne_at = 0.0
        """The most in flight at which the background was seen."""
        self._borne_until = 0.0
        self._epoch = 0
        self._sent = self._ended = self._lost = 0
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

    async def enter(self) -> Ticket:
        """Wait for a place."""
        if self.free:
            return self._begin()
        place: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._admit()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.abandoned(place.result())
            raise

    def answered(self, ticket: Ticket, seconds: float) -> None:
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
        self._count(ticket, lost=0)
        self._free_place()

    def refused(self, ticket: Ticket, rest: float = 0.0) -> None:
        """The endpoint asked for fewer calls, and for a pause of `rest` seconds.

        Its place stays taken for as long as an answer takes: else the waiting callers would be
        refused through it one after another.
        """
        self._unanswered(ticket, rest)
        asyncio.get_running_loop().call_later(min(self._usual, 1.0), self._free_place)

    def failed(self, ticket: Ticket) -> None:
        """The endpoint was away, hung or broke."""
        self._unanswered(ticket, 0.0)
        self._free_place()

    def abandoned(self, ticket: Ticket) -> None:
        """The caller gave up, which says nothing about the endpoint."""
        if ticket.counted and ticket.epoch == self._epoch:
            self._sent -= 1
        self._free_place()

    def rest(self, seconds: float) -> None:
        """Start nothing for so long: the endpoint says that its allowance is spent."""
        if seconds > 0.0:
            self._rest_until = max(self._rest_until, self._clock() + seconds)

    def _begin(self) -> Ticket:
        self.in_flight += 1
        counted = self._sent < self._round
        self._sent += counted
        return Ticket(self._epoch, counted)

    def _unanswered(self, ticket: Ticket, rest: float) -> None:
        if ticket.epoch == self._epoch:
            self._in_a_row += 1
            if self._in_a_row > max(3.0, self.limit):
                pause = max(rest, min(FIRST_REST * 2.0**self._rests, LONGEST_REST))
                self._rest_until = self._clock() + pause
                self._rests = min(self._rests + 1, 16)
                self._in_a_row = 3
                self._doubling = True
                self._before_trial = None
                self._restart(1.0)
                return
        self._count(ticket, lost=1)

    def _count(self, ticket: Ticket, lost: int) -> None:
        if not ticket.counted or ticket.epoch != self._epoch:
            return
        self._ended += 1
        self._lost += lost
        clean = not self._lost and self._before_trial is None
        if self._ended >= ENDED * (self.limit if clean else self._round):
            self._end_round()

    @property
    def _round(self) -> int:
        """Calls of a round in which some were refused."""
        return max(int(self.limit), LEAST_ROUND if self._before_trial is None else TRIAL_ROUND)

    def _free_place(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _restart(self, limit: float) -> None:
        """Begin a round in which answers to calls of before do not count."""
        self._epoch += 1
        self.limit = max(1.0, limit)
        self._sent = self._ended = self._lost = 0

    def _end_round(self) -> None:
        share = Share(self._lost / self._ended, self._ended)
        before, self._before_trial = self._before_trial, None
        if before is not None:
            self._learn(before, share)
        elif self._borne_at and self._clock() >= self._borne_until:
            self._try_half(share)
            return
        if not share.exceeds(self.background):
            if not self._lost or self.limit <= self._borne_at:
                self.background = self.background.with_(share)
            busy = not self.away and self.in_flight >= 0.8 * self.limit and not self._slow
            step = (self.limit if self._doubling else 1.0) if busy else 0.0
            ceiling = self._ceiling if self._clock() < self._ceiling_until else self._most
            self._restart(max(self.limit, min(self.limit + step, ceiling)))
            return
        self._doubling = False
        excess = share.value - self.background.value
        if excess < SHARP:
            self._restart(self.limit * (1.0 - excess / 2))
            self._ceiling, self._ceiling_until = self.limit, self._clock() + PROBE_EVERY
            return
        self._try_half(share)

    def _learn(self, before: Share, half: Share) -> None:
        """What a trial says: `before` was lost at twice the limit of `half`."""
        self._doubling = not before.falls_to(half)
        if self._doubling:
            self.background, self._borne_at = before.with_(half), 2.0 * self.limit
        elif half.value < self.background.value:
            self.background, self._borne_at = half, self.limit
        self._borne_until = self._clock() + PROBE_EVERY

    def _try_half(self, share: Share) -> None:
        self._before_trial = share if share.value < HOPELESS else None
        self._restart(self.limit / 2)

    @property
    def _slow(self) -> bool:
        return self._recent > SLOW * self._usual

    def _open(self) -> bool:
        return self.in_flight < int(self.limit) and self._clock() >= self._rest_until

    def _admit(self) -> None:
        while self._waiting and self._open():
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(self._begin())
        if self._waiting and self.in_flight < int(self.limit) and self._timer is None:
            delay = max(0.0, self._rest_until - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._rested)

    def _rested(self) -> None:
        self._timer = None
        self._admit()
