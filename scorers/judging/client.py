"""The road to the judge: cache, budget, endpoints in order, retries for what may pass later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from assay import config
from assay.config import Judge
from assay.errors import ConfigError, retrying
from assay.records import JudgeUsage
from scorers.judging.budget import Budget
from scorers.judging.cache import Cache, key_of
from scorers.judging.capabilities import Ask
from scorers.judging.endpoint import Endpoint, Reply
from scorers.judging.faults import Busy, Declined, OverBudget, TooLong, Unreachable
from scorers.judging.pace import Ticket
from scorers.prices import Price, cost_of, known_prices, price_of

MAX_FAULTS = 5
"""Broken or hung calls after which a request is given up while the endpoint serves others."""
PATIENCE = 5.0
"""Seconds of waiting at one endpoint before another one is looked at."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, and what it cost to get it."""

    reply: Reply
    usage: JudgeUsage
    seconds: float
    """Of the call that answered; 0 from the cache."""
    cached: bool = False


class Counts(msgspec.Struct):
    """What was sent and what came back, since the start."""

    results: dict[str, int] = {}
    """Questions answered (`ok`, `cached`) and calls that failed, by reason."""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


class JudgeClient:
    """Asks models. One per process; safe for many tasks of one event loop."""

    def __init__(
        self,
        settings: Judge,
        prices: Mapping[str, config.Price],
        *,
        budget: Budget | None = None,
        cache_path: Path | None = None,
    ) -> None:
        self.settings = settings
        self.model = settings.model
        self.budget = budget if budget is not None else Budget(settings.budget)
        self.counts = Counts()
        self._prices = known_prices(prices)
        self._cache = Cache(cache_path, most=settings.cache) if cache_path is not None else None
        self._endpoints: dict[str, list[Endpoint]] = {
            settings.model: [
                Endpoint(one, timeout=settings.timeout) for one in (settings, *settings.endpoints)
            ]
        }
        self.check_price(settings.model)

    @property
    def calls(self) -> int:
        """Requests sent, answered or not."""
        return sum(endpoint.calls for group in self._endpoints.values() for endpoint in group)

    @property
    def in_flight(self) -> int:
        """Calls under way at all endpoints."""
        return sum(e.pace.in_flight for group in self._endpoints.values() for e in group)

    async def stop(self) -> None:
        """Close every connection and the cache. Safe twice."""
        for endpoint in (e for group in self._endpoints.values() for e in group):
            await endpoint.stop()
        if self._cache is not None:
            self._cache.close()

    def check_price(self, model: str) -> None:
        """Raises ConfigError when a budget in money meets a model without a price."""
        if self.budget.needs_price and price_of(model, self._prices) is None:
            raise ConfigError(
                [f"prices.{model}: needed by judge.budget in US dollars: the price is not known"]
            )

    def endpoints(self, model: str) -> list[Endpoint]:
        """Where `model` is asked, the preferred one first. A model that no endpoint lists is asked
        at the first endpoint's address."""
        group = self._endpoints.get(model)
        if group is None:
            settings = self.settings
            listed = [one for one in settings.endpoints if one.model == model]
            group = [
                Endpoint(one, timeout=settings.timeout)
                for one in listed or [settings.model_copy(update={"model": model})]
            ]
            self._endpoints[model] = group
        return group

    def context_tokens(self, model: str) -> int:
        """The smallest context among the model's endpoints, as far as is known."""
        return min(endpoint.context_tokens for endpoint in self.endpoints(model))

    def price(self, model: str) -> Price | None:
        return price_of(model, self._prices)

    async def ask(self, ask: Ask, model: str) -> Answer:
        """The model's reply. Raises Declined, TooLong or OverBudget, and after
        `judge.give_up_after` the last Retryable."""
        key = b""
        if self._cache is not None:
            key = key_of(ask, model, self.settings.parameters)
            kept = self._cache.get(key)
            if kept is not None:
                self._count("cached")
                return Answer(reply=kept, usage=JudgeUsage(cost=0.0), seconds=0.0, cached=True)
        price = self.price(model)
        room = ask.room * ask.choices
        most = cost_of(price, ask.input_tokens, 0, room) if price is not None else 0.0
        reservation = await self.budget.reserve(most, ask.input_tokens + room)
        cost = 0.0
        try:
            reply, calls, seconds = await self._send(ask, self.endpoints(model))
            if price is not None:
                cost = cost_of(price, reply.input_tokens, reply.cached_tokens, reply.output_tokens)
        finally:
            self.budget.settle(reservation, cost)
        self._count("ok")
        self.counts.input_tokens += reply.input_tokens
        self.counts.output_tokens += reply.output_tokens
        self.counts.usd += cost
        usage = JudgeUsage(
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cached_tokens=reply.cached_tokens,
            calls=calls,
            cost=cost if price is not None else None,
        )
        return Answer(reply=reply, usage=usage, seconds=seconds)

    def keep(self, ask: Ask, model: str, reply: Reply) -> None:
        """Remember a reply that could be read."""
        if self._cache is not None:
            self._cache.put(key_of(ask, model, self.settings.parameters), reply)

    async def _send(self, ask: Ask, endpoints: list[Endpoint]) -> tuple[Reply, int, float]:
        """Reply, number of calls, and seconds of the last one."""
        calls = faults = 0

        async def attempt() -> tuple[Reply, float]:
            nonlocal calls, faults
            endpoint, ticket = await self._enter(endpoints)
            began = time.monotonic()
            calls += 1
            try:
                return await endpoint.send(ask, ticket), time.monotonic() - began
            except Busy as error:
                self._count(error.reason)
                raise
            except Unreachable as error:
                self._count(error.reason)
                faults += 1
                if faults >= MAX_FAULTS and not endpoint.pace.away:
                    raise Declined(str(error), error.reason) from None
                raise
            except Declined as error:
                self._count(error.reason)
                if error.reason == "auth" and any(other.usable for other in endpoints):
                    raise Unreachable(str(error), "auth", 0.0) from None
                raise
            except TooLong as error:
                if error.limit is not None:
                    endpoint.context_tokens = min(endpoint.context_tokens, error.limit)
                raise

        reply, seconds = await retrying(attempt, deadline=self.settings.give_up_after)
        return reply, calls, seconds

    async def _enter(self, endpoints: list[Endpoint]) -> tuple[Endpoint, Ticket]:
        """A place at the first endpoint that serves; at the floor the next one is used."""
        if len(endpoints) == 1:
            return endpoints[0], await endpoints[0].pace.enter()
        while True:
            usable = [endpoint for endpoint in endpoints if endpoint.usable]
            probe = next((e for e in endpoints if e.pace.away and e.pace.free), None)
            chosen = probe or (usable or endpoints)[0]
            try:
                async with asyncio.timeout(PATIENCE):
                    return chosen, await chosen.pace.enter()
            except TimeoutError:
                continue

    def _count(self, result: str) -> None:
        self.counts.results[result] = self.counts.results.get(result, 0) + 1


__all__ = ["Answer", "Counts", "Declined", "JudgeClient", "OverBudget", "TooLong"]
