"""How a scorer is declared, and the one list of those that there are.

A scorer is a function from a Turn to a Verdict. A plain function is CPU work and runs in the
process pool; an async function waits for something and runs in the event loop. It keeps no state
between calls, and never changes its input.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from assay.catalogue import Metric
from assay.records import JudgeUsage, Outcome, Turn


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


def scored(
    value: float,
    *,
    label: str | None = None,
    reason: str | None = None,
    confidence: float | None = None,
    **details: Any,
) -> Verdict:
    """A value on the metric's scale. Booleans become 0.0 and 1.0."""
    return Verdict(
        value=float(value), label=label, reason=reason, confidence=confidence, details=details
    )


def skipped(what: str) -> Verdict:
    """A required input is absent, empty, or in a language that the engine cannot judge."""
    return Verdict(outcome="skipped", outcome_reason=what)


def not_applicable(why: str) -> Verdict:
    """The metric does not apply to this turn."""
    return Verdict(outcome="not_applicable", outcome_reason=why)


Function = Callable[[Turn], Verdict] | Callable[[Turn], Awaitable[Verdict]]


class Scorer(msgspec.Struct, frozen=True, kw_only=True):
    """A metric, and one engine that answers it."""

    metric: Metric
    engine: str
    version: str
    function: Function

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)
