"""What an endpoint accepts, learned from what it refuses.

Every endpoint is first asked in the fullest form. A refusal names the parameter that it cannot
take, in its `param` field or in its words; that parameter is then asked in a lesser form. Names of
models and providers play no part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Format = Literal["schema", "object_schema", "object", "text"]
"""Of the answer, the fullest first: a strict schema; any JSON object, with the schema as a hint
that some servers hold an answer to; any JSON object; text."""
_LESSER: dict[Format, Format] = {
    "schema": "object_schema",
    "object_schema": "object",
    "object": "text",
}


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The form in which an endpoint is asked."""

    format: Format = "schema"
    tokens: Literal["max_tokens", "max_completion_tokens", ""] = "max_tokens"
    """The name of the limit on the answer; empty: none is taken."""
    temperature: bool = True
    choices: bool = True
    """Several answers in one request."""
    logprobs: bool = True
    system: bool = True
    """The system role; without it the instructions open the user's message."""
    dropped: frozenset[str] = frozenset()
    """Configured parameters that are not taken."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a model, whatever the endpoint can do."""

    messages: list[dict[str, str]]
    schema: dict[str, Any]
    name: str
    """Of the schema: letters, digits and underscores."""
    temperature: float = 0.0
    choices: int = 1
    logprobs: bool = False
    room: int = 1024
    """Tokens of the answer, hidden reasoning included."""
    sample: int = 0
    """Which of several equal questions this is: each has an answer of its own."""
    input_tokens: int = 0
    """An estimate of the request's size."""


def body_of(
    ask: Ask, model: str, parameters: Mapping[str, Any], able: Capabilities
) -> dict[str, Any]:
    """The request's JSON body."""
    body: dict[str, Any] = {"model": model, "messages": _messages(ask, able)}
    if able.temperature:
        body["temperature"] = ask.temperature
    if able.tokens:
        body[able.tokens] = ask.room
    if able.format == "schema":
        schema = {"name": ask.name, "strict": True, "schema": ask.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif able.format == "object_schema":
        body["response_format"] = {"type": "json_object", "schema": ask.schema}
    elif able.format == "object":
        body["response_format"] = {"type": "json_object"}
    if ask.choices > 1 and able.choices:
        body["n"] = ask.choices
    if ask.logprobs and able.logprobs:
        body |= {"logprobs": True, "top_logprobs": 5}
    body.update((k, v) for k, v in parameters.items() if k not in able.dropped)
    return body


_FORMAT = re.compile(r"response_?format|json_?schema|json_?object|structured|grammar|json mode")
_SYSTEM = re.compile(r"(system|developer)\W+(role|message|instruction|prompt)|role\W+system")
_TOKENS = re.compile(r"max_tokens|max_completion_tokens")
_CHOICES = re.compile(
    r"\bn\b\W*(must|should|is not|isn't|parameter|>|=)|['\"`]n['\"`]|multiple choices"
)


def learn(
    able: Capabilities, param: str, words: str, body: Mapping[str, Any]
) -> Capabilities | None:
    """The next form to ask in after a refusal of `body`; none when the refusal is about something
    else. `words` are the refusal's, in lower case; `param` is the parameter that it names."""
    subject = param or words
    change = msgspec.structs.replace
    for name in body.keys() - _OURS:
        if re.search(rf"\b{re.escape(name.lower())}\b", subject):
            return change(able, dropped=able.dropped | {name})
    if "logprobs" in body and "logprobs" in subject:
        return change(able, logprobs=False)
    if "response_format" in body and _FORMAT.search(subject):
        return change(able, format=_LESSER[able.format])
    if "temperature" in body and "temperature" in subject:
        return change(able, temperature=False)
    if able.tokens and _TOKENS.search(subject):
        return change(able, tokens="max_completion_tokens" if able.tokens == "max_tokens" else "")
    if "n" in body and (param == "n" or _CHOICES.search(words)):
        return change(able, choices=False)
    if able.system and _SYSTEM.search(subject if not param.startswith("messages") else words):
        return change(able, system=False)
    return None


_OURS = {
    "model",
    "messages",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
    "n",
    "logprobs",
    "top_logprobs",
}


def _messages(ask: Ask, able: Capabilities) -> list[dict[str, str]]:
    if able.system:
        return ask.messages
    system = [m["content"] for m in ask.messages if m["role"] == "system"]
    rest = [m for m in ask.messages if m["role"] != "system"]
    first = {"role": "user", "content": "\n\n".join((*system, rest[0]["content"]))}
    return [first, *rest[1:]]
