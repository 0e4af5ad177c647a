"""How a scorer is declared: what it answers with, and the decorator that makes one of a function.

A scorer is a function from a Turn to a Verdict. A plain function is CPU work and runs in the
process pool; an async function waits for something and runs in the event loop. It keeps no state
between calls and never changes its input.

    @scorer("exact_match", engine="computed", version="1")
    def exact_match(turn: Turn) -> Verdict: ...

One with options is a factory: it takes them once, at start, and returns the function.

    @scorer("rouge_f1_score", engine="computed", version="1", options=RougeOptions)
    def rouge_f1(options: RougeOptions) -> Function: ...

One whose work is cheaper for many turns together takes them together. Turns have no influence on
each other's verdicts.

    @scorer("groundedness", engine="local", version="1", batched=True)
    def groundedness(turns: Sequence[Turn]) -> list[Verdict]: ...
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from assay.catalogue import contract
from assay.errors import Permanent
from assay.metric import SHARE, Metric
from assay.records import Cascade, Direction, JudgeUsage, Kind, Outcome, Subject, Turn


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a scorer found. The worker makes the Score of it: ids, threshold, passed, weight."""

    outcome: Outcome = "scored"
    outcome_reason: str | None = None
    value: float | None = None
    label: str | None = None
    reason: str | None = None
    confidence: float | None = None
    details: dict[str, Any] = {}
    prompt_digest: str = ""
    judge_usage: JudgeUsage | None = None
    judge_latency: float | None = None
    cascade: Cascade | None = None


def scored(
    value: float,
    *,
    label: str | None = None,
    reason: str | None = None,
    confidence: float | None = None,
    **details: Any,
) -> Verdict:
    """A value on the metric's scale. Booleans become 0.0 and 1.0; empty details are left out."""
    return Verdict(
        value=float(value),
        label=label,
        reason=reason,
        confidence=confidence,
        details={name: detail for name, detail in details.items() if detail not in _EMPTY},
    )


_EMPTY: tuple[Any, ...] = (None, [], {}, "")


def skipped(what: str) -> Verdict:
    """A required input is absent, empty, or in a language that the engine cannot judge."""
    return Verdict(outcome="skipped", outcome_reason=what)


def not_applicable(why: str) -> Verdict:
    """The metric does not apply to this turn."""
    return Verdict(outcome="not_applicable", outcome_reason=why)


Function = Callable[[Turn], Verdict] | Callable[[Turn], Awaitable[Verdict]]


class Batched:
    """The function of a batched scorer: `many(turns)` has a verdict a turn, a call that of one."""

    def __init__(self, many: Callable[[Sequence[Turn]], list[Verdict]]) -> None:
        self.many = many

    def __call__(self, turn: Turn) -> Verdict:
        (verdict,) = self.many((turn,))
        return verdict


class Scorer(msgspec.Struct, frozen=True, kw_only=True):
    """A metric, and one engine that answers it."""

    metric: Metric
    """The contract as this engine answers it."""
    engine: str
    version: str
    """Changes whenever the same turn may get another value: a new baseline begins."""
    declared: Callable[..., Any]
    """The function, or the factory where there are options."""
    options: type[msgspec.Struct] | None = None
    """The type of the options, every one with a default; none: there are none."""
    batched: bool = False
    """Whether the function takes many turns."""
    reference: str = ""
    """`module:name`, from which another process loads the same scorer."""

    @property
    def key(self) -> tuple[str, Subject, str]:
        """Metric, subject and engine: what identifies an entry of a TurnScores."""
        return self.metric.name, self.metric.subject, self.engine

    def bind(self, options: msgspec.Struct | None = None) -> Function:
        """The function that scores with `options` (default: the defaults)."""
        if self.options is None:
            function = self.declared
        else:
            function = self.declared(options if options is not None else self.options())
        return Batched(function) if self.batched else function


def scorer(
    name: str,
    *,
    engine: str = "computed",
    version: str,
    options: type[msgspec.Struct] | None = None,
    batched: bool = False,
    subject: Subject | None = None,
    summary: str = "",
    needs: tuple[str, ...] = (),
    kind: Kind = "info",
    direction: Direction = "higher",
    threshold: float | None = None,
    low: float | None = 0.0,
    high: float | None = 1.0,
    buckets: tuple[float, ...] = SHARE,
) -> Callable[[Callable[..., Any]], Scorer]:
    """Declare that the decorated function answers the metric `name` by `engine`.

    A metric of the catalogue keeps the catalogue's contract, and `subject` chooses among its forms;
    what follows `subject` is the contract of a metric that the catalogue does not know.
    """
    metric = contract(name, engine, subject) or Metric(
        name=name,
        summary=summary,
        kind=kind,
        subject=subject or "response",
        needs=needs,
        direction=direction,
        threshold=threshold,
        low=low,
        high=high,
        buckets=buckets,
    )

    def declare(function: Callable[..., Any]) -> Scorer:
        return Scorer(
            metric=metric,
            engine=engine,
            version=version,
            declared=function,
            options=options,
            batched=batched,
            reference=f"{function.__module__}:{function.__qualname__}",
        )

    return declare


def load(reference: str) -> Scorer:
    """The scorer at `module:name`. Raises Permanent, naming what is wrong, when there is none."""
    module, _, name = reference.partition(":")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        raise Permanent(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, Scorer):
        raise Permanent(f"{module} has no scorer named {name}")
    return found


def waits(function: Function) -> bool:
    """Whether `function` is asynchronous: it runs in the event loop and not in the pool."""
    return inspect.iscoroutinefunction(function)
