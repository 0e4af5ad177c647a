"""One OpenAI-compatible endpoint: its client, its pace, and what was learned about it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import msgspec
import openai

from assay.config import JudgeEndpoint
from assay.errors import Permanent, Retryable
from assay.telemetry import Trouble
from scorers.judging.capabilities import Ask, Capabilities, body_of, learn
from scorers.judging.faults import (
    Busy,
    Declined,
    Refusal,
    Unreachable,
    fault_of,
    spent_until,
)
from scorers.judging.pace import Pace, Ticket

log = logging.getLogger(__name__)

MAX_LESSONS = 12
"""Refused forms after which a request is given up."""
_TALKATIVE = ("openai", "httpx2", "httpcore2", "aiohttp")
"""Loggers that would write requests down below the level of warnings."""
_UNWANTED = {
    f"X-Stainless-{name}": openai.Omit()
    for name in ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")
}
_PER_CALL = {"X-Stainless-Retry-Count": openai.Omit(), "X-Stainless-Read-Timeout": openai.Omit()}
"""What the client would tell of this machine with each request; an eighth of a call's time."""
LOCK = 60.0
"""Seconds without calls after the key was refused, while other endpoints are there."""


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message = msgspec.field(default_factory=_Message)
    finish_reason: str | None = None
    logprobs: Any = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Cached | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    model: str | None = None


_decode = msgspec.json.Decoder(_Completion).decode
_encode = msgspec.json.Encoder().encode


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer of the model."""

    text: str
    finish: str = "stop"
    refused: bool = False
    logprobs: list[Any] | None = None
    """For each token of the text `{"token", "top_logprobs": [{"token", "logprob"}]}`."""


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one call gave."""

    choices: list[Choice]
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    model: str = ""


class Endpoint:
    """Sends one request at a time as the caller asks; many may be in flight.

    `send` learns what the endpoint takes; it makes no retries for what may pass later.
    """

    def __init__(self, settings: JudgeEndpoint, *, timeout: float) -> None:
        self.model = settings.model
        self.pace = Pace(settings.concurrency)
        self.capabilities = Capabilities()
        self.context_tokens = settings.context_tokens
        """Falls when the endpoint says that its context is smaller."""
        self.calls = 0
        self.locked_until = 0.0
        self._parameters = settings.parameters
        self._timeout = timeout
        self._settings = settings
        self._url = f"{settings.base_url}/chat/completions"
        self._client: openai.AsyncOpenAI | None = None
        self._trouble = Trouble(log, f"the judge at {urlsplit(settings.base_url).hostname}")

    async def stop(self) -> None:
        """Close the connections. Safe twice and without a call before."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @property
    def usable(self) -> bool:
        """Whether calls go through: it is not away, and its key was not refused lately."""
        return not self.pace.away and time.monotonic() >= self.locked_until

    async def send(self, ask: Ask, ticket: Ticket) -> Reply:
        """The endpoint's answer to `ask`; `ticket` comes from the pace and is given back.

        Raises Busy, Unreachable, Declined or TooLong.
        """
        for lesson in range(MAX_LESSONS):
            if lesson:
                ticket = await self.pace.enter()
            able = self.capabilities
            body = body_of(ask, self.model, self._parameters, able)
            answer = await self._call(body, ticket)
            if isinstance(answer, Reply):
                return answer
            lesser = learn(able, answer.param, answer.words, body)
            if lesser is None:
                refused = Declined(f"status {answer.status}: the request was refused", "exception")
                if answer.status == 404:
                    self._trouble.failed(refused)
                raise refused
            if self.capabilities == able:
                self.capabilities = lesser
                log.info("the judge's endpoint takes less than was asked", extra=told(lesser))
        raise Declined("the endpoint refused every form of the request", "exception")

    async def _call(self, body: dict[str, Any], ticket: Ticket) -> Reply | Refusal:
        began = time.monotonic()
        self.calls += 1
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._connect().post(
                    self._url,
                    cast_to=httpx2.Response,
                    content=_encode(body),
                    options={"headers": _PER_CALL},
                )
        except asyncio.CancelledError:
            self.pace.abandoned(ticket)
            raise
        except TimeoutError:
            fault: Retryable | Permanent | Refusal = Unreachable(
                "no answer before the deadline", "timeout"
            )
        except (openai.OpenAIError, httpx2.HTTPError, OSError) as error:
            fault = fault_of(error)
        else:
            reply = _reply_of(response)
            self.pace.answered(ticket, time.monotonic() - began)
            self._trouble.worked()
            self.pace.rest(spent_until(response.headers))
            return reply
        self._tell_pace(fault, ticket, time.monotonic() - began)
        if isinstance(fault, Refusal):
            return fault
        raise fault

    def _tell_pace(
        self, fault: Retryable | Permanent | Refusal, ticket: Ticket, seconds: float
    ) -> None:
        if isinstance(fault, Busy):
            self.pace.lost(ticket, fault.retry_after or 0.0)
        elif isinstance(fault, Unreachable):
            self.pace.lost(ticket)
        else:
            if isinstance(fault, Declined) and fault.reason == "auth":
                self.locked_until = time.monotonic() + LOCK
                self._trouble.failed(fault)
            self.pace.answered(ticket, seconds)
        if self.pace.away and isinstance(fault, Retryable):
            self._trouble.failed(fault)

    def _connect(self) -> openai.AsyncOpenAI:
        if self._client is None:
            for name in _TALKATIVE:
                logging.getLogger(name).setLevel(logging.WARNING)
            settings = self._settings
            key = settings.api_key
            own = {name: value.get_secret_value() for name, value in settings.headers.items()}
            self._client = openai.AsyncOpenAI(
                base_url=settings.base_url,
                api_key=key.get_secret_value() if key is not None else "none",
                default_headers=cast(
                    "dict[str, str]", _UNWANTED | {"Content-Type": "application/json"} | own
                ),
                max_retries=0,
                timeout=httpx2.Timeout(self._timeout, connect=10.0),
                http_client=openai.DefaultAioHttpClient(
                    limits=httpx2.Limits(
                        max_connections=settings.concurrency, keepalive_expiry=30.0
                    )
                ),
            )
            self._client.organization = self._client.project = None
        return self._client


def told(able: Capabilities) -> dict[str, Any]:
    """A form of asking, for a log line."""
    return {name: value for name, value in msgspec.to_builtins(able).items() if value != []}


def _reply_of(response: httpx2.Response) -> Reply:
    """What a successful response holds. A body that is no completion gives no choices."""
    try:
        completion = _decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Reply([])
    usage = completion.usage or _Usage()
    details = usage.prompt_tokens_details or _Cached()
    return Reply(
        [_choice_of(choice) for choice in completion.choices],
        usage.prompt_tokens or 0,
        usage.completion_tokens or 0,
        details.cached_tokens or 0,
        completion.model or "",
    )


def _choice_of(choice: _Choice) -> Choice:
    content = choice.message.content
    if isinstance(content, list):
        parts = [p.get("text") for p in content if isinstance(p, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    logprobs = choice.logprobs.get("content") if isinstance(choice.logprobs, dict) else None
    return Choice(
        content or "",
        choice.finish_reason or "stop",
        bool(choice.message.refusal),
        logprobs if isinstance(logprobs, list) else None,
    )
