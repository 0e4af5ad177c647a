"""Targets: what an evaluation asks for the responses before it scores them.

A model and its prompt, an HTTP endpoint of the user's app, or a Python function. Each takes a row
and gives its outputs; a text is the output `response`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import httpx
import msgspec
import openai

from assay.errors import Permanent, Retryable, retrying

DEADLINE = 300.0
"""Seconds for which a target that is away or busy is tried again."""
TIMEOUT = 120.0
"""Seconds of one attempt."""

Row = Mapping[str, Any]


class Target(Protocol):
    """Something that answers."""

    name: str

    async def answer(self, row: Row) -> dict[str, Any]:
        """The outputs for a row. Raises Permanent or Retryable when there are none."""

    async def stop(self) -> None:
        """Close connections. Safe twice."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is asked; none: as the endpoint does by default."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None


class ModelTarget:
    """A model behind an OpenAI-compatible endpoint, with its system prompt and examples."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None,
        system: str | None = None,
        examples: Sequence[Mapping[str, str]] = (),
        sampling: Sampling | None = None,
    ) -> None:
        """`examples` are messages that come before the question."""
        self.name = f"model:{model}"
        self._model = model
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=api_key or "none", max_retries=0, timeout=TIMEOUT
        )
        first = [{"role": "system", "content": system}] if system else []
        self._before = [*first, *map(dict, examples)]
        self._sampling = msgspec.structs.asdict(sampling or Sampling())

    async def answer(self, row: Row) -> dict[str, Any]:
        messages = row.get("messages")
        if isinstance(messages, list) and messages:
            own = messages
        else:
            own = [{"role": "user", "content": question_of(row)}]
        parameters = {name: value for name, value in self._sampling.items() if value is not None}

        async def ask() -> Any:
            try:
                return await self._client.chat.completions.create(
                    model=self._model,
                    messages=cast(Any, [*self._before, *own]),
                    **parameters,
                )
            except openai.APIStatusError as error:
                raise _failure(error.status_code, error.response.headers) from error
            except openai.APIConnectionError as error:
                raise Retryable(f"the target is away: {type(error).__name__}") from error

        began = time.time_ns()
        reply = await retrying(ask, deadline=DEADLINE)
        if not reply.choices:
            raise Permanent("the target gave no answer")
        choice = reply.choices[0]
        usage = reply.usage
        return {
            "response": choice.message.content or "",
            "finish_reason": choice.finish_reason,
            "model": reply.model,
            "started_at": began,
            "ended_at": time.time_ns(),
            "usage": {}
            if usage is None
            else {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens},
        }

    async def stop(self) -> None:
        await self._client.close()


class HttpTarget:
    """An endpoint that takes the row as JSON by POST and answers text, or JSON of its outputs."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.name = url
        self._url = url
        self._client = httpx.AsyncClient(timeout=TIMEOUT, headers=dict(headers or {}))

    async def answer(self, row: Row) -> dict[str, Any]:
        async def ask() -> httpx.Response:
            try:
                response = await self._client.post(self._url, json=dict(row))
            except httpx.HTTPError as error:
                raise Retryable(f"the target is away: {type(error).__name__}") from error
            if response.status_code >= 400:
                raise _failure(response.status_code, response.headers)
            return response

        began = time.time_ns()
        response = await retrying(ask, deadline=DEADLINE)
        times = {"started_at": began, "ended_at": time.time_ns()}
        if "json" not in response.headers.get("content-type", ""):
            return {"response": response.text} | times
        try:
            return times | outputs_of(response.json())
        except ValueError as error:
            raise Permanent("the target's answer is not JSON") from error

    async def stop(self) -> None:
        await self._client.aclose()


class FunctionTarget:
    """A Python function `module:name`, plain or async, that takes the row."""

    def __init__(self, reference: str) -> None:
        """Raises Permanent when there is no such function."""
        self.name = reference
        module, _, name = reference.partition(":")
        try:
            self._function: Callable[[dict[str, Any]], Any] = getattr(
                importlib.import_module(module), name
            )
        except (ImportError, AttributeError, ValueError) as error:
            raise Permanent(f"{reference} cannot be imported: {error}") from error

    async def answer(self, row: Row) -> dict[str, Any]:
        began = time.time_ns()
        try:
            if inspect.iscoroutinefunction(self._function):
                found = await self._function(dict(row))
            else:
                found = await asyncio.to_thread(self._function, dict(row))
        except Exception as error:
            raise Permanent(f"the target raised {type(error).__name__}") from error
        return {"started_at": began, "ended_at": time.time_ns()} | outputs_of(found)

    async def stop(self) -> None:
        return None


def outputs_of(value: Any) -> dict[str, Any]:
    """A target's answer as named outputs."""
    if isinstance(value, Mapping):
        return dict(value)
    return {"response": value if isinstance(value, str) else msgspec.json.encode(value).decode()}


def question_of(row: Row) -> str:
    """The row's question, under any of its names. Raises Permanent without one."""
    for name in ("query", "question", "instruction", "input", "prompt"):
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            return value
    raise Permanent("the row has no query to ask")


def _failure(status: int, headers: Mapping[str, str]) -> Permanent | Retryable:
    text = f"the target answered {status}"
    if status != 429 and status < 500:
        return Permanent(text)
    try:
        return Retryable(text, float(headers.get("retry-after", "")))
    except ValueError:
        return Retryable(text)
