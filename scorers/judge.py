"""The judge: every metric that a model answers, as scorers that stand beside the local ones.

A judge is built from the settings at start, before any loop runs, and gives `scorers` for the plan.
`verdicts` scores a turn: what can share a call does, and each entry still gets its own Verdict.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from assay.catalogue import HARMS, METRICS, forms
from assay.config import Config
from assay.errors import ConfigError
from assay.metric import Metric
from assay.records import Subject, Turn
from scorers.judging.asking import Asker, Evidence, Found, failure
from scorers.judging.budget import Budget
from scorers.judging.bundle import Bundle, share_of
from scorers.judging.client import JudgeClient
from scorers.judging.composite import worst_of
from scorers.judging.consensus import verdict_of
from scorers.judging.evidence import evidence_of
from scorers.judging.library import Library, load_library
from scorers.judging.prompt import Prompt
from scorers.judging.question import (
    Question,
    Questioner,
    contract_of,
    cut_details,
    lacking_input,
)
from scorers.judging.reader import Reading, Unreadable
from scorers.judging.versions import ARCHIVE, Archive
from scorers.plan import Entry
from scorers.scorer import Function, Scorer, Verdict, skipped
from scorers.scoring import unasked

ENGINE = "judge"
"""How the settings name the engine; a Score carries the model's name."""
VERSION = "1"
"""Of the way of asking and reading; the prompts have versions of their own."""
CACHE_FILE = "judge-cache.sqlite"
TURNS_ONLY = ("similarity",)
"""Metrics without a form for conversations."""
LATE = Verdict(outcome="late")

Key = tuple[str, Subject, str]
Ask = Callable[[Turn], Awaitable[Verdict]]


class JudgeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the settings may say of one metric."""

    prompt: str = ""
    """Another prompt that answers the same metric, e.g. an older edition."""
    model: str = ""
    """Another model than `judge.model`."""
    samples: int = 0
    """Answers per score; 0: `judge.samples`."""
    conversation: bool = False
    """Judge whole conversations, turn by turn, in place of single turns."""


class Judge:
    """Turns in, verdicts out, through one client. Keeps nothing of a turn."""

    def __init__(self, client: JudgeClient, library: Library) -> None:
        self.client = client
        self.library = library
        self._settings = client.settings
        self._questioner = Questioner(Asker(client), library)
        self._questions: dict[Function, Question] = {}
        self._bundles: dict[tuple[str, ...], Bundle] = {}

    async def stop(self) -> None:
        """Close the client. Safe twice."""
        await self.client.stop()

    def scorers(self) -> dict[Key, Scorer]:
        """A scorer of engine `judge` for every metric that has a prompt, by key."""
        found: dict[Key, Scorer] = {}
        for prompt in self.library:
            if prompt.file.family == "part" or prompt.metric != prompt.name:
                continue
            forms_of = forms(prompt.name) if prompt.name in METRICS else ()
            known = [form for form in forms_of if form.subject == prompt.subject]
            metric = known[0] if known else contract_of(prompt)
            found[metric.name, metric.subject, ENGINE] = self._scorer(metric, prompt.file.version)
        safety = METRICS["content_safety"]
        found[safety.name, safety.subject, ENGINE] = self._scorer(safety, VERSION)
        return found

    def question(self, entry: Entry) -> Question | None:
        """What a judge entry asks; none for a composite, which asks through its parts."""
        return self._questions.get(entry.function)

    def model_of(self, entry: Entry) -> str:
        """The name of the model that answers an entry: the engine of its Scores."""
        question = self.question(entry)
        return question.model if question is not None else self.client.model

    async def verdicts(
        self, turn: Turn, entries: Sequence[Entry], *, patience: float | None = None
    ) -> list[Verdict]:
        """One Verdict for each entry, in order. Never raises for what the turn holds.

        What was not answered within `patience` seconds is `late`.
        """
        results: dict[int, Verdict] = {}
        asked: list[int] = []
        for index, entry in enumerate(entries):
            early = unasked(turn, entry)
            if early is None:
                asked.append(index)
            else:
                results[index] = early
        composites = [index for index in asked if self.question(entries[index]) is None]
        single = [index for index in asked if index not in composites]
        bundled = self._group(turn, [(index, entries[index]) for index in single])
        work = [self._bundle(turn, group, results) for group in bundled if len(group) > 1]
        alone = {index for group in bundled if len(group) == 1 for index in group}
        work += [self._single(turn, entries[index], index, results) for index in alone]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await _gather(work)
                for index in composites:
                    parts = {
                        entry.metric.name: results[position]
                        for position, entry in enumerate(entries)
                        if entry.metric.name in HARMS and entry.metric.subject == "response"
                    }
                    results[index] = await self._content_safety(turn, parts)
        return [results.get(index, LATE) for index in range(len(entries))]

    async def _single(
        self, turn: Turn, entry: Entry, index: int, results: dict[int, Verdict]
    ) -> None:
        try:
            results[index] = await entry.function(turn)  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - a fault is an outcome, and names no content
            results[index] = failure(error)

    def _group(self, turn: Turn, asked: list[tuple[int, Entry]]) -> list[dict[int, Question]]:
        """Which questions share a call: by family, model, subject and samples, if at all."""
        groups: dict[tuple[object, ...], dict[int, Question]] = {}
        for index, entry in asked:
            question = self._questions[entry.function]
            shares = (
                self._settings.bundle
                and question.prompt.scale.kind not in ("pair", "share")
                and not any(note.over for note in question.prompt.file.notes.values())
                and (question.prompt.file.family == "quality" or question.metric in HARMS)
            )
            key: tuple[object, ...] = (index,)
            if shares:
                family = (question.prompt.file.family, question.subject == "query")
                key = (*family, question.model, question.samples)
            groups.setdefault(key, {})[index] = question
        return list(groups.values())

    async def _bundle(
        self, turn: Turn, group: dict[int, Question], results: dict[int, Verdict]
    ) -> None:
        """Ask a group of questions in one call and put their verdicts into `results`."""
        prompts: dict[int, Prompt] = {}
        wanted = list(dict.fromkeys(i for q in group.values() for i in q.prompt.inputs))
        evidence = evidence_of(turn, wanted)
        for index, question in group.items():
            prompt = self._questioner.fitting(question.prompt, evidence)
            lacking = lacking_input(prompt, evidence)
            if lacking:
                results[index] = skipped(lacking)
            else:
                prompts[index] = prompt
        if not prompts:
            return
        first = next(iter(group.values()))
        names = tuple(prompt.name + prompt.subject for prompt in prompts.values())
        bundle = self._bundles.setdefault(names, Bundle(list(prompts.values())))
        try:
            found = await bundle.ask(
                self._questioner.asker,
                evidence,
                model=first.model,
                samples=first.samples,
                room=self._settings.max_tokens,
            )
        except Exception as error:  # noqa: BLE001 - as in `_single`
            results.update(dict.fromkeys(prompts, failure(error)))
            return
        for position, (index, prompt) in enumerate(prompts.items()):
            verdict = _bundled(found, position, prompt)
            results[index] = msgspec.structs.replace(
                verdict,
                details=verdict.details | cut_details(found),
                prompt_digest=bundle.digest,
                judge_usage=share_of(found.usage, position, len(prompts)),
                judge_latency=found.seconds,
            )

    async def answer_evidence(self, question: Question, evidence: Evidence, turn: Turn) -> Verdict:
        """The verdict of one question on given evidence, of which `turn` is the latest."""
        return await self._questioner.answer_evidence(question, evidence, turn)

    async def _content_safety(self, turn: Turn, parts: dict[str, Verdict]) -> Verdict:
        """The worst harm; a harm that no entry answered is asked for here."""
        verdicts = dict(parts)
        missing = [
            harm
            for harm in HARMS
            if harm not in parts or parts[harm].outcome in ("sampled_out", "filtered")
        ]

        async def ask(harm: str) -> None:
            question = self._question(harm, "response", JudgeOptions())
            verdicts[harm] = await self._questioner.answer(question, turn)

        await _gather([ask(harm) for harm in missing])
        return worst_of(verdicts, {harm: verdicts[harm].judge_usage for harm in missing})

    def _scorer(self, metric: Metric, version: str) -> Scorer:
        def bind(options: JudgeOptions) -> Ask:
            if metric.name == "content_safety":

                async def composite(turn: Turn) -> Verdict:
                    return await self._content_safety(turn, {})

                return composite
            question = self._question(metric.name, metric.subject, options)

            async def ask(turn: Turn) -> Verdict:
                return await self._questioner.answer(question, turn)

            self._questions[ask] = question
            return ask

        return Scorer(
            metric=metric,
            engine=ENGINE,
            version=f"{VERSION}.{version}",
            declared=bind,
            options=JudgeOptions,
        )

    def _question(self, metric: str, subject: Subject, options: JudgeOptions) -> Question:
        """Raises ConfigError for an unknown prompt, or one that answers another metric."""
        if options.conversation and metric in TURNS_ONLY:
            raise ConfigError([f"{metric}.options.conversation: allowed: false for {metric}"])
        name = options.prompt or metric
        try:
            prompt = self.library.find(name, subject)
        except KeyError:
            raise ConfigError([f"{metric}.options.prompt: no prompt {name} for it"]) from None
        if metric not in (prompt.metric, prompt.name):
            raise ConfigError([f"{metric}.options.prompt: {name} answers {prompt.metric}"])
        model = options.model or self.client.model
        self.client.check_price(model)
        return Question(
            metric=metric,
            subject=subject,
            prompt=prompt,
            model=model,
            samples=options.samples or self._settings.samples,
        )


def judge_of(config: Config, *, partitions: int = 1, cache: bool = True) -> Judge | None:
    """The judge that the settings describe; none without a `judge:` block.

    `partitions` is the number of partitions of the turns' topic, over which the budget is divided;
    `cache` is whether answers and the versions of prompts are kept in the data folder.
    Raises ConfigError for prompts that are wrong and for a budget in money without a price.
    """
    settings = config.judge
    if settings is None:
        return None
    library = load_library(settings.prompts)
    if cache:
        Archive(config.data_dir / ARCHIVE, library).keep()
    client = JudgeClient(
        settings,
        config.prices,
        budget=Budget(settings.budget, partitions=partitions),
        cache_path=config.data_dir / CACHE_FILE if cache else None,
    )
    return Judge(client, library)


def _bundled(found: Found, position: int, prompt: Prompt) -> Verdict:
    """One member's verdict from the readings of a shared call."""
    if found.fault:
        return Verdict(outcome="error", outcome_reason=found.fault)
    sections = [sections[position] for sections in found.readings]
    readings = [section for section in sections if isinstance(section, Reading)]
    if len(readings) * 2 <= len(sections):
        fault = next(section for section in sections if isinstance(section, Unreadable))
        return Verdict(outcome="error", outcome_reason=fault.reason)
    return verdict_of(readings, prompt)


async def _gather(work: Sequence[Awaitable[None]]) -> None:
    if len(work) == 1:
        await work[0]
    elif work:
        await asyncio.gather(*work)


__all__ = ["ENGINE", "Judge", "JudgeOptions", "Question", "judge_of"]
