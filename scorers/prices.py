"""What tokens cost: those of the judge, and those of the apps themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from assay import config


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Of input tokens that the provider had cached; none: as `input`."""


DEFAULT_PRICES: dict[str, Price] = {
    name: Price(input=input_, cached=cached, output=output)
    for name, input_, cached, output in (
        ("gpt-4o", 2.5, 1.25, 10.0),
        ("gpt-4o-mini", 0.15, 0.075, 0.6),
        ("gpt-4.1", 2.0, 0.5, 8.0),
        ("gpt-4.1-mini", 0.4, 0.1, 1.6),
        ("gpt-4.1-nano", 0.1, 0.025, 0.4),
        ("gpt-5", 1.25, 0.125, 10.0),
        ("gpt-5.1", 1.25, 0.125, 10.0),
        ("gpt-5-mini", 0.25, 0.025, 2.0),
        ("gpt-5-nano", 0.05, 0.005, 0.4),
        ("o3", 2.0, 0.5, 8.0),
        ("o3-mini", 1.1, 0.55, 4.4),
        ("o4-mini", 1.1, 0.275, 4.4),
        ("claude-opus-4-1", 15.0, 1.5, 75.0),
        ("claude-opus-4-5", 5.0, 0.5, 25.0),
        ("claude-sonnet-4", 3.0, 0.3, 15.0),
        ("claude-sonnet-4-5", 3.0, 0.3, 15.0),
        ("claude-haiku-4-5", 1.0, 0.1, 5.0),
        ("claude-3-5-haiku", 0.8, 0.08, 4.0),
        ("gemini-2.5-pro", 1.25, 0.125, 10.0),
        ("gemini-2.5-flash", 0.3, 0.03, 2.5),
        ("gemini-2.5-flash-lite", 0.1, 0.01, 0.4),
        ("gemini-2.0-flash", 0.1, 0.025, 0.4),
        ("deepseek-chat", 0.28, 0.028, 0.42),
        ("deepseek-reasoner", 0.28, 0.028, 0.42),
    )
}
"""List prices as published at the end of 2025; `prices:` in the settings comes before them."""

_DATE = re.compile(r"[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest|preview.*|\d{3})$")


def known_prices(own: Mapping[str, config.Price]) -> dict[str, Price]:
    """Ours and those of the settings, which come first."""
    return DEFAULT_PRICES | {
        name: Price(price.input, price.output, price.cached) for name, price in own.items()
    }


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of `model`; none when the table does not know it.

    A provider's prefix (`openai/`) and a version's date at the end do not matter; a longer name
    (`gpt-4o-audio`) is another model.
    """
    plain = model.rsplit("/", 1)[-1]
    names = (model, plain, _DATE.sub("", plain))
    return next((prices[name] for name in names if name in prices), None)


def cost_of(price: Price, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
    """US dollars; `input_tokens` count the cached ones too."""
    cached = min(cached_tokens, input_tokens)
    cached_price = price.input if price.cached is None else price.cached
    return (
        (input_tokens - cached) * price.input + cached * cached_price + output_tokens * price.output
    ) / 1e6
