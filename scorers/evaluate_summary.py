"""What an evaluation comes to: per metric the mean, the defect rate with its interval, outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from assay.catalogue import CASCADE
from assay.records import Direction, Kind, Score, Subject
from scorers.evaluate import Result
from scorers.statistics import Interval, Mean, mean, rate


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of one subject by one engine, over all rows."""

    metric: str
    subject: Subject
    engine: str
    kind: Kind
    direction: Direction
    threshold: float | None
    rows: int
    scored: int
    mean: Mean | None
    """None where no value is a number."""
    pass_rate: float | None
    defect_rate: Interval | None
    """None where nothing has a verdict."""
    if_errors_fail: float | None
    """The defect rate if every error were a failure, since judges refuse the worst content."""
    labels: dict[str, int]
    outcomes: dict[str, int]
    unscored: dict[str, int] = {}
    """Why the rest was not scored: `outcome (reason)`, and of how many rows."""


def summarise(results: Iterable[Result]) -> list[Summary]:
    """A summary for each metric, in the order in which they first come."""
    scores: dict[tuple[str, Subject, str], list[Score]] = {}
    for result in results:
        for score in result.scores.scores:
            scores.setdefault((score.metric, score.subject, score.engine), []).append(score)
    return [_summary(own) for own in scores.values()]


def _summary(scores: Sequence[Score]) -> Summary:
    first = scores[0]
    values = [score.value for score in scores if score.value is not None]
    verdicts = [score.passed for score in scores if score.passed is not None]
    failed = verdicts.count(False)
    errors = sum(score.outcome == "error" for score in scores)
    judged = len(verdicts)
    centre = mean(values)
    defects = rate(failed, judged, judged) if judged else None
    if first.engine == CASCADE and centre is not None:
        # Its values are estimates; its verdicts are sometimes the judge's and sometimes not.
        lower, upper = centre.lower, centre.upper
        defects = Interval(
            centre.value,
            centre.value if lower is None else lower,
            centre.value if upper is None else upper,
        )
    return Summary(
        metric=first.metric,
        subject=first.subject,
        engine=first.engine,
        kind=first.kind,
        direction=first.direction,
        threshold=first.threshold,
        rows=len(scores),
        scored=sum(score.outcome == "scored" for score in scores),
        mean=centre,
        pass_rate=None if defects is None else 1.0 - defects.value,
        defect_rate=defects,
        if_errors_fail=(failed + errors) / (judged + errors) if judged + errors else None,
        labels=dict(Counter(score.label for score in scores if score.label is not None)),
        outcomes=dict(Counter(score.outcome for score in scores)),
        unscored=dict(Counter(_why(score) for score in scores if score.outcome != "scored")),
    )


def _why(score: Score) -> str:
    return f"{score.outcome} ({score.outcome_reason})" if score.outcome_reason else score.outcome


def shortfalls(summaries: Iterable[Summary], least: Mapping[str, float]) -> list[str]:
    """A line for each pass rate that is under its bound: by metric, or under `*` for all that have
    one. A bounded metric without any verdict falls short too, and so does `*` when no metric has
    one: a gate must not open because nothing was tested."""
    found = []
    seen = set()
    tested = False
    for summary in summaries:
        bound = least.get(summary.metric, least.get("*") if summary.kind == "defect" else None)
        seen.add(summary.metric)
        if bound is None or (summary.pass_rate is None and summary.metric not in least):
            continue
        tested = True
        if summary.pass_rate is None or summary.pass_rate < bound:
            rate = "no verdict" if summary.pass_rate is None else f"{summary.pass_rate:.3f}"
            where = f"{summary.metric} ({summary.subject}, {summary.engine})"
            found.append(f"{where}: pass rate {rate} is under {bound:g}")
    found += [f"{name}: was not scored" for name in least if name not in seen and name != "*"]
    if "*" in least and not tested:
        found.append("no metric that can fail was scored")
    return found
