"""What a backfill will do, before it does it: the plan in force, and an estimate of its price.

Turns and what is known of them are counted; what one turn costs is measured on a few of them: the
local engines by scoring them, the judge by rendering its requests without sending any.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

from assay import when
from assay.config import Config, JudgeBudget, JudgeEndpoint
from assay.config import Judge as JudgeSettings
from assay.errors import ConfigError
from assay.records import Turn
from scorers import cascade
from scorers.backfill_known import Known, missing
from scorers.backfill_run import Run
from scorers.backfill_source import TurnSource
from scorers.judge import Judge
from scorers.judged_plan import all_entries
from scorers.judging.asking import Evidence
from scorers.judging.conversation import Conversations
from scorers.judging.evidence import conversation_of, evidence_of
from scorers.judging.question import Question
from scorers.judging.tokens import tokens_of
from scorers.plan import Entry, Plan
from scorers.prices import cost_of
from scorers.scoring import score_turn, unasked

LOOKED_AT = 60
"""Turns on which the cost of one is measured."""
WHOLE_LOOKED_AT = 20
"""The same of conversations."""
ANSWER_TOKENS = 150
"""What a judge's answer is taken to be long."""
ANSWER_SECONDS = 2.0


Asked = tuple[list[Turn], list[Entry]]
"""A turn, or a conversation's, with what is missing of it."""


class Estimate(msgspec.Struct, kw_only=True):
    """What a run would do. Numbers of the judge, and all where `about`, are extrapolated."""

    turns: int = 0
    """Selected turns."""
    todo: int = 0
    """Those of which something is still to be scored."""
    conversations: int = 0
    """Selected conversations, where something is asked of them."""
    whole: int = 0
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


def scorers_in(*plans: Plan) -> list[tuple[str, str, str, str]]:
    """What a run records of its scorers: another version of one would make another run of it."""
    found = {(*entry.key, entry.scorer.version) for entry in all_entries(*plans)}
    return sorted(found)


async def estimate(
    run: Run,
    source: TurnSource,
    known: Known,
    plan: Plan,
    judge: Judge | None,
    processes: int,
    conversations: Conversations | None = None,
) -> Estimate:
    """What `run` would do with the turns of `source` now."""
    found = Estimate()
    sample = await _turns(found, source, known, plan)
    found.todo, found.entries = _fitting(found, run, sample, found.todo, found.entries, run.limit)
    taken = [one for one in sample if one[1] and condition_of(run)(one[0][-1])]
    if taken:
        scale = found.todo / len(taken)
        began = time.perf_counter()
        for (turn,), entries in taken:
            local = [entry for entry in entries if not entry.waits]
            score_turn(turn, local, group="local", scored_at=0)
        found.seconds = (time.perf_counter() - began) * scale / processes
        _price(found, taken, judge, scale)
    if conversations is not None:
        before = found.entries
        sample = await _talks(found, source, known, conversations)
        limit = None if run.limit is None else run.limit - found.todo
        more = found.entries - before
        found.whole, more = _fitting(found, run, sample, found.whole, more, limit)
        found.entries = before + more
        taken = [one for one in sample if condition_of(run)(one[0][-1])]
        _price(found, taken, judge, found.whole / max(1, len(taken)))
    if judge is not None:
        waiting = found.judge_calls * ANSWER_SECONDS / judge.client.settings.concurrency
        found.seconds = max(found.seconds, waiting)
    return found


async def _turns(found: Estimate, source: TurnSource, known: Known, plan: Plan) -> list[Asked]:
    """Counts the turns and what is known of them; gives some with what is missing of them."""
    days = await source.days()
    sample: list[Asked] = []
    each = max(1, LOOKED_AT // max(1, len(days)))
    for day, count in days.items():
        found.turns += count
        there = await known.of_day(day)
        async for names in source.names(day):
            for turn_id, app in names:
                own = len(missing(plan, app, there, turn_id))
                found.known += len(plan.entries(app)) - own
                found.entries += own
                found.todo += own > 0
        if len(sample) < LOOKED_AT:
            async for turns in source.turns(day):
                sample += [
                    ([turn], missing(plan, turn.app, there, turn.turn_id)) for turn in turns[:each]
                ]
                break
    return sample


async def _talks(
    found: Estimate, source: TurnSource, known: Known, conversations: Conversations
) -> list[Asked]:
    """The same of whole conversations; entries are those in whose sample one is."""
    plan, sample = conversations.plan, list[Asked]()
    async for day, talks in source.talks():
        there = await known.of_day(day)
        wanted = {}
        for talk in talks:
            own = missing(plan, talk.app, there, talk.last_turn)
            found.conversations += 1
            found.known += len(plan.entries(talk.app)) - len(own)
            found.entries += len(own)
            if own:
                wanted[talk.last_turn] = talk, own
        found.whole += len(wanted)
        looked_at = list(wanted.values())[: max(0, WHOLE_LOOKED_AT - len(sample))]
        async for turns in source.whole([talk for talk, _ in looked_at]):
            _, own = wanted.get(turns[-1].turn_id, (None, []))
            drawn = [msgspec.structs.replace(turn, draw=0.0) for turn in turns]
            sample.append((drawn, [e for e in own if conversations.draws(turns[-1], e)]))
    return sample


def _fitting(
    found: Estimate, run: Run, sample: list[Asked], todo: int, entries: int, limit: int | None
) -> tuple[int, int]:
    """`todo` and `entries` of those for which the run's condition holds, within the limit."""
    if run.selected.when is not None:
        condition = condition_of(run)
        share = sum(condition(turns[-1]) for turns, _ in sample) / max(1, len(sample))
        todo, entries, found.about = round(todo * share), round(entries * share), True
    if limit is not None and todo > limit:
        todo, entries, found.about = limit, round(entries * limit / todo), True
    return todo, entries


def _price(found: Estimate, asked: Iterable[Asked], judge: Judge | None, scale: float) -> None:
    """Adds what the judge's part of `asked` costs, times `scale`."""
    if judge is None:
        return
    calls = tokens_in = tokens_out = 0.0
    cost: float | None = 0.0
    for turns, entries in asked:
        for entry in entries:
            question = judge.question(entry) if entry.waits else None
            if question is None:
                continue
            for evidence, share in _evidence(turns, entry, question):
                own = question.prompt.fixed_tokens + tokens_of(evidence)
                times = question.samples * (2.0 if question.prompt.scale.kind == "pair" else 1.0)
                times *= share
                calls += times
                tokens_in += own * times
                tokens_out += ANSWER_TOKENS * times
                price = judge.client.price(question.model)
                if price is None or cost is None:
                    cost = None
                else:
                    cost += cost_of(price, round(own * times), 0, round(ANSWER_TOKENS * times))
    found.judge_calls += round(calls * scale)
    found.input_tokens += round(tokens_in * scale)
    found.output_tokens += round(tokens_out * scale)
    found.cost = None if cost is None or found.cost is None else found.cost + cost * scale


def _evidence(
    turns: list[Turn], entry: Entry, question: Question
) -> Iterator[tuple[Evidence, float]]:
    """What is put before the judge, and with which probability it is."""
    if question.subject == "conversation":
        yield {"conversation": conversation_of(turns)}, 1.0
        return
    for turn in turns:
        if unasked(turn, entry) is None:
            yield evidence_of(turn, question.prompt.inputs), cascade.share_asked(turn, entry)


def condition_of(run: Run) -> Callable[[Turn], bool]:
    """The run's `when`. Raises ConfigError for a wrong expression."""
    if run.selected.when is None:
        return lambda turn: True
    try:
        return when.compile(run.selected.when)
    except ConfigError as error:
        raise ConfigError([f"--when: {fault}" for fault in error.faults]) from None
