"""JSON that an SDK cut where its limit for the length of an attribute stood."""

from __future__ import annotations

import json
import re
from typing import Any

MARK = "\n[... cut before it was sent ...]"
"""Ends a text in the middle of which the JSON was cut."""

_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*+)(?P<end>"|\\?\Z)'
    r"|(?P<mark>[\[\]{},:])|\s+|-?\d[\d.eE+-]*|true|false|null|NaN|-?Infinity|-?[A-Za-z]*\Z",
    re.DOTALL,
)
_HALF = re.compile(
    r"(?<!\\)(?P<even>(?:\\\\)*)(?:\\ud[89ab][0-9a-f]{2})?(?:\\u[0-9a-f]{0,3})?\Z", re.IGNORECASE
)
"""What is left of an escape, or of a pair of them, at the end of a text."""
_CUT_ITEM = re.compile(r',?\s*(?:"(?:[^"\\]|\\.)*+["\\]?\s*)?:?\s*[\w.+-]*', re.DOTALL)
"""An item of which too little is left: a comma, a key, a word or a number."""
_CLOSERS = {"[": "]", "{": "}"}


def unclosed(text: str) -> bool:
    """Whether a JSON array or object does not end in its own closing bracket: it was cut."""
    return _CLOSERS.get(text[:1]) not in (None, text.rstrip()[-1:])


def completed(text: str) -> Any:
    """The value that a JSON array or object held up to where it was cut; None when `text` is not
    the beginning of one.

    A text that was cut ends in `MARK`; a key, word or number that was cut is left out.
    """
    if '"' not in text:
        return None
    closers: list[str] = []
    """What would close the containers that are open, the outermost first."""
    closed: list[str] = []
    """What was closed since `kept`, the outermost last."""
    at = kept = 0
    whole = text
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        at, mark = found.end(), found["mark"]
        if mark in _CLOSERS:
            closers.append(_CLOSERS[mark])
            kept, closed = at, []
        elif not closers or (mark in ("]", "}") and closers[-1] != mark):
            return None
        elif mark in ("]", "}"):
            closed.append(closers.pop())
        elif mark == ",":
            kept, closed = at - 1, []
        elif found["text"] and found["end"] != '"':
            whole = _HALF.sub(r"\g<even>", text[: found.end("text")]) + json.dumps(MARK)[1:]
    if not closers:
        return None
    attempts = [whole + "".join(reversed(closers))]
    if _CUT_ITEM.fullmatch(text, kept):
        attempts.append(text[:kept] + "".join(reversed([*closers, *reversed(closed)])))
    for attempt in attempts:
        try:
            return json.loads(attempt, strict=False) or None
        except (ValueError, RecursionError):
            continue
    return None
