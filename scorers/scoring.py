"""From verdicts to Scores: sampling, conditions, inputs, verdict, threshold, weight, id."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from assay.metric import YES_NO, Metric
from assay.records import Document, Score, Turn, TurnScores, score_id_of
from scorers import deadline
from scorers.plan import Entry
from scorers.scorer import Batched, Verdict, skipped

MAX_REASON = 2_000
"""Characters of a reason; a longer one is cut."""
PATIENCE = 60.0
"""Seconds that a scorer that waits may take with a turn."""


NOTHING: Mapping[Entry, Verdict] = MappingProxyType({})


def score_turn(
    turn: Turn,
    entries: Iterable[Entry],
    ahead: Mapping[Entry, Verdict] = NOTHING,
    *,
    group: str,
    scored_at: int,
    run: str = "live",
) -> TurnScores:
    """One Score for each entry. Never raises for what the turn holds.

    `entries` are plain functions; those in `ahead` were asked already. `scored_at` is in
    nanoseconds since the Unix epoch.
    """
    deadline.reset()
    scores = tuple(
        to_score(turn, entry, ahead.get(entry) or judge(turn, entry), run=run) for entry in entries
    )
    deadline.cancel()
    return turn_scores(turn, scores, group=group, scored_at=scored_at, run=run)


def judge_ahead(asked: Sequence[tuple[Turn, Sequence[Entry]]]) -> list[dict[Entry, Verdict]]:
    """For each turn what its batched entries find, which are asked for all turns together.

    Where they fail together, in time or by an exception, there is nothing: `judge` asks them
    singly, so that one turn's fault is no other's.
    """
    ahead: list[dict[Entry, Verdict]] = [{} for _ in asked]
    places: dict[Entry, list[int]] = {}
    for place, (turn, entries) in enumerate(asked):
        for entry in entries:
            if not isinstance(entry.function, Batched):
                continue
            early = unasked(turn, entry)
            if early is None:
                places.setdefault(entry, []).append(place)
            else:
                ahead[place][entry] = early
    for entry, own in places.items():
        with suppress(Exception, deadline.OutOfTime):
            found = _together(entry, [asked[place][0] for place in own])
            for place, verdict in dict(zip(own, found, strict=True)).items():
                ahead[place][entry] = verdict
    return ahead


def _together(entry: Entry, turns: Sequence[Turn]) -> list[Verdict]:
    deadline.reset()
    try:
        deadline.start()
        return entry.function.many(turns)  # type: ignore[union-attr,no-any-return]
    finally:
        deadline.end()
        deadline.cancel()


def judge(turn: Turn, entry: Entry) -> Verdict:
    """What `entry` finds on `turn`, or why nothing was asked."""
    early = unasked(turn, entry)
    if early is not None:
        return early
    try:
        deadline.start()
        found = entry.function(turn)
    except deadline.OutOfTime:
        deadline.reset()
        return Verdict(outcome="error", outcome_reason="timeout")
    except Exception as error:  # noqa: BLE001 - a scorer's fault is an outcome, and names no content
        return _fault(error)
    finally:
        deadline.end()
    return found if isinstance(found, Verdict) else _fault(TypeError())


async def waited(turn: Turn, entry: Entry, patience: float = PATIENCE) -> Verdict:
    """As `judge`, for a user's own scorer that waits; given up after `patience` seconds."""
    early = unasked(turn, entry)
    if early is not None:
        return early
    try:
        async with asyncio.timeout(patience):
            found = await entry.function(turn)  # type: ignore[misc]
    except TimeoutError:
        return Verdict(outcome="error", outcome_reason="timeout")
    except Exception as error:  # noqa: BLE001 - as above
        return _fault(error)
    return found if isinstance(found, Verdict) else _fault(TypeError())


def unasked(turn: Turn, entry: Entry) -> Verdict | None:
    """The verdict where the scorer is not to be asked: sampled out, filtered, input missing."""
    if turn.draw >= turn.inclusion_probability * entry.ratio:
        return _SAMPLED_OUT
    if entry.when is not None:
        try:
            matches = entry.when(turn)
        except Exception as error:  # noqa: BLE001 - as above
            return _fault(error)
        if not matches:
            return _FILTERED
    for need in entry.needs:
        reason = _lacking(turn, need)
        if reason is not None:
            return skipped(reason)
    return None


def _fault(error: Exception) -> Verdict:
    return Verdict(outcome="error", outcome_reason="exception", reason=type(error).__name__)


_SAMPLED_OUT = Verdict(outcome="sampled_out")
_FILTERED = Verdict(outcome="filtered")


def to_score(turn: Turn, entry: Entry, verdict: Verdict, *, run: str, revision: int = 0) -> Score:
    """The Score that `verdict` makes: checked against the scale, with threshold, weight and id."""
    metric = entry.metric
    scorer = entry.scorer
    probability = turn.inclusion_probability * entry.ratio
    outcome, outcome_reason = verdict.outcome, verdict.outcome_reason
    value, label, reason = verdict.value, verdict.label, verdict.reason
    details = verdict.details
    if outcome == "scored" and not _on_scale(value, label, metric):
        outcome, outcome_reason, reason, details = "error", "out_of_range", None, {}
    if outcome != "scored":
        value = label = None
    elif label is None and value is not None:
        label = _label(value, metric)
    return Score(
        metric=metric.name,
        engine=entry.engine,
        subject=metric.subject,
        kind=metric.kind,
        outcome=outcome,
        outcome_reason=outcome_reason,
        value=value,
        label=label,
        passed=None if value is None else passed(value, metric),
        threshold=metric.threshold,
        direction=metric.direction,
        reason=reason if reason is None or len(reason) <= MAX_REASON else reason[:MAX_REASON] + "…",
        confidence=verdict.confidence,
        details=details,
        weight=1.0 / probability if probability > 0.0 else 1.0,
        score_id=score_id_of(
            turn.turn_id,
            revision,
            metric.name,
            metric.subject,
            entry.engine,
            verdict.prompt_digest,
            scorer.version,
            run,
        ),
        scorer_version=scorer.version,
        prompt_digest=verdict.prompt_digest,
        judge_usage=verdict.judge_usage,
        judge_latency=verdict.judge_latency,
        cascade=verdict.cascade,
    )


def passed(value: float, metric: Metric) -> bool | None:
    """Whether `value` passes the metric's threshold; none when it has none."""
    threshold = metric.threshold
    if threshold is None:
        return None
    match metric.direction:
        case "higher":
            return value >= threshold
        case "lower":
            return value <= threshold
        case "within":
            return abs(value) <= threshold
        case "true_is_bad":
            return not value


def turn_scores(
    turn: Turn, scores: tuple[Score, ...], *, group: str, scored_at: int, run: str
) -> TurnScores:
    """The record of one turn's scores: its identity and labels without its content."""
    return TurnScores(
        subject_id=turn.turn_id,
        turn_id=turn.turn_id,
        trace_id=turn.trace_id,
        span_id=turn.span_id,
        response_id=turn.response_id,
        conversation_id=turn.conversation_id,
        app=turn.app,
        environment=turn.environment,
        version=turn.version,
        operation=turn.operation,
        prompt_version=turn.prompt_version,
        model=turn.model,
        provider=turn.provider,
        language=turn.language,
        labels=turn.labels,
        stratum=turn.stratum,
        inclusion_probability=turn.inclusion_probability,
        group=group,
        run=run,
        event_time=turn.ended_at,
        arrived_at=turn.arrived_at,
        scored_at=scored_at,
        scores=scores,
    )


def _on_scale(value: float | None, label: str | None, metric: Metric) -> bool:
    if metric.labels:
        return label in metric.labels
    if value is None or not math.isfinite(value):
        return False
    return not (
        (metric.low is not None and value < metric.low)
        or (metric.high is not None and value > metric.high)
    )


def _label(value: float, metric: Metric) -> str | None:
    if metric.levels:
        return metric.levels.get(int(value)) if value == int(value) else None
    if metric.buckets == YES_NO:
        return "true" if value else "false"
    return None


def _lacking(turn: Turn, need: tuple[str, ...]) -> str | None:
    """Why none of the alternatives can be used: `<field> absent` or `<field> empty`."""
    empty = False
    for field in need:
        value = getattr(turn, field)
        # Most needs are texts, and most texts are there.
        if type(value) is str and value and not value.isspace():
            return None
        state = _state(field, value)
        if state == "present":
            return None
        empty |= state == "empty"
    return f"{' or '.join(need)} {'empty' if empty else 'absent'}"


def _state(field: str, value: Any) -> str:
    """present, empty or absent. An empty list means that nothing was exported, except for reference
    calls: no call may be just what is expected."""
    match value:
        case () if field == "reference_tool_calls":
            return "present"
        case None:
            return "absent"
        case str():
            return "empty" if not value or value.isspace() else "present"
        case () | dict() if not value:
            return "absent"
        case tuple():
            return "empty" if all(map(_blank, value)) else "present"
        case _:
            return "present"


def _blank(item: object) -> bool:
    text = item.content if isinstance(item, Document) else item
    return isinstance(text, str) and not text.strip()
