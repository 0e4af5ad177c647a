"""The plan with the judge in it, for work that is not live: backfills and evaluations."""

from __future__ import annotations

from collections.abc import Sequence

from assay.config import Config, Sampling
from assay.records import Score, Turn
from scorers import cascade
from scorers.conversation_worker import conversation_part
from scorers.judge import Judge
from scorers.judge_worker import on_conversation
from scorers.judging.conversation import Conversations
from scorers.plan import Entry, Key, Plan
from scorers.registry import registered, resolve
from scorers.scorer import Scorer
from scorers.scoring import to_score, waited


def scorers_with(judge: Judge | None) -> dict[Key, Scorer]:
    """The registered scorers, the judge's, and the cascades of both."""
    found = registered() | (judge.scorers() if judge is not None else {})
    return found | cascade.cascades(found)


def plan_of(config: Config, judge: Judge | None, sample: float = 1.0) -> Plan:
    """What the settings ask of single turns, the judge's entries under their model's name. A
    sample's ratio is nested in each entry's own. Raises ConfigError as `resolve`."""
    plan = resolve(config, scorers_with(judge)).part(lambda entry: not on_conversation(entry))
    if judge is not None:
        plan = plan.each(lambda e: cascade.named(e, judge) if cascade.answered_by_judge(e) else e)
    for entry in all_entries(plan):
        entry.ratio = min(entry.ratio, sample)
    return plan


def conversations_of(
    config: Config, judge: Judge | None, sample: float = 1.0
) -> Conversations | None:
    """What the settings ask of whole conversations; none when that is nothing. Raises ConfigError
    as `conversation_part`."""
    if judge is None:
        return None
    plan = conversation_part(resolve(config, scorers_with(judge)), judge, config)
    entries = all_entries(plan)
    for entry in entries:
        entry.ratio = min(entry.ratio, sample)
    return Conversations(plan, judge, config.sampling.ratio) if entries else None


def unsampled(config: Config) -> Config:
    """The settings where nothing is sampled out: files and data sets are samples already."""
    return config.model_copy(update={"sampling": Sampling()})


def all_entries(*plans: Plan) -> list[Entry]:
    """Every entry of the plans once."""
    found = {id(e): e for plan in plans for own in (plan.base, *plan.apps.values()) for e in own}
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
    asked = [entry for entry in entries if cascade.answered_by_judge(entry)]
    judged = iter(await cascade.verdicts(judge, turn, asked) if judge is not None and asked else [])
    verdicts = [
        next(judged) if cascade.answered_by_judge(entry) else await waited(turn, entry)
        for entry in entries
    ]
    return tuple(
        to_score(turn, entry, verdict, run=run)
        for entry, verdict in zip(entries, verdicts, strict=True)
    )
