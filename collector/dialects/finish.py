"""Why a model stopped, in one vocabulary."""

from __future__ import annotations

from typing import Any

from collector.dialects.values import decoded

_WORDS = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "complete": "stop",
    "success": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "incomplete": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "refusal": "content_filter",
}


def finish_reason(value: Any) -> str | None:
    """`stop`, `length`, `tool_calls`, `content_filter`, or the provider's own word in lower case.

    Takes a word, an enum's repr (`FinishReason.STOP`), or a list of these, of which the first that
    says something counts.
    """
    if value is None:
        return None
    value = decoded(value)
    if type(value) is list:
        return next((reason for item in value if (reason := finish_reason(item))), None)
    if type(value) is dict:
        return finish_reason(value.get("unified") or value.get("type"))
    if type(value) is not str or value in ("", "None", "null"):
        return None
    word = value.rpartition(".")[2].strip().lower().replace("-", "_")
    return _WORDS.get(word, word[:40]) or None
