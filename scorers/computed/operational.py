"""Operational metrics: read from the turn's spans, no text needed.

0 is a value; what was not exported is skipped; what cannot be (a negative count) is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from assay.records import Feedback, Turn
from scorers.language import languages_of
from scorers.prices import Price, cost_of, price_of
from scorers.schema import Unusable, violations
from scorers.scorer import Function, Verdict, scored, scorer, skipped
from scorers.text import prepared

_NANOSECONDS = 1e9


def _measured(value: float | None, field: str) -> Verdict:
    return skipped(f"{field} absent") if value is None else scored(value)


@scorer("latency_seconds", version="1")
def latency_seconds(turn: Turn) -> Verdict:
    if not turn.started_at or not turn.ended_at:
        return skipped("started_at or ended_at absent")
    return scored((turn.ended_at - turn.started_at) / _NANOSECONDS)


@scorer("time_to_first_token_seconds", version="1")
def time_to_first_token_seconds(turn: Turn) -> Verdict:
    return _measured(turn.time_to_first_token, "time_to_first_token")


@scorer("input_tokens", version="1")
def input_tokens(turn: Turn) -> Verdict:
    return _measured(turn.usage.input_tokens, "input_tokens")


@scorer("output_tokens", version="1")
def output_tokens(turn: Turn) -> Verdict:
    return _measured(turn.usage.output_tokens, "output_tokens")


class CostOptions(msgspec.Struct, frozen=True, kw_only=True):
    prices: dict[str, Price] = {}
    """By model, from the settings."""


@scorer("cost_usd", version="1", options=CostOptions)
def cost_usd(options: CostOptions) -> Function:
    """By the price table; what the app itself exported where the table does not know the model."""

    def score(turn: Turn) -> Verdict:
        usage = turn.usage
        price = price_of(turn.model, options.prices)
        if price is None:
            return _measured(usage.cost, "price")
        if usage.input_tokens is None or usage.output_tokens is None:
            return _measured(usage.cost, "input_tokens or output_tokens")
        cached = usage.cached_tokens or 0
        return scored(cost_of(price, usage.input_tokens, cached, usage.output_tokens))

    return score


@scorer("turn_error", version="1")
def turn_error(turn: Turn) -> Verdict:
    return scored(turn.error is not None)


@scorer("empty_response", version="1")
def empty_response(turn: Turn) -> Verdict:
    if turn.response is None:
        return skipped("response absent")
    return scored(not turn.response.strip())


_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})


@scorer("truncated", version="1")
def truncated(turn: Turn) -> Verdict:
    if turn.finish_reason is None:
        return skipped("finish_reason absent")
    return scored(turn.finish_reason.lower() in _LENGTH)


@scorer("response_language_mismatch", version="1", batched=True)
def response_language_mismatch(turns: Sequence[Turn]) -> list[Verdict]:
    asked = languages_of([prepared(turn.query or "") for turn in turns])
    answered = languages_of([prepared(turn.response or "") for turn in turns])
    return list(map(_mismatch, asked, answered))


def _mismatch(asked: str | None, answered: str | None) -> Verdict:
    if asked is None or answered is None:
        return skipped("language")
    return scored(asked != answered, query=asked, response=answered)


@scorer("json_valid", version="1")
def json_valid(turn: Turn) -> Verdict:
    """Against the declared schema too, where one was declared."""
    asked, schema = _json_format(turn.response_format)
    if not asked:
        return skipped("response_format absent")
    try:
        value = msgspec.json.decode(turn.response or "")
    except (msgspec.DecodeError, RecursionError):
        return scored(0, reason="not JSON")
    try:
        problems = violations(schema, value) if schema else []
    except Unusable:
        return skipped("response_format unusable")
    return scored(not problems, reason=problems[0] if problems else None)


def _json_format(declared: Any) -> tuple[bool, Any]:
    """Whether JSON was asked for, and the schema where one was given."""
    if isinstance(declared, str):
        return "json" in declared.lower(), None
    if not isinstance(declared, dict):
        return False, None
    schema = declared.get("json_schema", declared.get("schema"))
    if isinstance(schema, dict) and isinstance(schema.get("schema"), dict):
        schema = schema["schema"]
    kind = str(declared.get("type", "")).lower()
    return "json" in kind or schema is not None, schema


_LIKED = frozenset(
    {"positive", "good", "up", "like", "liked", "thumbs_up", "thumbs-up", "true", "👍"}
)
_DISLIKED = frozenset(
    {"negative", "bad", "down", "dislike", "disliked", "thumbs_down", "thumbs-down", "false", "👎"}
)
_BY_USERS = ("user", "feedback", "thumb", "rating", "like", "satisfaction")


def _feedback_value(feedback: Feedback) -> float | None:
    if feedback.value is not None:
        return feedback.value
    label = (feedback.label or "").strip().lower()
    return 1.0 if label in _LIKED else 0.0 if label in _DISLIKED else None


@scorer("user_feedback", version="1")
def user_feedback(turn: Turn) -> Verdict:
    """The latest judgement whose name says that it is a user's; a thumb is 1 or 0."""
    for feedback in reversed(turn.feedback):
        value = _feedback_value(feedback)
        if value is not None and any(word in feedback.name.lower() for word in _BY_USERS):
            return scored(value, label=feedback.label, name=feedback.name)
    return skipped("feedback absent")
