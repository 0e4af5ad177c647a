"""From several answers to one verdict, and how far they agree.

Ordinal scales take the lower median, numbers the median, truth values and labels the majority. A
tie between truth values goes to the worse one. Confidence is the share of answers that agree with
the verdict; one answer alone has none.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from scorers.judging.answer import SCORE
from scorers.judging.prompt import Prompt
from scorers.judging.reader import Reading
from scorers.judging.scale import Scale
from scorers.scorer import Verdict

AGREES = 0.05
"""Part of a number scale's width within which two numbers agree."""


def verdict_of(readings: Sequence[Reading], prompt: Prompt) -> Verdict:
    """The consensus of one or more readings of the same question."""
    applicable = [reading for reading in readings if reading.applicable]
    if len(applicable) * 2 < len(readings) or not applicable:
        spoken = next(reading for reading in readings if not reading.applicable)
        return Verdict(
            outcome="not_applicable", outcome_reason="judge", reason=spoken.reason or None
        )
    if len(applicable) == 1:
        return _verdict(applicable[0], None)
    if prompt.scale.kind == "labels":
        label, count = Counter(reading.label for reading in applicable).most_common(1)[0]
        chosen = next(reading for reading in applicable if reading.label == label)
        return _verdict(
            chosen, count / len(applicable), samples=[reading.label for reading in applicable]
        )
    values = [reading.value for reading in applicable if reading.value is not None]
    value = _middle(values, prompt)
    agreeing = [v for v in values if _agree(v, value, prompt.scale)]
    chosen = min(applicable, key=lambda reading: abs((reading.value or 0.0) - value))
    verdict = _verdict(chosen, len(agreeing) / len(values), samples=values)
    return _replace_value(verdict, value)


def pair_verdict(forward: Sequence[Reading], backward: Sequence[Reading]) -> Verdict:
    """The verdict over both orders: `forward` had the candidate as A, `backward` as B.

    A majority in each order must name the same response; otherwise it is a TIE.
    """
    votes = [reading.label == "A" for reading in forward]
    reverse = [reading.label == "B" for reading in backward]
    first, second = _majority(votes), _majority(reverse)
    both = votes + reverse
    for_candidate = sum(both) / len(both)
    reason = forward[0].reason or None
    details = {"candidate_votes": sum(both), "votes": len(both)}
    if first is None or second is None or first != second:
        return Verdict(
            label="TIE",
            reason=reason,
            confidence=2 * min(for_candidate, 1.0 - for_candidate),
            details=details,
        )
    return Verdict(
        label="CANDIDATE" if first else "BASELINE",
        reason=reason,
        confidence=for_candidate if first else 1.0 - for_candidate,
        details=details,
    )


def level_probabilities(text: str, tokens: Sequence[Any], scale: Scale) -> dict[int, float] | None:
    """The probability of each level at the value's token, from `logprobs`; none when it is unclear.

    Only alternatives that are levels count, and they are scaled to sum to 1.
    """
    if scale.kind != "levels":
        return None
    at = text.rfind(f'"{SCORE}"')
    if at < 0:
        return None
    start = next((i for i in range(at + len(SCORE) + 2, len(text)) if text[i] in "-0123456789"), -1)
    if start < 0:
        return None
    position = 0
    for token in tokens:
        word = token.get("token") if isinstance(token, dict) else None
        if not isinstance(word, str):
            return None
        if position <= start < position + len(word):
            return _weights(token.get("top_logprobs"), scale)
        position += len(word)
    return None


def expected_details(chances: dict[int, float], value: float) -> dict[str, Any]:
    """Expected value over the levels, and the probability of the chosen one."""
    return {
        "expected": sum(level * chance for level, chance in chances.items()),
        "probability": chances.get(int(value), 0.0),
    }


def _weights(alternatives: Any, scale: Scale) -> dict[int, float] | None:
    chances: dict[int, float] = {}
    for alternative in alternatives if isinstance(alternatives, list) else []:
        if not isinstance(alternative, dict):
            return None
        word, logprob = alternative.get("token"), alternative.get("logprob")
        if not isinstance(word, str) or not isinstance(logprob, int | float):
            return None
        digits = word.strip().strip('":,}')
        if digits.lstrip("-").isdecimal() and int(digits) in scale.levels:
            chances[int(digits)] = chances.get(int(digits), 0.0) + math.exp(min(logprob, 0.0))
    total = sum(chances.values())
    return {level: chance / total for level, chance in chances.items()} if total > 0 else None


def _middle(values: list[float], prompt: Prompt) -> float:
    match prompt.scale.kind:
        case "boolean":
            trues = sum(values)
            if trues * 2 == len(values):
                return 1.0 if prompt.file.direction == "true_is_bad" else 0.0
            return float(trues * 2 > len(values))
        case "levels":
            return statistics.median_low(values)
    return statistics.median(values)


def _agree(value: float, other: float, scale: Scale) -> bool:
    if scale.kind in ("levels", "boolean") or scale.bounds is None:
        return value == other
    low, high = scale.bounds
    return abs(value - other) <= AGREES * (high - low)


def _majority(votes: Sequence[bool]) -> bool | None:
    """What most say; none for a tie."""
    yes = sum(votes)
    return None if yes * 2 == len(votes) else yes * 2 > len(votes)


def _verdict(reading: Reading, confidence: float | None, **more: Any) -> Verdict:
    return Verdict(
        value=reading.value,
        label=reading.label,
        reason=reading.reason or None,
        confidence=confidence,
        details=reading.details | more,
    )


def _replace_value(verdict: Verdict, value: float) -> Verdict:
    return Verdict(
        value=value,
        label=verdict.label if verdict.value == value else None,
        reason=verdict.reason,
        confidence=verdict.confidence,
        details=verdict.details,
    )
