"""Facts of a span that every family names in its own way: kind, ids, usage, model, errors.

`scan` looks at each attribute once and keeps, per fact, the value under the spelling that goes
first; a value that cannot be one (a negative count, an empty id) leaves the next spelling its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from collector.dialects import spellings as spelt
from collector.dialects.finish import finish_reason
from collector.dialects.step import Kind, Step, Told
from collector.dialects.values import amount, count, decoded, first, number, plain

Facts = dict[str, tuple[int, Any]]
"""Name of a fact to the rank of its spelling and its value."""


def _kind(value: Any) -> Kind | None:
    return spelt.KINDS.get(value.strip('"').lower()) if type(value) is str else None


def _operation(value: Any) -> Kind | None:
    """What a span of the Vercel AI SDK does."""
    if type(value) is not str:
        return None
    if value == "ai.toolCall":
        return "tool"
    if value.startswith(("ai.embed", "ai.rerank")):
        return "embedding"
    return "model" if value.endswith(("doGenerate", "doStream")) else "chain"


def _span_type(value: Any) -> Kind | None:
    """What a span of promptflow does: a traced function is no tool."""
    return None if value == "Function" else _kind(value)


def _provider(value: Any) -> str | None:
    named = plain(value)
    if named is None or named.lower() in spelt.FRAMEWORKS:
        return None
    return named.lower().partition(".chat")[0].removesuffix(".embedding")


def _model(value: Any) -> str | None:
    named = plain(value)
    return None if named in ("unknown", "None") else named


def _as_is(value: Any) -> Any:
    return value


_TABLES: tuple[tuple[str, Callable[[Any], Any], tuple[str, ...]], ...] = (
    ("kind", _kind, spelt.KIND_KEYS),
    ("operation", _operation, ("ai.operationId",)),
    ("span_type", _span_type, ("span_type",)),
    ("conversation", plain, spelt.CONVERSATION),
    ("user", plain, spelt.USER),
    ("metadata", _as_is, spelt.METADATA),
    ("agent", plain, spelt.AGENT),
    ("prompt", plain, spelt.PROMPT),
    ("prompt_version", plain, spelt.PROMPT_VERSION),
    ("model", _model, spelt.MODEL),
    ("response_model", _model, spelt.RESPONSE_MODEL),
    ("provider", _provider, spelt.PROVIDER),
    ("input_tokens", count, spelt.INPUT_TOKENS),
    ("output_tokens", count, spelt.OUTPUT_TOKENS),
    ("cached_tokens", count, spelt.CACHED_TOKENS),
    ("cost", amount, spelt.COST),
    ("system", plain, spelt.SYSTEM),
    ("spent", _as_is, spelt.USAGE_DUMPS),
    ("finish", finish_reason, spelt.FINISH),
    ("response_id", plain, spelt.RESPONSE_ID),
    ("seconds", amount, spelt.SECONDS),
    ("milliseconds", amount, spelt.MILLISECONDS),
)
SLOTS: dict[str, tuple[str, int, Callable[[Any], Any]]] = {
    key: (name, rank, convert) for name, convert, keys in _TABLES for rank, key in enumerate(keys)
}
_DIRECT = frozenset(
    {
        "conversation",
        "user",
        "agent",
        "prompt",
        "prompt_version",
        "model",
        "response_model",
        "provider",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "cost",
        "finish",
        "response_id",
        "system",
    }
)
"""Facts that go into the step as they are."""


def scan(attributes: Mapping[str, Any]) -> tuple[Facts, list[str]]:
    """The facts among `attributes`, and the keys that tell none."""
    found: Facts = {}
    others: list[str] = []
    for key, value in attributes.items():
        slot = SLOTS.get(key)
        if slot is None:
            others.append(key)
            continue
        name, rank, convert = slot
        known = found.get(name)
        if known is None or rank < known[0]:
            fact = convert(value)
            if fact is not None:
                found[name] = (rank, fact)
            elif (convert is count or convert is amount) and _wrong(value):
                found.setdefault("invalid", (0, set()))[1].add(_FIELDS.get(name, name))
    return found, others


_FIELDS = {"seconds": "first_token", "milliseconds": "first_token"}
INVALID_FIELDS = ("input_tokens", "output_tokens", "cached_tokens", "cost", "first_token")
"""Fields of which wrong values are counted."""


def _wrong(value: Any) -> bool:
    """Whether a value that is no amount was meant as one: negative, infinite or not a number."""
    if type(value) is float or type(value) is int:
        return True
    found = number(value)
    return found is not None and found < 0


def fill(step: Step, found: Facts) -> None:
    """Put facts into a step; what it knows already stays."""
    for name, (_, fact) in found.items():
        if name in _DIRECT and getattr(step, name) is None:
            setattr(step, name, fact)
    if "invalid" in found:
        step.invalid |= found["invalid"][1]
    if not step.kind:
        kind = found.get("kind") or found.get("operation") or found.get("span_type")
        if kind is not None:
            step.kind = kind[1]
    if "metadata" in found and (step.conversation is None or step.user is None):
        held = decoded(found["metadata"][1])
        if type(held) is dict:
            whose(held, step)
    if step.input_tokens is None and step.output_tokens is None and "spent" in found:
        used(found["spent"][1], step)
    if step.first_token is None:
        if "seconds" in found:
            step.first_token = found["seconds"][1]
        elif "milliseconds" in found:
            step.first_token = found["milliseconds"][1] / 1000


def whose(held: Mapping[str, Any], step: Step) -> None:
    """The conversation and the user by the names that apps give them; what is known stays."""
    named = plain(first(held, spelt.METADATA_CONVERSATION))
    step.conversation = step.conversation or named
    step.user = step.user or plain(first(held, spelt.METADATA_USER))


def used(value: Any, step: Step) -> None:
    """Tokens out of a `usage` object of any provider; what is known already stays."""
    value = decoded(value)
    if type(value) is not dict:
        return
    if step.input_tokens is None:
        step.input_tokens = _count(value, spelt.DUMPED_INPUT, "input_tokens", step)
    if step.output_tokens is None:
        step.output_tokens = _count(value, spelt.DUMPED_OUTPUT, "output_tokens", step)
    for source in (value, *(value.get(key) for key in spelt.DUMPED_DETAILS)):
        if step.cached_tokens is None and type(source) is dict:
            step.cached_tokens = _count(source, spelt.DUMPED_CACHED, "cached_tokens", step)


def _count(value: Mapping[str, Any], keys: tuple[str, ...], name: str, step: Step) -> int | None:
    for key in keys:
        if key in value:
            if (found := count(value[key])) is not None:
                return found
            if _wrong(value[key]):
                step.invalid |= {name}
    return None


def first_token(step: Step, told: list[Told]) -> None:
    """Time to the first token by moments: of its arrival, or of the first chunk's event."""
    start = step.span.start
    if step.first_token is not None or not start:
        return
    began = plain(step.span.attributes.get("langfuse.observation.completion_start_time"))
    if began:
        try:
            moment = datetime.fromisoformat(began).timestamp()
        except ValueError:
            moment = 0.0
        if moment * 1e9 >= start:
            step.first_token = moment - start / 1e9
            return
    chunks = [event.time for event in told if event.name in spelt.FIRST_EVENTS]
    times = [time for time in chunks if time >= start]
    if times:
        step.first_token = (min(times) - start) / 1e9


_MAX_ERROR = 1000


def failure(step: Step, told: list[Told]) -> None:
    """Why the span failed: the exception's message, else the status message, else its type."""
    span = step.span
    attributes = span.attributes
    level = attributes.get("langfuse.observation.level")
    if not (span.failed or level == "ERROR" or attributes.get("error.type")):
        return
    thrown = next((event.attributes for event in reversed(told) if event.name == "exception"), {})
    text = _either(thrown, attributes, spelt.ERROR_MESSAGES)
    if text is None:
        text = span.status_message.partition("Traceback (most recent call last)")[0].strip()
    text = text or _either(thrown, attributes, spelt.ERROR_TYPES) or "error"
    step.error = text[:_MAX_ERROR]


def _either(
    thrown: Mapping[str, Any], attributes: Mapping[str, Any], keys: tuple[str, ...]
) -> str | None:
    return plain(first(thrown, keys)) or plain(first(attributes, keys))
