"""How many calls may be in flight at an endpoint.

The limit moves once per round. A round looks at the next calls that are sent, about as many as may
be in flight, and at the share of them that was lost: refused, failed or broken off. What is lost
however few are in flight is the endpoint's `background`, which is borne; what is lost beyond it is
lost to a limit.

While no more than the background is lost, the limit grows: it doubles until a limit is met, then
takes small steps. When more is lost, a trial round has a little less in flight than was answered.
No limit refuses any of that, so what the trial loses is the background, and both rounds together
tell the room: `a` calls answered at a time are all that a limit takes, and `a / (1 - background)`
in flight keep it busy. Where that is no less than before, the losses were no limit's and growth
goes on; else the limit stays there. After `REVIEW_EVERY` both findings are put to the test again.

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

FAST, STEADY = 2.0, 1.06
"""Growth a round, by one call at least, before and after a limit was met."""
BELOW = 0.9
"""Part of the calls answered at a time that a trial has in flight."""
ROUGH = 0.5
"""Part of the limit below which the room is only roughly known: growth goes on from there."""
REVIEW_EVERY, REVIEW_ANSWERS = 30.0, 20.0
"""Seconds, and usual times of an answer, until findings are put to the test again."""
MOST_BORNE = 0.9
"""Of the background: an endpoint that loses more is as good as away."""
LEAST_ROUND, LEAST_TRIAL = 20, 60
"""Calls of a round in which some were lost, and of a trial; fewer would say too little."""
ENDED = 0.9
"""Part of a round's calls after which it is judged: hung ones are not waited for."""
SLOW = 2.0
"""Growth rests while answers take this many times their usual time."""
NOISE = 2.5
"""Standard errors by which a share must be higher to count as higher."""
FIRST_WEIGHT, MOST_WEIGHT = 100.0, 600.0
"""Calls that the background stands for before any was sent, and the most that it remembers."""
IN_A_ROW = 10
"""Lost calls, and no fewer than may be in flight, after which an endpoint is away."""
FIRST_REST, LONGEST_REST = 0.5, 30.0
"""Seconds between probes of an endpoint that is away."""


class Ticket(NamedTuple):
    """A place in flight."""

    epoch: int
    """Of the limit under which the call began."""
    counted: bool
    """Whether its end counts for the round."""
    began: float


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

    def with_(self, other: Share) -> Share:
        """Both together, as of at most MOST_WEIGHT calls."""
        calls = self.calls + other.calls
        mean = (self.value * self.calls + other.value * other.calls) / calls
        return Share(mean, min(calls, MOST_WEIGHT))


UNKNOWN = Share(0.0, FIRST_WEIGHT)


class Pace:
    """A gate with a moving limit, fair in order of arrival.

    `enter` gives a ticket; exactly one of `answered`, `lost` and `abandoned` must follow it.
    """

    def __init__(
        self, most: int, *, start: int = 8, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit = min(start, most)
        self.in_flight = 0
        self.background = UNKNOWN
        """Of the calls that end without an answer however few are in flight."""
        self._most = most
        self._clock = clock
        self._waiting: deque[asyncio.Future[Ticket]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._growth = FAST
        self._ceiling = most
        self._known_at = 0
        """The limit at which the background was found."""
        self._review_at = math.inf
        self._on_trial: tuple[int, Share] | None = None
        """The limit that lost more than the background, and how much."""
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

    def lost(self, ticket: Ticket, rest: float = 0.0) -> None:
        """The endpoint refused, broke or hung; it asked for a pause of `rest` seconds.

        The place stays taken for as long as an answer takes: else the waiting callers would be
        refused through it one after another.
        """
        self._unanswered(ticket, rest)
        held = self._usual - (self._clock() - ticket.began)
        if held > 0.0:
            asyncio.get_running_loop().call_later(held, self._free_place)
        else:
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
        return Ticket(self._epoch, counted, self._clock())

    def _unanswered(self, ticket: Ticket, rest: float) -> None:
        if ticket.epoch == self._epoch:
            self._in_a_row += 1
            if self._in_a_row > max(IN_A_ROW, self.limit):
                pause = max(rest, min(FIRST_REST * 2.0**self._rests, LONGEST_REST))
                self._rest_until = self._clock() + pause
                self._rests = min(self._rests + 1, 16)
                self._in_a_row = IN_A_ROW
                self._growth = FAST
                self._on_trial = None
                self._forget()
                self._restart(1)
                return
        self._count(ticket, lost=1)

    def _count(self, ticket: Ticket, lost: int) -> None:
        if not ticket.counted or ticket.epoch != self._epoch:
            return
        self._ended += 1
        self._lost += lost
        clean = not self._lost and self._on_trial is None
        if self._ended >= ENDED * (self.limit if clean else self._round):
            self._end_round()

    @property
    def _round(self) -> int:
        """Calls of a round in which some were lost."""
        return max(self.limit, LEAST_ROUND if self._on_trial is None else LEAST_TRIAL)

    def _free_place(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _restart(self, limit: float) -> None:
        """Begin a round in which answers to calls of before do not count."""
        self._epoch += 1
        self.limit = min(max(1, int(limit)), self._most)
        self._sent = self._ended = self._lost = 0

    def _end_round(self) -> None:
        share = Share(self._lost / self._ended, self._ended)
        if self._on_trial is not None:
            self._learn(*self._on_trial, share)
            return
        if self._clock() >= self._review_at:
            self._forget()
        if share.exceeds(self.background):
            self._on_trial = self.limit, share
            self._restart(BELOW * _room(self.limit, share, self.background))
            return
        if not self._lost or self.limit <= self._known_at:
            self.background = self.background.with_(share)
        busy = not self.away and self.in_flight >= 0.8 * self.limit and not self._slow
        grown = max(self.limit + 1, self.limit * self._growth) if busy else self.limit
        self._restart(max(self.limit, min(grown, self._ceiling)))

    def _learn(self, limit: int, share: Share, below: Share) -> None:
        """What a trial says: at `limit` a round lost `share`, with fewer in flight `below`."""
        self._on_trial = None
        self.background = Share(min(below.value, MOST_BORNE), below.calls)
        room = _room(limit, share, self.background)
        if not share.exceeds(below):
            room = max(room, limit)
        elif self._growth == FAST or room < ROUGH * limit:
            self._growth = STEADY
        else:
            # The round was looked at because it lost much, by chance too, so its room is low; the
            # step before lost nothing that stood out, so its limit is high.
            room = (room + limit / STEADY) / 2
            self._ceiling = int(room)
        self._restart(room)
        self._known_at = self.limit
        self._review_at = self._clock() + max(REVIEW_EVERY, REVIEW_ANSWERS * self._usual)

    def _forget(self) -> None:
        self.background, self._known_at = UNKNOWN, 0
        self._ceiling, self._review_at = self._most, math.inf

    @property
    def _slow(self) -> bool:
        return self._recent > SLOW * self._usual

    def _open(self) -> bool:
        return self.in_flight < self.limit and self._clock() >= self._rest_until

    def _admit(self) -> None:
        while self._waiting and self._open():
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(self._begin())
        if self._waiting and self.in_flight < self.limit and self._timer is None:
            delay = max(0.0, self._rest_until - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._rested)

    def _rested(self) -> None:
        self._timer = None
        self._admit()


def _room(limit: int, share: Share, background: Share) -> float:
    """The calls in flight that keep busy what answered `1 - share` of `limit` at a time."""
    return limit * (1.0 - share.value) / (1.0 - background.value)
