"""Judged text is data: made harmless, and set between boundaries that it cannot forge.

A boundary carries a mark of sixteen hexadecimal digits. It is a hash of every text of the request,
so a text that held its own mark would have to be a fixed point of the hash; should a mark stand in
a text all the same, the next one is taken. Equal texts give equal requests.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIDDEN = re.compile("[\U000e0000-\U000e007f\U000e0100-\U000e01ef]+")
_BREAK = re.compile("\r\n?|[\u2028\u2029\x0b\x0c\x85]")
_TEMPLATE_TOKEN = re.compile(
    r"<\|[\w.\- ]{1,40}\|>|<\uff5c[^<>\n]{1,40}\uff5c>"
    r"|<</?SYS>>|\[/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
    r"|</?(?:start_of_turn|end_of_turn|s|bos|eos|unk)>"
)
_DATA_URI = re.compile(
    r"data:[\w.+-]{1,60}/[\w.+-]{1,60}(?:;[\w=.-]{1,60})*;base64,(?:[\w+/=-]{60,}\n)*[\w+/=-]*"
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{400,}={0,2}")


def neutralise(text: str) -> str:
    """`text` with what could act on a model's frame made harmless; twice is the same as once.

    Control and direction characters go, half characters become U+FFFD, text hidden in invisible
    characters is shown in brackets, a model's own template tokens are broken by a space after
    their first character, and binary data gives way to its size. All else stays byte for byte.
    """
    if text.isascii():
        text = _BREAK.sub("\n", text) if "\r" in text or "\x0b" in text or "\x0c" in text else text
    else:
        text = _SURROGATE.sub("\ufffd", _BREAK.sub("\n", text))
        text = _HIDDEN.sub(_show, text)
    text = _UNWANTED.sub("", text)
    if "<" in text or "[" in text:
        text = _TEMPLATE_TOKEN.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
    if len(text) >= 400:
        text = _BASE64.sub(_measure, _DATA_URI.sub(_placeholder, text))
    return text


def mark_for(texts: Iterable[str]) -> str:
    """The mark of a request that holds `texts`; it occurs in none of them."""
    texts = list(texts)
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        data = text.encode("utf-8", "replace")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    mark = digest.hexdigest()
    while any(mark in text for text in texts):
        digest.update(b"next")
        mark = digest.hexdigest()
    return mark


def fenced(name: str, mark: str, text: str) -> str:
    """`text` between the boundary lines of `mark`; `name` is ours, never judged text."""
    return f"<<<{name} {mark}\n{text}\n{mark} {name}>>>"


def _show(match: re.Match[str]) -> str:
    plain = "".join(
        chr(ord(char) - 0xE0000) for char in match[0] if 0xE0020 <= ord(char) <= 0xE007E
    )
    return f"[hidden text: {plain}]" if plain else ""


def _placeholder(match: re.Match[str]) -> str:
    return f"[binary data, {len(match[0])} characters]"


def _measure(match: re.Match[str]) -> str:
    run = match[0]
    mixed = any(map(str.isupper, run)) and any(map(str.islower, run)) and any(map(str.isdigit, run))
    return _placeholder(match) if mixed else run
