"""Rows in, scores out, in the same order: `assay score`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.catalogue import HARMS, METRICS
from assay.records import Score, TurnScores
from scorers.plan import Entry, Plan
from scorers.rows import to_turns
from scorers.scorer import scored
from scorers.scoring import passed, score_turn, turn_scores

GROUP = "local"
_SECTIONS = ("quality", "safety")
"""Categories whose metrics a conversation has too: similarity and tool calls are of turns only."""


class BadRow(NamedTuple):
    """A row that holds no turn."""

    number: int
    """From 0."""
    reason: str


def score_rows(
    rows: Iterable[Any], plan: Plan, *, run: str = "rows"
) -> Iterator[TurnScores | BadRow]:
    """One result per row, in order, by the computed and local entries of `plan`.

    A row that holds a conversation gives its last turn's scores and, for the metrics that are
    judged on conversations, one Score with subject conversation over all its turns.
    """
    own = plan.part(lambda entry: not entry.waits)
    for number, row in enumerate(rows):
        try:
            turns = to_turns(row, number)
        except ValueError as error:
            yield BadRow(number, str(error))
            continue
        entries = own.entries(turns[-1].app)
        now = time.time_ns()
        each = [score_turn(t, entries, group=GROUP, scored_at=now, run=run) for t in turns]
        if len(each) > 1:
            whole = conversation_scores(each, entries)
            each[-1] = turn_scores(
                turns[-1], (*each[-1].scores, *whole), group=GROUP, scored_at=now, run=run
            )
        yield each[-1]


def conversation_scores(each: Sequence[TurnScores], entries: Sequence[Entry]) -> Iterator[Score]:
    """A Score per metric over the turns: the mean of the values, for harms the highest.

    Turns without a value are left out; without any there is no Score. `details.turns` has the
    value of each turn, none where there is none.
    """
    for position, entry in enumerate(entries):
        metric = entry.metric
        row = METRICS.get(metric.name)
        if metric.subject != "response" or row is None:
            continue
        if not set(row.categories) & set(_SECTIONS) or metric.name == "similarity":
            continue
        own = [turn.scores[position] for turn in each]
        values = [score.value for score in own if score.value is not None]
        if not values:
            continue
        harm = metric.name in HARMS or metric.name == "content_safety"
        verdict = scored(
            max(values) if harm else sum(values) / len(values),
            turns=[score.value for score in own],
        )
        assert verdict.value is not None
        yield msgspec.structs.replace(
            own[-1],
            subject="conversation",
            outcome="scored",
            outcome_reason=None,
            value=verdict.value,
            label=None,
            passed=passed(verdict.value, metric),
            reason=None,
            details=verdict.details,
            score_id=f"{own[-1].score_id}-conversation",
        )
