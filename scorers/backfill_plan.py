"""What a backfill will do, before it does it: the plan in force, and an estimate of its price.

Turns and what is known of them are counted; what one turn costs is measured on a few of them: the
local engines by scoring them, the judge by rendering its requests without sending any.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

import msgspec

from assay import when
from assay.config import Config, JudgeBudget, JudgeEndpoint
from assay.config import Judge as JudgeSettings
from assay.records import Turn
from scorers import cascade
from scorers.backfill_known import Known
from scorers.backfill_run import Run
from scorers.backfill_source import TurnSource
from scorers.judge import Judge
from scorers.judged_plan import all_entries
from scorers.judging.evidence import evidence_of
from scorers.judging.prices import cost_of
from scorers.judging.tokens import tokens_of
from scorers.plan import Entry, Key, Plan
from scorers.scoring import score_turn, unasked

LOOKED_AT = 60
"""Turns on which the cost of one is measured."""
ANSWER_TOKENS = 150
"""What a judge's answer is taken to be long."""
ANSWER_SECONDS = 2.0


class Estimate(msgspec.Struct, kw_only=True):
    """What a run would do. Numbers of the judge, and all where `about`, are extrapolated."""

    turns: int = 0
    """Selected turns."""
    todo: int = 0
    """Those of which something is still to be scored."""
    entries: int = 0
    """Scores to make."""
    known: int = 0
    """Scores that are there already."""
    about: bool = False
    """A condition decides, which was tried on a sample only."""
    judge_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    """US dollars; none when a judge's price is not known."""
    seconds: float = 0.0


def with_share(config: Config, share: float) -> Config:
    """The settings with the part of the judge's budget and concurrency that a run may use."""
    judge = config.judge
    if judge is None or share >= 1.0:
        return config
    given = judge.budget.model_dump(exclude_none=True)
    tokens = given.pop("tokens_per_minute", None)
    less = JudgeBudget(
        **{name: value * share for name, value in given.items()},
        tokens_per_minute=None if tokens is None else max(1, round(tokens * share)),
    )

    def concurrency(endpoint: JudgeEndpoint) -> dict[str, int]:
        return {"concurrency": max(1, math.floor(endpoint.concurrency * share))}

    endpoints = [one.model_copy(update=concurrency(one)) for one in judge.endpoints]
    update = {"budget": less, "endpoints": endpoints, **concurrency(judge)}
    settings: JudgeSettings = judge.model_copy(update=update)
    return config.model_copy(update={"judge": settings})


def scorers_in(plan: Plan) -> list[tuple[str, str, str, str]]:
    """What a run records of its scorers: another version of one would make another run of it."""
    found = {(*entry.key, entry.scorer.version) for entry in all_entries(plan)}
    return sorted(found)


async def estimate(
    run: Run, source: TurnSource, known: Known, plan: Plan, judge: Judge | None, processes: int
) -> Estimate:
    """What `run` would do with the turns of `source` now."""
    found = Estimate()
    days = await source.days()
    sample: list[tuple[Turn, frozenset[Key]]] = []
    each = max(1, LOOKED_AT // max(1, len(days)))
    for day, count in days.items():
        found.turns += count
        there = await known.of_day(day)
        async for names in source.names(day):
            for turn_id, app in names:
                own = there.get(turn_id, frozenset())
                missing = sum(entry.key not in own for entry in plan.entries(app))
                found.known += len(plan.entries(app)) - missing
                found.entries += missing
                found.todo += missing > 0
        if len(sample) < LOOKED_AT:
            async for turns in source.turns(day):
                sample += [(turn, there.get(turn.turn_id, frozenset())) for turn in turns[:each]]
                break
    _extrapolate(found, run, sample, plan, judge, processes)
    return found


def _extrapolate(
    found: Estimate,
    run: Run,
    sample: list[tuple[Turn, frozenset[Key]]],
    plan: Plan,
    judge: Judge | None,
    processes: int,
) -> None:
    condition = condition_of(run)
    if run.selected.when is not None:
        share = sum(condition(turn) for turn, _ in sample) / max(1, len(sample))
        found.about = True
        found.todo, found.entries = round(found.todo * share), round(found.entries * share)
    if run.limit is not None and found.todo > run.limit:
        found.entries = round(found.entries * run.limit / found.todo)
        found.todo, found.about = run.limit, True
    taken = [
        (turn, entries)
        for turn, own in sample
        if condition(turn)
        and (entries := [entry for entry in plan.entries(turn.app) if entry.key not in own])
    ]
    if not taken:
        return
    scale = found.todo / len(taken)
    began = time.perf_counter()
    for turn, entries in taken:
        local = [entry for entry in entries if not entry.waits]
        score_turn(turn, local, group="local", scored_at=0)
    found.seconds = (time.perf_counter() - began) * scale / processes
    if judge is not None:
        _price(found, taken, judge, scale)


def _price(
    found: Estimate, asked: Iterable[tuple[Turn, list[Entry]]], judge: Judge, scale: float
) -> None:
    calls = tokens_in = tokens_out = 0.0
    cost: float | None = 0.0
    for turn, entries in asked:
        for entry in entries:
            question = judge.question(entry) if entry.waits else None
            if question is None or unasked(turn, entry) is not None:
                continue
            evidence = evidence_of(turn, question.prompt.inputs)
            own = question.prompt.fixed_tokens + tokens_of(evidence)
            times = question.samples * (2.0 if question.prompt.scale.kind == "pair" else 1.0)
            times *= cascade.share_asked(turn, entry)
            calls += times
            tokens_in += own * times
            tokens_out += ANSWER_TOKENS * times
            price = judge.client.price(question.model)
            if price is None or cost is None:
                cost = None
            else:
                cost += cost_of(price, round(own * times), 0, round(ANSWER_TOKENS * times))
    found.judge_calls = round(calls * scale)
    found.input_tokens = round(tokens_in * scale)
    found.output_tokens = round(tokens_out * scale)
    found.cost = None if cost is None else cost * scale
    waiting = calls * scale * ANSWER_SECONDS / judge.client.settings.concurrency
    found.seconds = max(found.seconds, waiting)


def condition_of(run: Run) -> Callable[[Turn], bool]:
    """The run's `when`. Raises ConfigError for a wrong expression."""
    if run.selected.when is None:
        return lambda turn: True
    return when.compile(run.selected.when)
