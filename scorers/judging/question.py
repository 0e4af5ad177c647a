"""One question about a turn, asked by itself: alone, in both orders, or in parts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.errors import Permanent, Retryable
from assay.metric import SHARE, YES_NO, Metric
from assay.records import Subject, Turn
from scorers.judging import claims
from scorers.judging.asking import SAFETY, Asker, Evidence, Found, Tally, failure
from scorers.judging.consensus import pair_verdict, verdict_of
from scorers.judging.evidence import evidence_of, numbered
from scorers.judging.library import Library
from scorers.judging.prompt import Prompt
from scorers.judging.tokens import tokens_of
from scorers.scorer import Verdict, skipped


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A metric with all that asking it needs."""

    metric: str
    subject: Subject
    prompt: Prompt
    model: str
    samples: int


class Questioner:
    """Answers questions through one asker."""

    def __init__(self, asker: Asker, library: Library) -> None:
        self.asker = asker
        self._library = library
        self._turn: Turn | None = None
        self._read: Evidence = {}

    async def answer(self, question: Question, turn: Turn) -> Verdict:
        """The verdict on a turn. Raises nothing that an endpoint does."""
        evidence = self._evidence(turn, question.prompt.inputs)
        return await self.answer_evidence(question, evidence, turn)

    def _evidence(self, turn: Turn, inputs: Sequence[str]) -> Evidence:
        """As `evidence_of`; the inputs of the latest turn are read once, for all its questions."""
        if turn is not self._turn:
            self._turn, self._read = turn, {}
        missing = [name for name in inputs if name not in self._read]
        self._read |= {name: [] for name in missing} | evidence_of(turn, missing)
        return {name: self._read[name] for name in inputs if self._read[name]}

    async def answer_evidence(self, question: Question, evidence: Evidence, turn: Turn) -> Verdict:
        """The verdict of one question on given evidence."""
        prompt = self.fitting(question.prompt, evidence)
        criteria = prompt.file.criteria
        if criteria:
            evidence["criteria"] = numbered("criterion", [c.text for c in criteria])
        if prompt.scale.kind == "pair":
            evidence |= {"first": evidence_of(turn, ["response"]).get("response", [])}
            evidence |= {"second": evidence_of(turn, ["baseline"]).get("baseline", [])}
        lacking = lacking_input(prompt, evidence)
        if lacking:
            return skipped(lacking)
        try:
            if prompt.scale.kind == "pair":
                return await self._pair(question, prompt, evidence)
            limit = self._room_for_evidence(question.model, prompt)
            if prompt.metric in claims.METRICS and tokens_of(evidence) > limit:
                return await claims.judge_in_parts(
                    self.asker, self._library, prompt, evidence, model=question.model, limit=limit
                )
            parts = {name: [1.0] * len(group) for name, group in evidence.items()}
            if criteria:
                parts["criteria"] = [criterion.weight for criterion in criteria]
            found = await self.asker.ask(
                prompt, evidence, model=question.model, samples=question.samples, parts=parts
            )
        except (Permanent, Retryable) as error:
            return msgspec.structs.replace(failure(error), prompt_digest=prompt.digest)
        verdict = _verdict(found, prompt)
        return msgspec.structs.replace(
            verdict,
            details=verdict.details | cut_details(found),
            prompt_digest=prompt.digest,
            judge_usage=found.usage,
            judge_latency=found.seconds,
        )

    async def _pair(self, question: Question, prompt: Prompt, evidence: Evidence) -> Verdict:
        """Both orders of a comparison."""
        candidate = [p._replace(name="response A") for p in evidence["first"]]
        baseline = [p._replace(name="response B") for p in evidence["second"]]
        swapped = {
            "first": [p._replace(name="response A") for p in baseline],
            "second": [p._replace(name="response B") for p in candidate],
        }
        tally = Tally()
        found = []
        for order in ({"first": candidate, "second": baseline}, swapped):
            step = await self.asker.ask(
                prompt, evidence | order, model=question.model, samples=question.samples
            )
            tally.add(step.usage, step.seconds)
            found.append(step)
        fault = found[0].fault or found[1].fault
        verdict = (
            Verdict(outcome="error", outcome_reason=fault)
            if fault
            else pair_verdict(found[0].readings, found[1].readings)
        )
        return msgspec.structs.replace(
            verdict,
            details=verdict.details | cut_details(found[0]),
            prompt_digest=prompt.digest,
            judge_usage=tally.usage,
            judge_latency=tally.seconds,
        )

    def fitting(self, prompt: Prompt, evidence: Evidence) -> Prompt:
        """The prompt to ask, given which optional inputs are there."""
        for name, other in prompt.file.absent.items():
            if name not in evidence:
                return self._library.find(other, prompt.subject)
        return prompt

    def _room_for_evidence(self, model: str, prompt: Prompt) -> int:
        client = self.asker.client
        room = client.context_tokens(model) - client.settings.max_tokens - prompt.fixed_tokens
        return int(room / SAFETY)


def contract_of(prompt: Prompt) -> Metric:
    """The contract of a metric that only a prompt file describes."""
    file, scale = prompt.file, prompt.scale
    bounds = scale.bounds
    buckets: tuple[float, ...] = ()
    if bounds == (0.0, 1.0):
        buckets = YES_NO if scale.kind in ("boolean", "levels") else SHARE
    elif bounds is not None and scale.kind == "levels":
        buckets = tuple(float(level) for level in sorted(scale.levels))
    elif bounds is not None:
        buckets = tuple(bounds[0] + (bounds[1] - bounds[0]) * step / 10 for step in range(11))
    return Metric(
        name=file.name,
        summary=file.question,
        kind="defect" if file.threshold is not None or scale.kind == "boolean" else "info",
        subject=prompt.subject,
        direction=file.direction,
        threshold=file.threshold,
        low=bounds[0] if bounds else None,
        high=bounds[1] if bounds else None,
        levels={value: level.name for value, level in scale.levels.items()},
        labels=tuple(scale.labels) or (("CANDIDATE", "BASELINE", "TIE") if bounds is None else ()),
        buckets=buckets,
        categories=(file.family,),
        source="own prompt",
    )


def lacking_input(prompt: Prompt, evidence: Evidence) -> str:
    """The required input that is missing, as an outcome's reason; empty when all are there."""
    for need in prompt.required:
        if not any(evidence.get(name) for name in need.split("|")):
            return f"{need.replace('|', ' or ')} absent"
    return ""


def _verdict(found: Found, prompt: Prompt) -> Verdict:
    if found.fault:
        return Verdict(outcome="error", outcome_reason=found.fault)
    return verdict_of(found.readings, prompt)


def cut_details(found: Found) -> dict[str, object]:
    return {"cut": found.cut} if found.cut else {}
