"""The plan with the judge in it, for work that is not live: backfills and evaluations."""

from __future__ import annotations

from collections.abc import Sequence

from assay.config import Config
from assay.records import Score, Turn
from scorers.judge import ENGINE, Judge
from scorers.judge_worker import on_conversation
from scorers.plan import Entry, Plan
from scorers.registry import registered, resolve
from scorers.scorer import Verdict
from scorers.scoring import to_score, unasked


def plan_of(config: Config, judge: Judge | None, sample: float = 1.0) -> Plan:
    """What the settings ask of single turns, the judge's entries under their model's name. A
    sample's ratio is nested in each entry's own. Raises ConfigError as `resolve`."""
    scorers = registered() | (judge.scorers() if judge is not None else {})
    plan = resolve(config, scorers).part(lambda entry: not on_conversation(entry))
    for entry in all_entries(plan):
        entry.ratio = min(entry.ratio, sample)
        if judge is not None and entry.engine == ENGINE:
            entry.engine = judge.model_of(entry)
    return plan


def all_entries(plan: Plan) -> list[Entry]:
    """Every entry of the plan once."""
    found = {id(e): e for entries in (plan.base, *plan.apps.values()) for e in entries}
    return list(found.values())


def digests_of(entry: Entry, judge: Judge | None) -> frozenset[str]:
    """The prompts that an entry may use; empty where that is not known beforehand."""
    question = judge.question(entry) if judge is not None and entry.waits else None
    if judge is None or question is None or judge.client.settings.bundle:
        return frozenset()
    others = question.prompt.file.absent.values()
    absent = {judge.library.find(name, question.subject).digest for name in others}
    return frozenset({question.prompt.digest, *absent})


async def waiting_scores(
    turn: Turn, entries: Sequence[Entry], judge: Judge | None, run: str
) -> tuple[Score, ...]:
    """A Score for each entry that waits: the judge's, and users' own, in their order."""
    asked = [entry for entry in entries if entry.scorer.engine == ENGINE]
    judged = iter(await judge.verdicts(turn, asked) if judge is not None and asked else [])
    verdicts = [
        next(judged) if entry.scorer.engine == ENGINE else await _verdict(turn, entry)
        for entry in entries
    ]
    return tuple(
        to_score(turn, entry, verdict, run=run)
        for entry, verdict in zip(entries, verdicts, strict=True)
    )


async def _verdict(turn: Turn, entry: Entry) -> Verdict:
    """The verdict of a user's own waiting scorer."""
    early = unasked(turn, entry)
    if early is not None:
        return early
    try:
        return await entry.function(turn)  # type: ignore[misc, no-any-return]
    except Exception as error:  # noqa: BLE001 - a scorer's fault is an outcome, and names no content
        return Verdict(outcome="error", outcome_reason="exception", reason=type(error).__name__)
