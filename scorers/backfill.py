"""A backfill at work: stored turns through the scorers, scores into the store, each just once.

Turns are scored on all cores and by the judge at the same time, in any order, and committed every
few seconds. What a killed run had committed is found by `Known` when it is resumed; what it had not
is scored again, the judge's answers from its cache. A commit whose answer was lost is recognised by
its number in the table's own log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

from arro3.core import RecordBatch, Table

from assay.bus.contract import Bus
from assay.errors import retrying
from assay.records import Score, Turn, TurnScores, decode_turn_scores, encode
from assay.store import TABLES, Source, Store
from scorers.backfill_known import Known, KnownKeys, missing
from scorers.backfill_plan import condition_of
from scorers.backfill_run import Run, Runs
from scorers.backfill_source import Talk, TurnSource
from scorers.batch import NICENESS, Job, Refused
from scorers.fleet import FleetPool
from scorers.judge import Judge
from scorers.judged_plan import waiting_scores
from scorers.judging.conversation import Conversations
from scorers.plan import Entry, Key, Plan
from scorers.pool import ScorerPool
from scorers.scoring import turn_scores

BATCH = 64
"""Turns per task of the pool; fewer where a judge is asked, so that it is never idle."""
JUDGED_BATCH = 16
INTERVAL = 5.0
"""Seconds between commits."""
MAX_ROWS = 50_000
"""Rows that make a commit due at once."""
SLICE = 2000
"""Rows that become columns together."""
STORE_DEADLINE = 300.0
"""Seconds for which a store that is away is waited for."""
UNASKED = ("sampled_out", "filtered", "budget", "late")
"""Outcomes of entries that nobody was asked about: no row, so that a later run may ask."""

Piece = list[tuple[Turn, frozenset[Key]]]
Whole = tuple[list[Turn], Talk, list[Entry]]
W = TypeVar("W")


class Backfill:
    """One process that works on a run. `work` once; `stop` any time."""

    def __init__(
        self,
        run: Run,
        runs: Runs,
        source: TurnSource,
        store: Store,
        plan: Plan,
        known: Known,
        judge: Judge | None = None,
        conversations: Conversations | None = None,
        *,
        processes: int | None = None,
        fleet: Bus | None = None,
        on_progress: Callable[[Run], None] = lambda run: None,
    ) -> None:
        self._run = run
        self._runs = runs
        self._source = source
        self._store = store
        self._plan = plan
        self._known = known
        self._judge = judge
        self._conversations = conversations
        self._on_progress = on_progress
        self._condition = condition_of(run)
        self._local = plan.part(lambda entry: not entry.waits)
        self._waiting = plan.part(lambda entry: entry.waits)
        local = bool(self._local.base or any(self._local.apps.values()))
        waiting = bool(self._waiting.base or any(self._waiting.apps.values()))
        job = Job(self._local, "local", run.run_id, NICENESS)
        self._pool: ScorerPool | FleetPool | None = None
        if local:
            self._pool = (
                ScorerPool(job, processes=processes)
                if fleet is None
                else FleetPool(fleet, run, job)
            )
        self._size = JUDGED_BATCH if waiting else BATCH
        room = 2 * self._pool.processes + 1 if self._pool is not None else 1
        if judge is not None and (waiting or conversations is not None):
            room = max(room, 3 * judge.client.settings.concurrency // self._size + 2)
        self._room = asyncio.Semaphore(room)
        self._tasks: set[asyncio.Task[None]] = set()
        self._taken = 0
        self._rows: list[tuple[TurnScores, Score]] = []
        self._batches: list[RecordBatch] = []
        self._pending = 0
        self._committing = asyncio.Lock()
        self._position = 0
        self._committed_at = time.monotonic()
        self._worked_from = time.monotonic()
        self._stop = False
        self._out_of_budget = False
        self._failed: BaseException | None = None

    def stop(self) -> None:
        """Take on no more turns; `work` ends after those under way."""
        self._stop = True

    async def work(self) -> None:
        """Score what is missing. The run's record tells at any time how far it is.

        Raises AssayError when the store stays away; what was committed stays.
        """
        run, counts = self._run, self._run.counts
        run.state, counts.left = "running", 0
        self._runs.save(run)
        self._position = await self._store.position("scores", self._name)
        if self._pool is not None:
            self._pool.start()
        try:
            await self._produce()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._failed is not None:
                raise self._failed
            await self._commit()
            if self._runs.is_cancelled(run):
                run.state = "cancelled"
            elif counts.left or self._out_of_budget:
                run.state = "limited"
            elif not self._stop:
                run.state = "done"
            run.finished_at = time.time_ns()
        finally:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._pool is not None:
                await self._pool.stop()
            self._runs.save(run)
            self._on_progress(run)

    @property
    def _name(self) -> str:
        """Under which the store knows this run's commits."""
        return f"backfill/{self._run.run_id}"

    async def _produce(self) -> None:
        for day in await self._source.days():
            known = await self._known.of_day(day)
            stored = None if self._source.stored else await self._known.stored_turns(day)
            async for turns in self._source.turns(day):
                if self._ends():
                    return
                fits = self._within_limit(self._wanted(turns, known))
                if stored is not None:
                    # A conversation's scores stand for all of its turns.
                    kept = turns if self._conversations else [turn for turn, _ in fits]
                    await self._store_turns(day, [t for t in kept if t.turn_id not in stored])
                for start in range(0, len(fits), self._size):
                    await self._begin(self._score(fits[start : start + self._size]))
        if self._conversations is not None:
            await self._converse(self._conversations)

    async def _converse(self, conversations: Conversations) -> None:
        async for day, talks in self._source.talks():
            known = await self._known.of_day(day)
            wanted = {
                talk.last_turn: (talk, entries)
                for talk in talks
                if (entries := missing(conversations.plan, talk.app, known, talk.last_turn))
            }
            piece: list[Whole] = []
            async for turns in self._source.whole([talk for talk, _ in wanted.values()]):
                if self._ends():
                    return
                # A conversation that went on meanwhile ends otherwise: it is a later run's.
                found = wanted.get(turns[-1].turn_id)
                if found is not None and self._condition(turns[-1]):
                    piece.append((turns, *found))
                if len(piece) == JUDGED_BATCH:
                    await self._begin_whole(conversations, piece)
                    piece = []
            await self._begin_whole(conversations, piece)

    async def _begin_whole(self, conversations: Conversations, piece: list[Whole]) -> None:
        fits = self._within_limit(piece)
        if fits:
            await self._begin(self._score_whole(conversations, fits))

    def _within_limit(self, wanted: list[W]) -> list[W]:
        """The first of `wanted`, as many as the run's limit leaves; the others are left."""
        limit = self._run.limit
        fits = wanted if limit is None else wanted[: max(0, limit - self._taken)]
        self._run.counts.left += len(wanted) - len(fits)
        self._taken += len(fits)
        return fits

    def _ends(self) -> bool:
        if self._failed is not None:
            raise self._failed
        return self._stop or self._out_of_budget or self._runs.is_cancelled(self._run)

    def _wanted(self, turns: Sequence[Turn], known: KnownKeys) -> Piece:
        """The turns of which something is missing, with what is known of them."""
        return [
            (turn, known.get(turn.turn_id, frozenset()))
            for turn in turns
            if missing(self._plan, turn.app, known, turn.turn_id) and self._condition(turn)
        ]

    async def _begin(self, work: Coroutine[None, None, None]) -> None:
        await self._room.acquire()
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()
        if not task.cancelled() and self._failed is None:
            self._failed = task.exception()

    async def _score(self, piece: Piece) -> None:
        local, judged = await asyncio.gather(self._by_pool(piece), self._by_waiting(piece))
        self._run.counts.turns += len(piece)
        await self._add(*local, *judged)

    async def _score_whole(self, conversations: Conversations, piece: list[Whole]) -> None:
        found = await asyncio.gather(
            *(
                conversations.scores(
                    turns, entries, run=self._run.run_id, cut=talk.turns - len(turns)
                )
                for turns, talk, entries in piece
            )
        )
        self._run.counts.conversations += len(piece)
        await self._add(*found)

    async def _add(self, *found: TurnScores) -> None:
        """Take in scores; commit when that is due."""
        counts = self._run.counts
        for scores in found:
            for entry in scores.scores:
                if entry.outcome in UNASKED:
                    counts.unasked += 1
                    self._out_of_budget |= entry.outcome == "budget"
                    continue
                self._rows.append((scores, entry))
                counts.errors += entry.outcome == "error"
                if entry.judge_usage is not None:
                    counts.judge_calls += entry.judge_usage.calls
                    counts.cost += entry.judge_usage.cost or 0.0
        if len(self._rows) >= SLICE:
            self._to_columns()
        due = time.monotonic() - self._committed_at >= INTERVAL
        if due or self._pending >= MAX_ROWS:
            await self._commit()
        else:
            self._on_progress(self._run)

    async def _by_pool(self, piece: Piece) -> list[TurnScores]:
        pool = self._pool
        if pool is None:
            return []
        known = [there for _, there in piece] if any(there for _, there in piece) else None
        results = await pool.score([encode(turn) for turn, _ in piece], known)
        return [decode_turn_scores(found) for found in results if not isinstance(found, Refused)]

    async def _by_waiting(self, piece: Piece) -> list[TurnScores]:
        """The scores of judge and other waiting entries; turns wait side by side."""
        wanted = [
            (turn, entries)
            for turn, there in piece
            if (entries := [e for e in self._waiting.entries(turn.app) if e.key not in there])
        ]
        return await asyncio.gather(*(self._wait(turn, entries) for turn, entries in wanted))

    async def _wait(self, turn: Turn, entries: list[Entry]) -> TurnScores:
        run_id = self._run.run_id
        scores = await waiting_scores(turn, entries, self._judge, run_id)
        return turn_scores(turn, scores, group="judge", scored_at=time.time_ns(), run=run_id)

    def _to_columns(self) -> None:
        """Rows become columns as they come: so many records that live on would keep the garbage
        collector busy."""
        rows, self._rows = self._rows, []
        if rows:
            self._batches += TABLES["scores"].arrow(rows).to_batches()
            self._pending += len(rows)

    async def _commit(self) -> None:
        async with self._committing:
            self._to_columns()
            batches, self._batches = self._batches, []
            count, self._pending = self._pending, 0
            self._committed_at = time.monotonic()
            if batches:
                position = self._position
                rows = Table.from_batches(batches)
                await self._append(
                    "scores", Source(self._name, [position] * count, rows, position + 1)
                )
                self._position = position + 1
                self._run.counts.scores += count
            now = time.monotonic()
            self._run.counts.seconds += now - self._worked_from
            self._worked_from = now
            self._runs.save(self._run)
        self._on_progress(self._run)

    async def _store_turns(self, day: int, turns: list[Turn]) -> None:
        """Turns of an import become rows of the store before their scores do."""
        if turns:
            name = f"{self._name}/{day}"
            position = await self._store.position("turns", name)
            offsets = [position] * len(turns)
            await self._append("turns", Source(name, offsets, turns, position + 1))

    async def _append(self, table: str, source: Source) -> None:
        await retrying(lambda: self._store.append(table, [source]), deadline=STORE_DEADLINE)
