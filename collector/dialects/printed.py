"""Objects that Python printed instead of exporting them: the texts inside.

`ChatMessage(role=<MessageRole.USER: 'user'>, text='...')` is a repr; `id='1' content='...'` is how
pydantic's models print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from collector.dialects.said import ROLES, Said
from collector.dialects.values import decoded, unescaped

_ASKED = ("query_str", "user_msg", "question", "input", "text", "content")
_ANSWERED = ("response", "raw", "final_answer", "answer", "output", "text", "content")
_REPR = re.compile(r"[A-Z]\w*\(\w+=")
_FIELDS = re.compile(
    r"[a-z_]\w*=(?:'[^']*'|\"[^\"]*\"|None|True|False|\d[\d.]*|\[\]|\{\}) [a-z_]\w*="
)
_MESSAGE = re.compile(r"^(?:Chat)?Message\(|^\w*Message\(_?role=")
_ENDS = {quote: re.compile(rf"(?<!\\){quote}(?=\s*[,)\]]|\s+\w+=|\s*\Z)") for quote in "'\""}
"""Where a quoted text of a printed object ends, by its quote."""
_ROLE = re.compile(r"role=<?(?:\w+\.)?(?P<role>\w+)", re.IGNORECASE)
_SOURCE = re.compile(r"\bsource='(?P<role>\w+)'")
_RESULT = re.compile(
    r"ToolCallResult\(result=(?P<quote>['\"])(?P<result>.*?)(?<!\\)(?P=quote), "
    r"origin=ToolCall\(tool_name=(?P<name>'[^']*'), arguments=.*?, id=(?P<id>'[^']*'|None)",
    re.DOTALL,
)
"""Haystack's message of a tool."""
_MAX_RESULTS = 20


def is_repr(text: str) -> bool:
    """Whether a text is the repr of an object with fields."""
    return _REPR.match(text) is not None


def is_fields(text: str) -> bool:
    """Whether a text is a model that pydantic printed."""
    return "=" in text[:40] and _FIELDS.match(text) is not None


def spoken(text: str, role: str) -> list[Said]:
    """The text inside a printed object, by the names of its fields; none without such a field."""
    for name in _ASKED if role == "user" else _ANSWERED:
        for found in _quoted(text, name):
            return [Said(role, found)]
    return []


def messages(text: str, role: str) -> list[Said]:
    """What a printed message says; none when the text is no message."""
    if "Message(" in text[:40] and _MESSAGE.match(text):
        if 0 < text.count("ToolCallResult(") <= _MAX_RESULTS:
            return [_result(one) for one in _RESULT.finditer(text)]
        if texts := list(_quoted(text, "text")):
            return [Said(_role(_ROLE.search(text), role), "\n".join(texts))]
    elif is_fields(text):
        return spoken(text, _role(_SOURCE.search(text), role))
    return []


def _quoted(text: str, name: str) -> Iterator[str]:
    """The values of the fields called `name` that are texts. Takes time in proportion to `text`,
    whatever it holds: a quote that is never closed again is not looked for twice."""
    start = re.compile(rf"\b{name}=(['\"])")
    unclosed = ""
    at = 0
    while found := start.search(text, at):
        at = found.end()
        if found[1] in unclosed:
            continue
        end = _ENDS[found[1]].search(text, at)
        if end is None:
            unclosed += found[1]
        else:
            yield unescaped(text[at : end.start()])
            at = end.end()


def _role(found: re.Match[str] | None, default: str) -> str:
    return ROLES.get(found["role"].lower(), default) if found else default


def _result(found: re.Match[str]) -> Said:
    text = unescaped(found["result"])
    answers = None if found["id"] == "None" else found["id"].strip("'")
    name = found["name"].strip("'")
    return Said("tool", text, answers=answers, name=name, result=decoded(text))
