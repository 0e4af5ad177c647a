"""A backfill's turns scored by the processes of the fleet, over topics of their own.

Who works on the run asks: batches of turns go out as tasks, their scores come back as answers, and
only the asker writes to the store. So live turns and live scores wait behind nothing, and a run
that was killed and resumed leaves no double: what nobody waits for any more is not looked at.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from contextlib import aclosing

import msgspec

from assay.bus.contract import Bus, Outgoing
from assay.bus.topics import BACKFILL, BACKFILL_SCORES
from assay.errors import AssayError, Permanent, Retryable, retrying
from assay.records import encode
from scorers import batch
from scorers.backfill_run import Run
from scorers.batch import Job, Known, Refused, Result
from scorers.plan import Key

PATIENCE = 300.0
"""Seconds without any answer after which nobody is taken to work for the run."""
PUBLISH = 300.0
"""Seconds for which brokers that are away are waited for."""
BEFORE = 60_000
"""Milliseconds by which the brokers' clock may be behind ours."""
NO_TURN = b"null"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Turns to score."""

    run: Run
    asker: str
    number: int
    turns: list[msgspec.Raw]
    known: list[frozenset[Key]] | None
    """Entries of each turn that are not asked for."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of a task, in its order; `null` for what was no turn."""

    asker: str
    number: int
    scores: list[msgspec.Raw] = []
    refused: str = ""
    """Why the run cannot be worked on; empty when it can."""


class FleetPool:
    """Scores as a `ScorerPool` does, by the members of the group `backfill`."""

    def __init__(self, bus: Bus, run: Run, job: Job) -> None:
        self._bus = bus
        self._run = run
        self._job = job
        self.processes = bus.partitions(BACKFILL)
        self._room = bus.max_value * 3 // 4
        self._asker = secrets.token_hex(8)
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._heard = time.monotonic()
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen for answers."""
        self._reading = asyncio.create_task(self._read(), name="answers of the fleet")

    async def stop(self) -> None:
        """Safe twice and without start."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def score(self, values: list[bytes], known: Known = None) -> list[Result]:
        """The results of a batch, in order. Raises `Permanent` when nobody works for the run."""
        if sum(map(len, values)) > self._room:
            if len(values) == 1:
                return [batch.give_up(values[0], self._job, *(known or ()))]
            middle = len(values) // 2
            first, second = (known[:middle], known[middle:]) if known is not None else (None, None)
            return [
                *await self.score(values[:middle], first),
                *await self.score(values[middle:], second),
            ]
        answer = await self._ask(values, known)
        if answer.refused:
            raise Permanent(f"the fleet refuses the run: {answer.refused}")
        return [
            Refused("unreadable") if bytes(found) == NO_TURN else bytes(found)
            for found in answer.scores
        ]

    async def _ask(self, values: list[bytes], known: Known) -> Answer:
        number = next(self._numbers)
        task = Task(
            run=self._run,
            asker=self._asker,
            number=number,
            turns=[msgspec.Raw(value) for value in values],
            known=known,
        )
        outgoing = Outgoing(BACKFILL, encode(task), partition=number % self.processes)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            self._heard = time.monotonic()
        self._waiting[number] = answer
        try:
            await retrying(lambda: self._bus.publish([outgoing]), deadline=PUBLISH)
            while not answer.done():
                await asyncio.wait([answer], timeout=PATIENCE / 10)
                if time.monotonic() - self._heard > PATIENCE:
                    raise Permanent("nobody scores for the run: start `assay score -g backfill`")
            return answer.result()
        finally:
            del self._waiting[number]

    async def _read(self) -> None:
        since = int(time.time() * 1000) - BEFORE
        while True:
            try:
                async with aclosing(
                    self._bus.read(BACKFILL_SCORES, since=since, follow=True)
                ) as records:
                    async for record in records:
                        since = record.timestamp
                        self._take(record.value)
            except Retryable:
                await asyncio.sleep(1.0)
            except AssayError as error:
                for answer in self._waiting.values():
                    if not answer.done():
                        answer.set_exception(error)
                return

    def _take(self, value: bytes) -> None:
        try:
            found = msgspec.json.decode(value, type=Answer)
        except (msgspec.MsgspecError, RecursionError):
            return  # of another version's asker
        if found.asker != self._asker:
            return
        self._heard = time.monotonic()
        answer = self._waiting.get(found.number)
        if answer is not None and not answer.done():
            answer.set_result(found)
