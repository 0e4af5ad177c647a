"""Reading a judge's reply: exactly one value on the scale, or a closed reason why there is none.

What is read: one JSON object, alone or within a code fence, other words, a one-element list or one
wrapping object; keys in any case; numbers that are written as strings. What is not: a value
that stands twice with different content, a fraction of another scale, a value off the scale, a
number where truth values are asked for or the reverse. Nothing is clamped, rescaled or guessed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn

import msgspec

from scorers.judging.answer import APPLICABLE, LABEL, MAX_ITEMS, NUMBER, REASON, SCORE
from scorers.judging.prompt import Prompt
from scorers.judging.scale import Scale

EPSILON = 1e-6
"""How far beyond its bounds a number may lie and still count as the bound."""
MAX_REPLY = 200_000
"""Characters; a longer reply is unparsable."""
MAX_CANDIDATES = 64
"""Places in a reply at which an object is looked for."""

_THINKING = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPENING = re.compile(r"[{\[]")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_REFUSAL = re.compile(
    r"\A\W*(?:i['’]?m (?:really |very )?sorry|sorry,|i can(?:no|['’])t\b|i am unable to\b"
    r"|i won['’]t\b|i will not\b|as an ai\b|i must decline|i (?:have to|must) refuse)",
    re.IGNORECASE,
)

Parts = Mapping[str, Sequence[float]]
Fault = Literal["refused", "content_filter", "truncated", "out_of_range", "unparsable"]


class Unreadable(Exception):
    """A reply without exactly one value on the scale; `reason` is one of the closed reasons."""

    def __init__(self, reason: Fault, why: str) -> None:
        super().__init__(why)
        self.reason: Fault = reason


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply says."""

    value: float | None = None
    label: str | None = None
    reason: str = ""
    applicable: bool = True
    details: dict[str, Any] = {}


def read(text: str, prompt: Prompt, parts: Parts | None = None) -> Reading:
    """The one verdict in `text`. Raises Unreadable.

    `parts` gives a weight for each part of an input, for prompts that ask about each.
    """
    return read_object(parse(text, prompt), prompt, parts or {})


def parse(text: str, prompt: Prompt) -> Any:
    """The one JSON value in `text` that could be the answer. Raises Unreadable."""
    body = _body(text)
    try:
        return _decode(body)
    except ValueError:
        found = _objects(body)
    key = _answer_key(prompt)
    answers = [value for value in found if _holds(value, key)]
    if not answers:
        raise _nothing_in(body)
    if any(_value_at(answer, key) != _value_at(answers[0], key) for answer in answers):
        raise Unreadable("unparsable", "more than one answer")
    return answers[-1]


def parse_json(text: str) -> Any:
    """The one JSON object in `text`, whatever its keys. Raises Unreadable."""
    body = _body(text)
    try:
        return _decode(body)
    except ValueError:
        found = [value for value in _objects(body) if isinstance(value, dict)]
    if len(found) == 1:
        return found[0]
    raise _nothing_in(body) if not found else Unreadable("unparsable", "more than one answer")


def read_object(answer: Any, prompt: Prompt, parts: Parts) -> Reading:
    """The verdict in a decoded answer. Raises Unreadable."""
    scale = prompt.scale
    key = _answer_key(prompt)
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if not isinstance(answer, dict):
        if scale.kind in ("levels", "number") and _is_number(answer):
            return Reading(value=_number(answer, scale), label=_level(answer, scale))
        if scale.kind == "boolean" and isinstance(answer, bool):
            return Reading(value=float(answer))
        raise Unreadable("unparsable", "not an object")
    fields = _lowered(answer)
    if key not in fields and len(answer) == 1:
        inner = next(iter(answer.values()))
        if isinstance(inner, dict):
            fields = _lowered(inner)
    if key not in fields:
        raise Unreadable("unparsable", f"no {key}")
    reason = _text(fields.get(REASON))
    details = {name: _note(fields.get(name), name, prompt, parts) for name in prompt.file.notes}
    if prompt.file.not_applicable and _truth(fields.get(APPLICABLE, True)) is False:
        return Reading(applicable=False, reason=reason)
    found = fields[key]
    match scale.kind:
        case "levels" | "number":
            value = _number(found, scale)
            return Reading(value=value, label=_level(value, scale), reason=reason, details=details)
        case "boolean":
            truth = _truth(found)
            if truth is None:
                raise Unreadable("unparsable", "not true or false")
            return Reading(value=float(truth), reason=reason, details=details)
        case "labels":
            return Reading(label=_word(found, scale.labels), reason=reason, details=details)
        case "pair":
            return Reading(label=_word(found, {"A": "", "B": ""}), reason=reason, details=details)
        case "share":
            verdicts = _verdicts(found, scale, parts)
            if not verdicts:
                return Reading(applicable=False, reason=reason)
            weights = parts.get(scale.over) or [1.0] * len(verdicts)
            met_weight = sum(w for w, (_, met) in zip(weights, verdicts, strict=True) if met)
            share = met_weight / sum(weights)
            items = [{"item": item, scale.verdict: met} for item, met in verdicts]
            return Reading(
                value=scale.value_of(share), reason=reason, details=details | {scale.items: items}
            )


def _body(text: str) -> str:
    """The reply without the model's thinking aloud before it. Raises Unreadable."""
    if len(text) > MAX_REPLY:
        raise Unreadable("unparsable", "reply too long")
    body = _THINKING.sub("", text).strip()
    if not body:
        raise Unreadable("unparsable", "empty reply")
    return body


def _nothing_in(body: str) -> Unreadable:
    if _REFUSAL.match(body):
        return Unreadable("refused", "the judge declined")
    return Unreadable("unparsable", "no JSON object with the answer")


def _answer_key(prompt: Prompt) -> str:
    match prompt.scale.kind:
        case "share":
            return prompt.scale.items
        case "labels" | "pair":
            return LABEL
    return SCORE


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        for key, value in pairs:
            if fields[key] != value:
                raise Unreadable("unparsable", "a key stands twice")
    return fields


def _constant(text: str) -> NoReturn:
    raise Unreadable("out_of_range", f"{text} is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, strict=False)
"""Takes line breaks within strings: small models write them under a grammar too."""


def _decode(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise Unreadable("unparsable", "nested too deeply") from error


def _objects(text: str) -> list[Any]:
    """Every JSON object or list that stands in `text`, left to right, none inside another."""
    found = []
    at = 0
    for _ in range(MAX_CANDIDATES):
        match = _OPENING.search(text, at)
        if match is None:
            break
        try:
            value, at = _DECODER.raw_decode(text, match.start())
            found.append(value)
        except ValueError:
            at = match.start() + 1
        except RecursionError as error:
            raise Unreadable("unparsable", "nested too deeply") from error
    return found


def _lowered(fields: dict[str, Any]) -> dict[str, Any]:
    lowered = {key.strip().lower(): value for key, value in fields.items()}
    if len(lowered) != len(fields):
        raise Unreadable("unparsable", "a key stands twice")
    return lowered


def _value_at(value: Any, key: str) -> Any:
    """What stands at `key` in an answer of any accepted shape; a unique mark when nothing does."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return _NOTHING
    for name, inner in value.items():
        if name.strip().lower() == key:
            return inner
    if len(value) == 1:
        inner = next(iter(value.values()))
        if isinstance(inner, dict):
            return _value_at(inner, key)
    return _NOTHING


_NOTHING = object()


def _holds(value: Any, key: str) -> bool:
    return _value_at(value, key) is not _NOTHING


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(found: Any, scale: Scale) -> float:
    """`found` as a value of the scale. Raises Unreadable."""
    if isinstance(found, str):
        text = found.strip()
        if not _NUMBER.fullmatch(text):
            raise Unreadable("unparsable", "not a number")
        value = float(text)
    elif _is_number(found):
        try:
            value = float(found)
        except OverflowError as error:
            raise Unreadable("out_of_range", "too large") from error
    else:
        raise Unreadable("unparsable", "not a number")
    if not math.isfinite(value):
        raise Unreadable("out_of_range", "not finite")
    bounds = scale.bounds
    assert bounds is not None
    low, high = bounds
    if scale.kind == "levels":
        if value != int(value) or int(value) not in scale.levels:
            raise Unreadable("out_of_range", "not a level")
        return value
    if not low - EPSILON <= value <= high + EPSILON:
        raise Unreadable("out_of_range", "beyond the scale")
    return min(max(value, low), high)


def _level(value: Any, scale: Scale) -> str | None:
    return scale.levels[int(float(value))].name if scale.kind == "levels" else None


def _truth(found: Any) -> bool | None:
    """True or false, also as a word; none for anything else."""
    if isinstance(found, bool):
        return found
    if isinstance(found, str) and found.strip().lower() in ("true", "false"):
        return found.strip().lower() == "true"
    return None


def _word(found: Any, allowed: Mapping[str, str]) -> str:
    if not isinstance(found, str):
        raise Unreadable("unparsable", "not a word")
    named = {name.lower(): name for name in allowed}
    word = named.get(found.strip().lower())
    if word is None:
        raise Unreadable("out_of_range", "not one of the words")
    return word


def _text(found: Any) -> str:
    if isinstance(found, list):
        return " ".join(_text(part) for part in found)
    return found.strip() if isinstance(found, str) else ""


def _verdicts(found: Any, scale: Scale, parts: Parts) -> list[tuple[Any, bool]]:
    """Item and verdict for each entry of the list. Raises Unreadable for a wrong count, a missing
    or repeated number, or a verdict that is not true or false."""
    if not isinstance(found, list) or len(found) > MAX_ITEMS:
        raise Unreadable("unparsable", "not a list of verdicts")
    verdicts: list[tuple[Any, bool]] = []
    for entry in found:
        fields = _lowered(entry) if isinstance(entry, dict) else {}
        truth = _truth(fields.get(scale.verdict))
        if truth is None:
            raise Unreadable("unparsable", "a verdict is missing")
        item = _index(fields.get(NUMBER)) if scale.over else _text(fields.get("item"))
        verdicts.append((item, truth))
    if scale.over:
        _check_numbers([number for number, _ in verdicts], len(parts.get(scale.over, ())))
        verdicts.sort(key=lambda verdict: int(verdict[0]))
    return verdicts


def _index(found: Any) -> int:
    """A part's number; 0, which no part has, when it is none."""
    if isinstance(found, str) and found.strip().isdecimal():
        return int(found)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def _check_numbers(numbers: list[int], count: int) -> None:
    """Raises Unreadable unless `numbers` are 1 to `count`, each once."""
    if sorted(numbers) != list(range(1, count + 1)):
        raise Unreadable("unparsable", f"not one verdict for each of {count}")


def _note(found: Any, name: str, prompt: Prompt, parts: Parts) -> Any:
    note = prompt.file.notes[name]
    if not note.over:
        texts = [found] if isinstance(found, str) else found if isinstance(found, list) else []
        strings = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
        return [text for text in strings if text in note.of] if note.of else strings
    if not isinstance(found, list):
        raise Unreadable("unparsable", f"no list of {name}")
    entries = [_lowered(entry) if isinstance(entry, dict) else {} for entry in found]
    _check_numbers([_index(entry.get(NUMBER)) for entry in entries], len(parts.get(note.over, ())))
    ratings = {_index(e[NUMBER]): _number(e.get(SCORE), prompt.scale) for e in entries}
    return [ratings[number] for number in sorted(ratings)]
