"""Asking a prompt's question: fit the evidence in, send, read, ask again once where it helps."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from assay.errors import Permanent, Retryable
from assay.records import JudgeUsage
from scorers.judging.capabilities import Ask
from scorers.judging.client import JudgeClient
from scorers.judging.consensus import expected_details, level_probabilities
from scorers.judging.endpoint import Choice, Reply
from scorers.judging.evidence import Piece, fence_all
from scorers.judging.faults import Busy, Declined, OverBudget, TooLong, Unreachable
from scorers.judging.prompt import Prompt
from scorers.judging.reader import Parts, Reading, Unreadable, read
from scorers.judging.tokens import shorten, tokens_of
from scorers.scorer import Verdict

MORE_ROOM = 4
"""By how much the answer's room grows after an answer that was cut."""
FINAL = ("refused", "content_filter")
"""Faults that asking again would only repeat."""
SAFETY = 1.1
"""Token estimates are taken this many times, so that a request fits."""

T = TypeVar("T")
Evidence = dict[str, list[Piece]]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, and what it cost."""

    readings: list[Any]
    usage: JudgeUsage = JudgeUsage()
    seconds: float = 0.0
    cut: dict[str, int] = {}
    """Characters left out, by input."""
    fault: str = ""
    """Why there are no readings: the closed reason of the most frequent failure."""


class Tally:
    """Sums the usage of several calls."""

    def __init__(self) -> None:
        self.usage = JudgeUsage(cost=0.0)
        self.seconds = 0.0

    def add(self, usage: JudgeUsage, seconds: float) -> None:
        """Costs add up, and are unknown as soon as one is; of the times the longest counts."""
        mine = self.usage
        self.usage = JudgeUsage(
            input_tokens=mine.input_tokens + usage.input_tokens,
            output_tokens=mine.output_tokens + usage.output_tokens,
            cached_tokens=mine.cached_tokens + usage.cached_tokens,
            calls=mine.calls + usage.calls,
            cost=None if mine.cost is None or usage.cost is None else mine.cost + usage.cost,
        )
        self.seconds = max(self.seconds, seconds)


class Asker:
    """Asks questions through one client; remembers only which models need more room to answer."""

    def __init__(self, client: JudgeClient) -> None:
        self.client = client
        self._settings = client.settings
        self._wordy: set[str] = set()

    async def ask(
        self,
        prompt: Prompt,
        evidence: Evidence,
        *,
        model: str,
        samples: int = 1,
        parts: Parts | None = None,
    ) -> Found:
        """Up to `samples` readings. Raises OverBudget, Declined, TooLong or Retryable."""
        evidence = {name: list(group) for name, group in evidence.items()}

        def read_choice(choice: Choice) -> Reading:
            reading = read(choice.text, prompt, parts)
            if choice.logprobs and reading.value is not None:
                chances = level_probabilities(choice.text, choice.logprobs, prompt.scale)
                if chances:
                    extra = expected_details(chances, reading.value)
                    return msgspec.structs.replace(reading, details=reading.details | extra)
            return reading

        return await self.converse(
            evidence,
            prompt.messages,
            fixed_tokens=prompt.fixed_tokens,
            schema=prompt.schema,
            name=prompt.name,
            read_choice=read_choice,
            model=model,
            samples=samples,
            room=self._settings.max_tokens,
        )

    async def converse(
        self,
        evidence: Evidence,
        messages_of: Callable[[dict[str, str]], list[dict[str, str]]],
        *,
        fixed_tokens: int,
        schema: dict[str, Any],
        name: str,
        read_choice: Callable[[Choice], T],
        model: str,
        samples: int,
        room: int,
    ) -> Found:
        """As `ask`, for any messages and any reading of a choice."""
        temperature = self._settings.temperature
        if temperature is None:
            temperature = 0.0 if samples == 1 else 0.7
        if model in self._wordy:
            room *= MORE_ROOM
        cut: dict[str, int] = {}
        for second in (False, True):
            fit = int((self.client.context_tokens(model) - room - fixed_tokens) / SAFETY)
            for key, lost in shorten(evidence, fit).items():
                cut[key] = cut.get(key, 0) + lost
            ask = Ask(
                messages=messages_of(fence_all(evidence)),
                input_tokens=fixed_tokens + tokens_of(evidence),
                schema=schema,
                name=name,
                temperature=temperature,
                logprobs=self._settings.logprobs,
                room=room,
            )
            known = self.client.context_tokens(model)
            try:
                found = await self._sample(ask, model, samples, read_choice)
            except TooLong:
                if second or self.client.context_tokens(model) >= known:
                    raise
                continue
            return msgspec.structs.replace(found, cut=cut)
        raise AssertionError("the loop returns or raises")

    async def _sample(
        self, ask: Ask, model: str, samples: int, read_choice: Callable[[Choice], T]
    ) -> Found:
        tally = Tally()
        readings: list[T] = []
        faults: Counter[str] = Counter()

        def take(choices: Sequence[Choice]) -> None:
            for choice in choices:
                try:
                    readings.append(_read(choice, read_choice))
                except Unreadable as error:
                    faults[error.reason] += 1
            if not choices:
                faults["unparsable"] += 1

        async def call(question: Ask) -> None:
            before = len(readings)
            answer = await self.client.ask(question, model)
            tally.add(answer.usage, answer.seconds)
            take(answer.reply.choices[: question.choices])
            if len(readings) > before and not answer.cached:
                self.client.keep(question, model, answer.reply)

        await call(ask if samples == 1 else msgspec.structs.replace(ask, choices=samples))
        missing = samples - len(readings) - sum(faults[reason] for reason in FINAL)
        if missing > 0:
            cut = faults["truncated"] > 0 and model not in self._wordy
            room = ask.room * MORE_ROOM if cut else ask.room
            again = [
                msgspec.structs.replace(ask, sample=number, room=room)
                for number in range(1, missing + 1)
            ]
            try:
                with contextlib.suppress(OverBudget, TooLong):
                    await _all(*(call(question) for question in again))
            except (Busy, Declined, Unreachable) as error:
                faults[error.reason] += 1
            if cut and len(readings) == samples:
                self._wordy.add(model)
        if len(readings) * 2 <= samples:
            fault = faults.most_common(1)[0][0]
            return Found(readings=[], usage=tally.usage, seconds=tally.seconds, fault=fault)
        return Found(readings=readings, usage=tally.usage, seconds=tally.seconds)


def failure(error: Exception) -> Verdict:
    """The verdict that a failed question ends in."""
    match error:
        case OverBudget():
            return Verdict(outcome="budget", outcome_reason="day")
        case TooLong():
            return Verdict(outcome="overflow", outcome_reason="context")
        case Declined() | Unreachable() | Busy():
            return Verdict(outcome="error", outcome_reason=error.reason)
    return Verdict(outcome="error", outcome_reason="exception", reason=type(error).__name__)


async def _all(*work: Any) -> None:
    """Run all; the first failure cancels the others and is raised alone."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except* (Permanent, Retryable) as errors:
        first: BaseException = errors.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


def _read(choice: Choice, read_choice: Callable[[Choice], T]) -> T:
    if choice.finish == "length":
        raise Unreadable("truncated", "cut at the length limit")
    if choice.finish == "content_filter":
        raise Unreadable("content_filter", "cut by a content filter")
    if choice.refused:
        raise Unreadable("refused", "the judge declined")
    return read_choice(choice)


__all__ = ["Asker", "Evidence", "Found", "Reply", "Tally", "failure"]
