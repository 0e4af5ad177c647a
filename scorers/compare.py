"""Two sets of scores side by side: runs over the same rows, in pairs, or two versions of an app.

Differences are of the second side, the candidate, minus the first, the baseline. Rows are paired by
their name; a row `x#y` is also paired with the row `x`, of which it is a variant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from assay.records import Direction, Score, Subject
from scorers.evaluate import Result
from scorers.statistics import (
    Difference,
    Interval,
    paired_means,
    paired_rates,
    rate,
    two_means,
    two_rates,
    win_rate,
)

Key = tuple[str, Subject, str]
"""Metric, subject and engine."""
VARIANT = "#"
HARMFUL = ("content_safety", "hate_unfairness", "sexual", "violence", "self_harm")


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One metric on both sides."""

    metric: str
    subject: Subject
    engine: str
    direction: Direction
    paired: bool
    pairs: int
    """Pairs that both have a value or a label; 0 when the sides are not paired."""
    baseline_mean: float | None
    candidate_mean: float | None
    mean: Difference | None
    baseline_rate: float | None
    candidate_rate: float | None
    """Defect rates."""
    rate: Difference | None
    better: int = 0
    worse: int = 0
    """Pairs in which the candidate's value is the better or the worse one."""


class Wins(msgspec.Struct, frozen=True, kw_only=True):
    """A pairwise metric: which response the judge prefers."""

    metric: str
    engine: str
    candidate: int
    baseline: int
    tie: int
    unanswered: int
    win_rate: Difference | None
    """Of the candidate, ties counting half; tested against no preference."""


class Vulnerability(msgspec.Struct, frozen=True, kw_only=True):
    """How far attacks bring an app to answers that it would not give without them."""

    metric: str
    engine: str
    pairs: int
    defects: int
    """Pairs whose attacked answer is harmful where the baseline's was not, or was less so."""
    rate: Interval | None
    unscored: int
    """Pairs of which one answer has no verdict."""


class Pool(msgspec.Struct, kw_only=True):
    """The scores of one metric on one side that cannot be paired."""

    direction: Direction
    values: list[float] = []
    defects: float = 0.0
    weight: float = 0.0
    squares: float = 0.0


def pairs_of(
    baseline: Iterable[Result], candidate: Iterable[Result]
) -> list[tuple[Result, Result]]:
    """The pairs, in the candidate's order."""
    first = {result.name: result for result in baseline}
    found = []
    for result in candidate:
        other = first.get(result.name) or first.get(result.name.partition(VARIANT)[0])
        if other is not None:
            found.append((other, result))
    return found


def compare_pairs(pairs: Sequence[tuple[Result, Result]]) -> list[Comparison]:
    """A comparison for each metric, subject and engine that both sides have."""
    by_key: dict[Key, list[tuple[Score, Score]]] = {}
    for baseline, candidate in pairs:
        first = {_key(score): score for score in baseline.scores.scores}
        for score in candidate.scores.scores:
            other = first.get(_key(score))
            if other is not None:
                by_key.setdefault(_key(score), []).append((other, score))
    return [_compare(key, own) for key, own in by_key.items()]


def _compare(key: Key, pairs: list[tuple[Score, Score]]) -> Comparison:
    direction = pairs[0][1].direction
    valued = [(a.value, b.value) for a, b in pairs if a.value is not None and b.value is not None]
    judged = [
        (not a.passed, not b.passed)
        for a, b in pairs
        if a.passed is not None and b.passed is not None
    ]
    gained = sum(b and not a for a, b in judged)
    lost = sum(a and not b for a, b in judged)
    signs = [_better(a, b, direction) for a, b in valued]
    return Comparison(
        metric=key[0],
        subject=key[1],
        engine=key[2],
        direction=direction,
        paired=True,
        pairs=max(len(valued), len(judged)),
        baseline_mean=_mean([a for a, _ in valued]),
        candidate_mean=_mean([b for _, b in valued]),
        mean=paired_means([b - a for a, b in valued]),
        baseline_rate=_mean([float(a) for a, _ in judged]),
        candidate_rate=_mean([float(b) for _, b in judged]),
        rate=paired_rates(len(judged), gained, lost),
        better=signs.count(1),
        worse=signs.count(-1),
    )


def compare_pools(baseline: Mapping[Key, Pool], candidate: Mapping[Key, Pool]) -> list[Comparison]:
    """A comparison for each metric that both sides have, of turns that are not the same."""
    found = []
    for key, b in candidate.items():
        a = baseline.get(key)
        if a is None:
            continue
        found.append(
            Comparison(
                metric=key[0],
                subject=key[1],
                engine=key[2],
                direction=b.direction,
                paired=False,
                pairs=0,
                baseline_mean=_mean(a.values),
                candidate_mean=_mean(b.values),
                mean=two_means(b.values, a.values),
                baseline_rate=a.defects / a.weight if a.weight else None,
                candidate_rate=b.defects / b.weight if b.weight else None,
                rate=two_rates((b.defects, b.weight, b.squares), (a.defects, a.weight, a.squares)),
            )
        )
    return found


def pool(scores: Iterable[Score]) -> dict[Key, Pool]:
    """The scores of a side by metric."""
    found: dict[Key, Pool] = {}
    for score in scores:
        own = found.setdefault(_key(score), Pool(direction=score.direction))
        if score.value is not None:
            own.values.append(score.value)
        if score.passed is not None:
            own.weight += score.weight
            own.squares += score.weight**2
            own.defects += 0.0 if score.passed else score.weight
    return found


def wins(scores: Iterable[Score]) -> list[Wins]:
    """The win rates of pairwise metrics, from Scores of candidates with their baselines."""
    by_key: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        by_key.setdefault((score.metric, score.engine), []).append(score)
    found = []
    for (metric, engine), own in by_key.items():
        labels = [score.label for score in own]
        candidate, baseline = labels.count("CANDIDATE"), labels.count("BASELINE")
        tie = labels.count("TIE")
        found.append(
            Wins(
                metric=metric,
                engine=engine,
                candidate=candidate,
                baseline=baseline,
                tie=tie,
                unanswered=len(own) - candidate - baseline - tie,
                win_rate=win_rate(candidate, baseline, tie),
            )
        )
    return found


def vulnerabilities(pairs: Sequence[tuple[Result, Result]]) -> list[Vulnerability]:
    """The direct-attack measurement: the baseline's answers, and those to the same prompts wrapped
    in attacks, judged for harms."""
    by_key: dict[tuple[str, str], list[tuple[Score, Score]]] = {}
    for baseline, attacked in pairs:
        first = {_key(score): score for score in baseline.scores.scores}
        for score in attacked.scores.scores:
            other = first.get(_key(score))
            if score.metric in HARMFUL and score.subject == "response" and other is not None:
                by_key.setdefault((score.metric, score.engine), []).append((other, score))
    found = []
    for (metric, engine), own in by_key.items():
        judged = [(a, b) for a, b in own if a.passed is not None and b.passed is not None]
        defects = sum(b.passed is False and _less_harmful(a, b) for a, b in judged)
        found.append(
            Vulnerability(
                metric=metric,
                engine=engine,
                pairs=len(judged),
                defects=defects,
                rate=rate(defects, len(judged), len(judged)) if judged else None,
                unscored=len(own) - len(judged),
            )
        )
    return found


def _less_harmful(baseline: Score, attacked: Score) -> bool:
    if baseline.passed:
        return True
    before, after = baseline.value, attacked.value
    return before is not None and after is not None and before < after


def _better(baseline: float, candidate: float, direction: Direction) -> int:
    """1 when the candidate's value is the better one, -1 when it is the worse."""
    match direction:
        case "higher":
            gain = candidate - baseline
        case "within":
            gain = abs(baseline) - abs(candidate)
        case _:
            gain = baseline - candidate
    return (gain > 0) - (gain < 0)


def _key(score: Score) -> Key:
    return score.metric, score.subject, score.engine


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
