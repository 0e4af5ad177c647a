"""Short typed placeholders for what is not text: images, audio, files, and data inside text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_DATA_URI = re.compile(
    r"data:(?P<mime>[\w.+-]+/[\w.+-]+)(?:;[\w=.-]+)*;base64,(?P<data>[A-Za-z0-9+/=_-]+)"
)
_KINDS = ("image", "audio", "video")
_INSIDE = (
    "inline_data",
    "inlineData",
    "file_data",
    "fileData",
    "image_url",
    "input_audio",
    "source",
    "image",
    "audio",
    "video",
    "document",
    "file",
)
_MIMES = ("mime_type", "mimeType", "media_type", "mediaType", "format")
_NAMES = ("filename", "file_name", "name", "title", "file_id", "fileId")
_DATA = ("data", "bytes", "blob", "file_data", "content", "base64")
_WHERE = ("url", "uri", "file_uri", "fileUri")


def without_data(text: str) -> str:
    """`text` with each data: URI in it replaced by its placeholder."""
    if ";base64," not in text:
        return text
    return _DATA_URI.sub(lambda found: _shown("file", found["mime"], _decoded(found["data"])), text)


def placeholder(part: Mapping[str, Any], label: str) -> str:
    """One message part that is not text, e.g. `[image: image/png, 150 kB]`.

    `label` is what the part calls itself; the kind is in it (`input_audio`), or in the media type.
    The size is that of the decoded data; where there is only an address, the address stands instead
    of it, and a file's name comes before all.
    """
    kind = next((kind for kind in _KINDS if kind in label), "file")
    facts: dict[str, Any] = dict(part)
    for key in _INSIDE:
        below = facts.get(key)
        if type(below) is dict:
            facts = {**facts, **below}
        elif type(below) is str:
            facts.setdefault("url" if below[:5] in ("http:", "https", "data:") else "data", below)
    below = facts.get("image_url") or facts.get("source")
    if type(below) is dict:
        facts = {**facts, **below}
    mime = _one(facts, _MIMES)
    where = _one(facts, _WHERE)
    if where.startswith("data:"):
        found = _DATA_URI.match(where)
        return _shown(kind, found["mime"] if found else mime, _decoded(where.partition(",")[2]))
    data = next((facts[key] for key in _DATA if type(facts.get(key)) in (str, bytes)), None)
    size = len(data) if type(data) is bytes else _decoded(data) if type(data) is str else None
    return _shown(kind, mime, size, _one(facts, _NAMES), where)


def _one(facts: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((facts[key] for key in keys if type(facts.get(key)) is str and facts[key]), "")


def _decoded(data: str) -> int:
    return len(data.rstrip("=")) * 3 // 4


def _shown(kind: str, mime: str, size: int | None, name: str = "", where: str = "") -> str:
    family = mime.partition("/")[0]
    if family in _KINDS:
        kind = family
    if mime and "/" not in mime and kind in _KINDS:
        mime = f"{kind}/{mime}"
    length = "" if size is None else f"{size / 1000:.0f} kB" if size >= 1000 else f"{size} B"
    facts = ", ".join(fact for fact in (name[:80], mime, length or where[:200]) if fact)
    return f"[{kind}: {facts}]" if facts else f"[{kind}]"
