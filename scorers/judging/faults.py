"""How a call to an endpoint can fail, and what a failed one says.

    Retryable
    ├── Busy         the endpoint asked for fewer calls
    └── Unreachable  it was away, hung or broke
    Permanent
    ├── Declined     this request will never be answered; carries the closed reason
    ├── TooLong      the request does not fit into the model's context
    └── OverBudget   there is no money left for it

No text of a request or reply is part of any of them: an endpoint's words may repeat the key.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import openai

from assay.errors import Permanent, Retryable

Reason = Literal[
    "refused",
    "content_filter",
    "truncated",
    "out_of_range",
    "unparsable",
    "timeout",
    "rate_limited",
    "auth",
    "exception",
]


class Busy(Retryable):
    """429 and its relatives."""

    reason: Reason = "rate_limited"


class Unreachable(Retryable):
    """No answer, or a server's error."""

    def __init__(self, message: str, reason: Reason, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after)
        self.reason: Reason = reason


class Declined(Permanent):
    """The endpoint will not answer this."""

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason: Reason = reason


class TooLong(Permanent):
    """`limit` is the context's size in tokens, where the endpoint said it."""

    def __init__(self, message: str, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class OverBudget(Permanent):
    """The money of the day is spent."""


class Refusal(NamedTuple):
    """A request that was understood and not taken: what may be learned from it."""

    status: int
    param: str
    words: str


_LONG = re.compile(
    r"context.?length|context.?window|context.?size|maximum context|too many tokens|n_ctx"
    r"|prompt is too long|input is too long|reduce the length|exceeds? the (?:maximum|available)"
)
_LIMIT = re.compile(
    r"(?:context (?:length|window|size)|n_ctx|maximum|limit)\D{0,40}?(\d{3,7})"
    r"|(\d{3,7}) (?:max|token limit)"
)
_FORM = re.compile(r"response_format|json_schema|grammar")
"""What servers that fall over an answer's form say with a status of 500."""
_FILTER = re.compile(r"content.?filter|content management|content.?policy|safety (?:system|filter)")


def fault_of(error: Exception) -> Retryable | Permanent | Refusal:
    """What an error of the client means."""
    if isinstance(error, openai.APITimeoutError):
        return Unreachable("no answer before the deadline", "timeout")
    if not isinstance(error, openai.APIStatusError):
        return Unreachable("no connection to the endpoint", "timeout")
    status = error.status_code
    if status in (401, 403):
        return Declined(f"status {status}: the endpoint does not accept the key", "auth")
    if status == 429:
        if _code(error) == "insufficient_quota":
            return Busy("status 429: the account's quota is spent", 60.0)
        return Busy("status 429", rest_of(error.response.headers))
    words = str(error.body or error.message)[:4000].lower()
    if status in (500, 501) and _FORM.search(words):
        return Refusal(status, "response_format", words)
    if status in (408, 409, 425) or status >= 500:
        return Unreachable(f"status {status}", "exception", rest_of(error.response.headers))
    if status == 413 or _code(error) == "context_length_exceeded" or _LONG.search(words):
        found = _LIMIT.search(words)
        limit = int(found[1] or found[2]) if found else None
        return TooLong(f"status {status}: longer than the model's context", limit)
    if _code(error) == "content_filter" or _FILTER.search(words):
        return Declined(f"status {status}: content filter", "content_filter")
    return Refusal(status, str(error.param or "").lower(), words)


def rest_of(headers: Any) -> float | None:
    """Seconds that the endpoint asks to wait, from its headers; none when it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return min(max(0.0, float(headers[name]) * unit), 300.0)
        except (KeyError, ValueError):
            continue
    return None


def spent_until(headers: Any) -> float:
    """Seconds until calls are taken again, when the headers say that none are left; else 0."""
    rest = 0.0
    for kind in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0":
            rest = max(rest, _span(headers.get(f"x-ratelimit-reset-{kind}", "")))
    return min(rest, 300.0)


_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def _span(text: str) -> float:
    return sum(float(number) * _UNITS[unit] for number, unit in _SPAN.findall(text))


def _code(error: openai.APIStatusError) -> str:
    return str(error.code or "")
