"""What judging would cost, before it is switched on: the real requests, built and not sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from assay.config import Config
from assay.errors import ConfigError
from assay.records import JudgeUsage, Turn
from scorers import cascade
from scorers.judge import Judge
from scorers.judged_plan import plan_of
from scorers.judging.budget import Budget
from scorers.judging.capabilities import Ask
from scorers.judging.client import Answer, JudgeClient
from scorers.judging.endpoint import Choice, Reply
from scorers.judging.library import load_library
from scorers.plan import Entry
from scorers.prices import cost_of

REASON_TOKENS = 90
"""Assumed for the text of a reason."""
ITEM_TOKENS = 25
"""Assumed for each entry of a list."""

_encode = msgspec.json.Encoder().encode
_CHECKED = re.compile(r"<<<(?:claim|criterion) (\d+) ")
_DOCUMENT = re.compile(r"<<<document (\d+) ")


class MetricCost(msgspec.Struct):
    """What one metric would cost on the sample."""

    scores: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0
    """None when a model has no price."""


class Estimate(msgspec.Struct, kw_only=True):
    """What judging a sample of turns would cost. Sampling ratios are those of the settings."""

    turns: int = 0
    metrics: dict[str, MetricCost] = {}

    @property
    def usd_per_turn(self) -> float | None:
        """None when a model has no price, or there are no turns."""
        costs = [metric.usd for metric in self.metrics.values()]
        if not self.turns or any(cost is None for cost in costs):
            return None
        return sum(cost for cost in costs if cost is not None) / self.turns

    @property
    def calls_per_turn(self) -> float:
        calls = sum(metric.calls for metric in self.metrics.values())
        return calls / self.turns if self.turns else 0.0


async def estimate(config: Config, turns: Iterable[Turn]) -> Estimate:
    """Price the judge metrics of `config` on `turns`. Sends nothing.

    Answers are taken to be of usual length; every other number is counted from the requests that
    would be sent. Raises ConfigError without a `judge:` block.
    """
    if config.judge is None:
        raise ConfigError(["judge: needed to estimate what judging costs"])
    judge = Judge(DryClient(config), load_library(config.judge.prompts))
    plan = plan_of(config, judge)
    found = Estimate()
    for turn in turns:
        found.turns += 1
        entries = [
            entry
            for entry in plan.entries(turn.app)
            if cascade.answered_by_judge(entry) and entry.metric.subject != "conversation"
        ]
        for entry, verdict in zip(
            entries, await cascade.verdicts(judge, turn, entries), strict=True
        ):
            if verdict.judge_usage is not None:
                _add(found.metrics.setdefault(_name(entry), MetricCost()), verdict.judge_usage)
    return found


class DryClient(JudgeClient):
    """A client that answers every question itself, with the least that the schema allows."""

    def __init__(self, config: Config) -> None:
        assert config.judge is not None
        unlimited = config.judge.model_copy(update={"budget": type(config.judge.budget)()})
        super().__init__(unlimited, config.prices, budget=Budget(unlimited.budget))

    async def ask(self, ask: Ask, model: str) -> Answer:
        text = ask.messages[-1]["content"]
        numbers = _CHECKED.findall(text) or _DOCUMENT.findall(text)
        answer = _fill(ask.schema, numbers)
        choice = Choice(_encode(answer).decode())
        output = _length(ask.schema, numbers) * ask.choices
        price = self.price(model)
        usage = JudgeUsage(
            input_tokens=ask.input_tokens,
            output_tokens=output,
            calls=1,
            cost=None if price is None else cost_of(price, ask.input_tokens, 0, output),
        )
        reply = Reply([choice] * ask.choices, ask.input_tokens, output)
        return Answer(reply=reply, usage=usage, seconds=0.0)


def _add(cost: MetricCost, usage: JudgeUsage) -> None:
    cost.scores += 1
    cost.calls += usage.calls
    cost.input_tokens += usage.input_tokens
    cost.output_tokens += usage.output_tokens
    cost.usd = None if usage.cost is None or cost.usd is None else cost.usd + usage.cost


def _name(entry: Entry) -> str:
    subject = entry.metric.subject
    return entry.metric.name if subject != "query" else f"{entry.metric.name} ({subject})"


def _fill(schema: dict[str, Any], numbers: list[str]) -> Any:
    """A value that satisfies `schema`; lists over numbered parts hold one entry for each."""
    match schema.get("type"):
        case "object":
            return {name: _fill(inner, numbers) for name, inner in schema["properties"].items()}
        case "array":
            inner = schema["items"]
            if "n" in inner.get("properties", {}):
                return [_fill(inner, numbers) | {"n": int(number)} for number in numbers]
            return [_fill(inner, numbers)] if inner.get("type") == "object" else []
        case "boolean":
            return True
        case "number":
            return 0.0
        case "string" if "enum" not in schema:
            return "-"
    return schema.get("enum", [1])[0]


def _length(schema: dict[str, Any], numbers: list[str]) -> int:
    """Assumed tokens of an answer of this form."""
    match schema.get("type"):
        case "object":
            inner = schema["properties"].items()
            return 5 + sum(
                REASON_TOKENS if name == "reason" else _length(part, numbers)
                for name, part in inner
            )
        case "array":
            return 10 + ITEM_TOKENS * max(1, len(numbers))
    return 6
