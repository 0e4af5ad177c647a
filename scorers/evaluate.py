"""Evaluation of a data set: rows to turns, turns to scores, all metrics of one plan.

A row that is a conversation gives its last turn's scores and, for metrics that conversations have,
one Score with subject conversation over its turns. Rows are worked on side by side and come out in
the order of the file.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from assay.config import Config
from assay.errors import AssayError
from assay.records import Score, Turn, TurnScores, decode_turn_scores, encode
from scorers.batch import Job, Refused
from scorers.evaluate_data import BadLine, DataRow, Report
from scorers.evaluate_mapping import Mapper, Missing
from scorers.evaluate_target import Target
from scorers.judge import Judge
from scorers.judged_plan import (
    all_entries,
    conversations_of,
    plan_of,
    unsampled,
    waiting_scores,
)
from scorers.plan import Entry, Plan
from scorers.pool import ScorerPool
from scorers.rows import to_turns
from scorers.score_rows import conversation_scores
from scorers.scoring import score_turn, turn_scores

POOL_FROM = 400
"""Rows from which on several processes are worth starting."""
IN_FLIGHT = 32
"""Rows worked on side by side, for each core and at least."""
GROUP = "evaluation"
SHOWN = 20
"""Columns that a message names."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one row."""

    name: str
    """Pairs the row with the same row of another run."""
    line: int
    turn: Turn
    """The row's last turn."""
    scores: TurnScores


class Evaluation:
    """One run over a data set. Call `results` once; bad rows go to `report`."""

    def __init__(
        self,
        config: Config,
        judge: Judge | None,
        *,
        run_id: str,
        report: Report,
        mapper: Mapper | None = None,
        target: Target | None = None,
        processes: int | None = None,
    ) -> None:
        """Raises ConfigError when the settings' metrics cannot be scored."""
        self.plan = whole_plan(config, judge)
        self._conversations = conversations_of(unsampled(config), judge)
        if self._conversations is not None:
            _take_all(self._conversations.plan)
        self._judge = judge
        self._run_id = run_id
        self._mapper = mapper or Mapper()
        self._target = target
        self._processes = processes
        self._report = report
        self._pool: ScorerPool | None = None
        self._needs_response = self._conversations is None and _needs_response(self.plan)

    def metrics(self) -> list[str]:
        """The names of what is scored."""
        plans = (
            [self.plan] if self._conversations is None else [self.plan, self._conversations.plan]
        )
        return sorted({entry.metric.name for entry in all_entries(*plans)})

    async def results(self, rows: list[DataRow]) -> AsyncGenerator[Result, None]:
        """A result for each good row, in order, as soon as those before it are there."""
        async with AsyncExitStack() as stack:
            if len(rows) >= POOL_FROM:
                job = Job(self.plan.part(lambda entry: not entry.waits), GROUP, self._run_id)
                self._pool = ScorerPool(job, processes=self._processes)
                self._pool.start()
                stack.push_async_callback(self._pool.stop)
            waiting: deque[asyncio.Task[Result | None]] = deque()
            stack.callback(lambda: [task.cancel() for task in waiting])
            for number, row in enumerate(rows):
                waiting.append(asyncio.create_task(self._result(number, row)))
                if len(waiting) >= self._width():
                    result = await waiting.popleft()
                    if result is not None:
                        yield result
            while waiting:
                result = await waiting.popleft()
                if result is not None:
                    yield result

    def _width(self) -> int:
        width = IN_FLIGHT * (self._pool.processes if self._pool is not None else 1)
        if self._judge is not None:
            width = max(width, 4 * self._judge.client.settings.concurrency)
        return width

    async def _result(self, number: int, row: DataRow) -> Result | None:
        try:
            outputs = await self._target.answer(row.values) if self._target is not None else {}
            turns = to_turns(self._mapper.apply(row.values, outputs), number)
            self._check(turns[-1], row.values)
        except (Missing, ValueError, AssayError) as error:
            self._report(BadLine(row.line, str(error)))
            return None
        entries = self.plan.entries(turns[-1].app)
        each = [await self._scores(turn, entries) for turn in turns]
        whole = list(conversation_scores(each, entries)) if len(each) > 1 else []
        if self._conversations is not None:
            asked = self._conversations.plan.entries(turns[-1].app)
            found = await self._conversations.scores(turns, asked, run=self._run_id)
            whole += found.scores
        scores = msgspec.structs.replace(each[-1], scores=(*each[-1].scores, *whole))
        return Result(name=row.name, line=row.line, turn=turns[-1], scores=scores)

    def _check(self, turn: Turn, values: Mapping[str, Any]) -> None:
        """Raises ValueError for a turn that no evaluation is meant for."""
        if turn.response is not None and not turn.response.strip() and not turn.tool_calls:
            raise ValueError("the response is empty")
        if turn.response is None and not turn.tool_calls and self._needs_response:
            columns = ", ".join(list(values)[:SHOWN])
            raise ValueError(f"there is no response: --map response=...; columns: {columns}")

    async def _scores(self, turn: Turn, entries: tuple[Entry, ...]) -> TurnScores:
        """The turn's scores in the order of the plan."""
        waiting = [entry for entry in entries if entry.waits]
        local, judged = await asyncio.gather(
            self._local(turn, entries), waiting_scores(turn, waiting, self._judge, self._run_id)
        )
        left, right = iter(local), iter(judged)
        scores = tuple(next(right if entry.waits else left) for entry in entries)
        now = time.time_ns()
        return turn_scores(turn, scores, group=GROUP, scored_at=now, run=self._run_id)

    async def _local(self, turn: Turn, entries: tuple[Entry, ...]) -> tuple[Score, ...]:
        if self._pool is not None:
            (found,) = await self._pool.score([encode(turn)])
            if not isinstance(found, Refused):
                return decode_turn_scores(found).scores
        own = [entry for entry in entries if not entry.waits]
        return score_turn(turn, own, group=GROUP, scored_at=0, run=self._run_id).scores


def whole_plan(config: Config, judge: Judge | None) -> Plan:
    """The plan of the settings with every turn scored: a data set is a sample already."""
    plan = plan_of(config, judge)
    _take_all(plan)
    return plan


def _take_all(plan: Plan) -> None:
    for entry in all_entries(plan):
        entry.ratio = 1.0


def _needs_response(plan: Plan) -> bool:
    entries: Iterable[Entry] = all_entries(plan)
    return all(any("response" in need for need in entry.needs) for entry in entries)
