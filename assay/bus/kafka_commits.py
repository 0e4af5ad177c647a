"""A member's commits: together where they come together, and never for what is not ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from assay.bus.kafka_pump import Claim, Pump
from assay.bus.kafka_records import Ready
from assay.bus.kafka_shelf import Shelf
from assay.bus.kafka_transactions import Fenced, Intent, Transactions, Unclear
from assay.errors import AssayError, Permanent

MOST_BYTES = 16 * 2**20
"""Of the outputs of one transaction."""
FENCED_FOR, FENCED_WAIT = 20.0, 0.1
"""Seconds for which a commit waits out a rebalance, and between attempts."""


class _Wanted:
    """One commit that waits."""

    def __init__(
        self,
        records: Sequence[Ready],
        marks: Mapping[TopicPartition, Sequence[int]],
        claims: frozenset[Claim],
    ) -> None:
        self.records = records
        self.marks = marks
        self.claims = claims
        self.size = sum(len(record.value or b"") for record in records)
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, error: AssayError) -> None:
        if not self.settled.done():
            self.settled.set_exception(error)

    def succeed(self) -> None:
        if not self.settled.done():
            self.settled.set_result(None)


class Commits:
    """`shelves` are looked up at each transaction; what took effect is marked in their progress."""

    def __init__(
        self,
        group: str,
        transactions: Transactions,
        pump: Pump,
        shelves: Callable[[], Mapping[TopicPartition, Shelf]],
    ) -> None:
        self._group = group
        self._transactions = transactions
        self._pump = pump
        self._shelves = shelves
        self._waiting: list[_Wanted] = []
        self._runner: asyncio.Task[None] | None = None
        self.broken: AssayError | None = None
        """Set when it is not known what took effect, or the brokers refuse the membership: nothing
        may be committed any more."""

    async def commit(
        self,
        records: Sequence[Ready],
        marks: Mapping[TopicPartition, Sequence[int]],
        claims: frozenset[Claim],
    ) -> None:
        """Write `records` and mark offsets, for partitions that must be ours by these `claims`."""
        wanted = _Wanted(records, marks, claims)
        self._waiting.append(wanted)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run(), name=f"commits of {self._group}")
        await wanted.settled

    async def finish(self) -> None:
        """Return when nothing is under way."""
        if self._runner is not None and not self._runner.done():
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        while self._waiting:
            together, size = [self._waiting.pop(0)], 0
            while self._waiting and (size := size + together[-1].size) < MOST_BYTES:
                together.append(self._waiting.pop(0))
            try:
                await self._make(together)
            except AssayError as error:
                for wanted in together:
                    wanted.fail(error)
            except BaseException as error:
                for wanted in together:
                    wanted.fail(Permanent(f"a commit failed: {type(error).__name__}"))
                raise

    async def _make(self, together: list[_Wanted]) -> None:
        until = time.monotonic() + FENCED_FOR
        while together := self._ours(together):
            shelves = self._shelves()
            offsets = _offsets(together, shelves)
            records = [record for wanted in together for record in wanted.records]
            claims = frozenset[Claim]().union(*(wanted.claims for wanted in together))

            def intent(
                records: list[Ready] = records,
                offsets: dict[TopicPartition, OffsetAndMetadata] = offsets,
                claims: frozenset[Claim] = claims,
            ) -> Intent:
                # The membership first: a partition that is still ours after it was taken note of
                # is ours in that membership or an earlier one, and the brokers refuse the earlier.
                group = self._pump.membership()
                if not claims <= self._pump.owned():
                    raise Fenced
                return Intent(records, offsets, group)

            try:
                await self._transactions.commit(intent)
            except Fenced:
                if time.monotonic() > until:
                    self.broken = Permanent(f"the brokers refuse this member of {self._group}")
                    raise self.broken from None
                await asyncio.sleep(FENCED_WAIT)
                continue
            except Unclear as error:
                self.broken = Permanent(
                    f"it is not known whether the last commit of group {self._group} took effect"
                )
                raise self.broken from error
            for wanted in together:
                for place, marked in wanted.marks.items():
                    for offset in marked:
                        shelves[place].progress.mark(offset)
                wanted.succeed()
            return

    def _ours(self, together: Iterable[_Wanted]) -> list[_Wanted]:
        """Those whose partitions are ours; the others are refused."""
        if self.broken is not None:
            raise self.broken
        owned = self._pump.owned()
        places = self._shelves()
        ours = []
        for wanted in together:
            if wanted.claims <= owned and wanted.marks.keys() <= places.keys():
                ours.append(wanted)
            else:
                wanted.fail(Permanent(f"this member of group {self._group} lost its partitions"))
        return ours


def _offsets(
    together: Sequence[_Wanted], shelves: Mapping[TopicPartition, Shelf]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The progress as it will be. It always names a partition, for that is what is fenced."""
    marks: dict[TopicPartition, list[int]] = {}
    for wanted in together:
        for place, offsets in wanted.marks.items():
            marks.setdefault(place, []).extend(offsets)
    if not marks:
        numbers = {claim.number for claim in together[0].claims}
        marks = {next(p for p in shelves if not numbers or p.partition in numbers): []}
    found = {}
    for place, offsets in marks.items():
        progress = shelves[place].progress.copy()
        for offset in offsets:
            progress.mark(offset)
        found[place] = OffsetAndMetadata(progress.next, progress.metadata(), -1)
    return found
