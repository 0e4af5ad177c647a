"""The cascade: the local engine looks at every turn, the judge at those that it is unsure of and
at a few of all others, so that the rate stays unbiased.

The judge is asked with the probability pi: `most` where the local engine is at its least sure, less
in proportion to sqrt(p (1 - p)), p being its calibrated probability of a defect (Neyman's
allocation), and never below `least`. The draw is a hash of turn, metric and subject, so replays and
backfills decide alike, and it is independent of the draw by which turns are sampled. The value of
the Score is the turn's part in the defect rate by the difference estimator (Saerndal, Swensson and
Wretman 1992, chapter 6): p, and where the judge found y, p + (y - p) / pi. Its mean is unbiased
however wrong the local engine is; wrongness only widens the interval. The verdict is the judge's
where it was asked, else the local engine's.

Where the local engine has no verdict, as in a language that it cannot read, the judge is asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.catalogue import CASCADE, cascaded
from assay.metric import Metric
from assay.records import JUDGED, UNJUDGED, Cascade, Turn
from scorers.judge import ENGINE, Judge, JudgeOptions
from scorers.plan import Entry, Key
from scorers.scorer import Function, Scorer, Verdict
from scorers.scoring import judge as judge_locally
from scorers.scoring import passed, unasked

UNTOLD = 0.75
"""Confidence of a local engine that tells none."""
LEAST_SURE = 0.51
"""Confidence below which no verdict is taken to be: it is on the likelier side."""
_UNKNOWN = 0.5
_THREAD = ThreadPoolExecutor(1, "cascade")
"""In which the local engines run: the loop has calls under way, and a long text takes its time.
One, because the engines share what they remember of texts."""

Share = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]


class CascadeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the settings may say of one metric."""

    prompt: str = ""
    """Another prompt that answers the same metric, e.g. an older edition."""
    model: str = ""
    """Another model than `judge.model`."""
    samples: int = 0
    """Answers per score; 0: `judge.samples`."""
    most: Share = 0.25
    """Probability that the judge is asked where the local engine is quite unsure."""
    least: Share = 0.05
    """The same where it is quite sure."""


class CascadeScorer(Scorer, frozen=True, kw_only=True):
    """A judge's scorer with the local one before it."""

    local: Entry
    judged: Metric
    """The contract by which the judge's answer passes or not."""


class First(NamedTuple):
    """What is known of a turn before the judge."""

    verdict: Verdict
    """The local engine's."""
    local: float
    """Its calibrated probability of a defect."""
    pi: float
    asked: bool


def cascades(scorers: Mapping[Key, Scorer]) -> dict[Key, Scorer]:
    """A scorer of engine `cascade` for each metric with a verdict that the judge and a local engine
    without options answer."""
    found: dict[Key, Scorer] = {}
    for (name, subject, engine), judged in scorers.items():
        local = scorers.get((name, subject, "local"))
        metric = judged.metric
        if engine != ENGINE or local is None or local.options is not None:
            continue
        if metric.kind != "info" and not metric.labels:
            found[name, subject, CASCADE] = _cascade(judged, local)
    return found


def _cascade(judged: Scorer, local: Scorer) -> CascadeScorer:
    def bind(options: CascadeOptions) -> Function:
        if options.least > options.most:
            raise ValueError(f"least {options.least:g} is above most {options.most:g}")
        asks = JudgeOptions(prompt=options.prompt, model=options.model, samples=options.samples)
        return judged.bind(asks)

    return CascadeScorer(
        metric=judged.metric,
        engine=CASCADE,
        version=f"{judged.version}/{local.version}",
        declared=bind,
        options=CascadeOptions,
        local=Entry(local, local.metric),
        judged=judged.metric,
    )


def answered_by_judge(entry: Entry) -> bool:
    """Whether the judge answers the entry, alone or where the local engine is unsure."""
    return entry.scorer.engine in (ENGINE, CASCADE)


def named(entry: Entry, judge: Judge) -> Entry:
    """An entry that the judge answers as its Scores have it: the judge's own under the name of the
    model; of a cascade the model is in the version, and the contract is that of estimates."""
    scorer, metric = entry.scorer, entry.metric
    model = judge.model_of(entry)
    if isinstance(scorer, CascadeScorer):
        version = f"{scorer.version}/{model}"
        scorer, metric = replace(scorer, judged=metric, version=version), cascaded(metric)
    found = Entry(scorer, metric, entry.ratio, entry.when, entry.options)
    if not isinstance(scorer, CascadeScorer):
        found.engine = model
    return found


async def verdicts(
    judge: Judge, turn: Turn, entries: Sequence[Entry], *, patience: float | None = None
) -> list[Verdict]:
    """As `Judge.verdicts`, for entries of the judge and of cascades, as `named` gives them."""
    first: dict[int, First] = {}
    staged = [
        index
        for index, entry in enumerate(entries)
        if isinstance(entry.scorer, CascadeScorer) and unasked(turn, entry) is None
    ]
    if staged:
        loop, own = asyncio.get_running_loop(), [entries[index] for index in staged]
        found = await loop.run_in_executor(_THREAD, lambda: [look(turn, entry) for entry in own])
        first = dict(zip(staged, found, strict=True))
    asked = [e for index, e in enumerate(entries) if index not in first or first[index].asked]
    judged = iter(await judge.verdicts(turn, asked, patience=patience))
    results = []
    for index, entry in enumerate(entries):
        if index not in first:
            results.append(next(judged))
            continue
        question = judge.question(entry)
        verdict = joined(entry, first[index], next(judged) if first[index].asked else None)
        results.append(replace(verdict, prompt_digest=question.prompt.digest if question else ""))
    return results


def look(turn: Turn, entry: Entry) -> First:
    """What the local engine of a cascade says, and whether the judge is to be asked."""
    scorer, options = entry.scorer, entry.options or CascadeOptions()
    assert isinstance(scorer, CascadeScorer)
    assert isinstance(options, CascadeOptions)
    verdict = judge_locally(turn, scorer.local)
    good = passed(verdict.value, scorer.local.metric) if verdict.value is not None else None
    if good is None:
        return First(verdict, _UNKNOWN, 1.0, asked=True)
    confidence = verdict.confidence if verdict.confidence is not None else UNTOLD
    confidence = min(1.0, max(LEAST_SURE, confidence))
    local = 1 - confidence if good else confidence
    pi = probability(local, options.most, options.least)
    return First(verdict, local, pi, asked=draw(turn.turn_id, entry.metric) < pi)


def share_asked(turn: Turn, entry: Entry) -> float:
    """The probability that the judge is asked of a turn for an entry that it answers."""
    return look(turn, entry).pi if isinstance(entry.scorer, CascadeScorer) else 1.0


def probability(local: float, most: float, least: float) -> float:
    """With which the judge is asked of a turn that fails with the probability `local`."""
    return max(least, most * 2 * math.sqrt(local * (1 - local)))


def draw(turn_id: str, metric: Metric) -> float:
    """The turn's random number in [0, 1) for the metric."""
    text = "\x1f".join((turn_id, metric.name, metric.subject)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest()) / 2**56


def joined(entry: Entry, first: First, judged: Verdict | None) -> Verdict:
    """The cascade's verdict. `judged` is the judge's, none where it was not asked."""
    known = Cascade(local=first.local, pi=first.pi)
    local = {"local": first.verdict.value} if first.verdict.value is not None else {}
    if judged is None:
        return replace(
            first.verdict,
            outcome_reason=UNJUDGED,
            value=first.local,
            label=None,
            details=first.verdict.details | local,
            cascade=known,
        )
    assert isinstance(entry.scorer, CascadeScorer)
    if judged.outcome != "scored" or judged.value is None:
        return replace(judged, cascade=known)
    defect = not passed(judged.value, entry.scorer.judged)
    return replace(
        judged,
        outcome_reason=JUDGED,
        value=known.estimate(defect),
        label=None,
        details=judged.details | local | {"judge": judged.value},
        cascade=replace(known, judge=defect),
    )
