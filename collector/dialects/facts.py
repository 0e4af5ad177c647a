"""Facts of a span that every family names in its own way: kind, ids, usage, model, errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from collector.dialects import spellings as spelt
from collector.dialects.finish import finish_reason
from collector.dialects.step import Kind, Step, Told
from collector.dialects.values import count, decoded, first, number, plain


def kind_of(attributes: Mapping[str, Any]) -> Kind:
    """What a span is by its own word: the library's marker before the convention's operation."""
    for key in spelt.KIND_KEYS:
        word = attributes.get(key)
        if type(word) is str and word:
            named = word.strip('"').lower()
            kind = spelt.KINDS.get(named)
            if kind is not None:
                return kind
    operation = attributes.get("ai.operationId")
    if type(operation) is str:
        if operation == "ai.toolCall":
            return "tool"
        if operation.startswith(("ai.embed", "ai.rerank")):
            return "embedding"
        return "model" if operation.endswith(("doGenerate", "doStream")) else "chain"
    return ""


def read(step: Step) -> None:
    """Fill the facts of `step` from its span's attributes."""
    attributes = step.span.attributes
    step.kind = kind_of(attributes)
    if not attributes:
        return
    ids(attributes, step)
    usage(attributes, step)
    step.agent = plain(first(attributes, spelt.AGENT))
    step.prompt = plain(first(attributes, spelt.PROMPT))
    if step.prompt:
        step.prompt_version = plain(first(attributes, spelt.PROMPT_VERSION))
    step.model = plain(first(attributes, spelt.MODEL))
    step.response_model = plain(first(attributes, spelt.RESPONSE_MODEL))
    for key in spelt.PROVIDER:
        named = plain(attributes.get(key))
        if named and named.lower() not in spelt.FRAMEWORKS:
            step.provider = named.lower().partition(".chat")[0].removesuffix(".embedding")
            break
    step.response_id = plain(first(attributes, spelt.RESPONSE_ID))
    step.finish = finish_reason(first(attributes, spelt.FINISH))


def ids(attributes: Mapping[str, Any], step: Step) -> None:
    """Conversation and user, from the attributes of a span or of a log record."""
    if step.conversation is None:
        step.conversation = plain(first(attributes, spelt.CONVERSATION))
    if step.user is None:
        step.user = plain(first(attributes, spelt.USER))
    if step.conversation is None or step.user is None:
        for key in spelt.METADATA:
            text = attributes.get(key)
            if type(text) is str and text[:1] == "{" and type(held := decoded(text)) is dict:
                step.conversation = step.conversation or plain(
                    first(held, spelt.METADATA_CONVERSATION)
                )
                step.user = step.user or plain(first(held, spelt.METADATA_USER))


def usage(attributes: Mapping[str, Any], step: Step) -> None:
    """Tokens and cost, from the attributes of a span or of a log record."""
    if step.input_tokens is None:
        step.input_tokens = _count(attributes, spelt.INPUT_TOKENS)
    if step.output_tokens is None:
        step.output_tokens = _count(attributes, spelt.OUTPUT_TOKENS)
    if step.cached_tokens is None:
        step.cached_tokens = _count(attributes, spelt.CACHED_TOKENS)
    if step.cost is None:
        step.cost = next(
            (c for k in spelt.COST if (c := number(attributes.get(k))) is not None), None
        )
    if step.input_tokens is None and step.output_tokens is None:
        for key in spelt.USAGE_DUMPS:
            if key in attributes:
                used(attributes[key], step)
        if step.input_tokens is None and spelt.AGGREGATED[0] in attributes:
            step.input_tokens = count(attributes[spelt.AGGREGATED[0]])
            step.output_tokens = count(attributes.get(spelt.AGGREGATED[1]))


def _count(attributes: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        if key in attributes and (found := count(attributes[key])) is not None:
            return found
    return None


def used(value: Any, step: Step) -> None:
    """Tokens out of a `usage` object of any provider; what is known already stays."""
    value = decoded(value)
    if type(value) is not dict:
        return
    if step.input_tokens is None:
        step.input_tokens = _count(value, spelt.DUMPED_INPUT)
    if step.output_tokens is None:
        step.output_tokens = _count(value, spelt.DUMPED_OUTPUT)
    if step.cached_tokens is None:
        details: dict[str, Any] = next(
            (value[key] for key in spelt.DUMPED_DETAILS if type(value.get(key)) is dict), {}
        )
        step.cached_tokens = _count({**value, **details}, spelt.DUMPED_CACHED)


def first_token(step: Step, told: list[Told]) -> None:
    """Time to the first token, from attributes or from the time of the first chunk's event."""
    attributes, start = step.span.attributes, step.span.start
    for key in spelt.SECONDS:
        if (seconds := number(attributes.get(key))) is not None and seconds >= 0:
            step.first_token = seconds
            return
    for key in spelt.MILLISECONDS:
        if (milliseconds := number(attributes.get(key))) is not None and milliseconds >= 0:
            step.first_token = milliseconds / 1000
            return
    began = plain(attributes.get("langfuse.observation.completion_start_time"))
    if began and start:
        try:
            moment = datetime.fromisoformat(began).timestamp()
        except ValueError:
            moment = 0.0
        if moment * 1e9 >= start:
            step.first_token = moment - start / 1e9
            return
    times = [
        event.time for event in told if event.name in spelt.FIRST_EVENTS and event.time >= start
    ]
    if times and start:
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
    text = plain(first(thrown, spelt.ERROR_MESSAGES)) or plain(
        first(attributes, spelt.ERROR_MESSAGES)
    )
    if text is None:
        text = span.status_message.partition("Traceback (most recent call last)")[0].strip()
    kind = plain(first(thrown, spelt.ERROR_TYPES)) or plain(first(attributes, spelt.ERROR_TYPES))
    step.error = (text or kind or "error")[:_MAX_ERROR]
