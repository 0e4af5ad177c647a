"""Counting tokens, and shortening evidence that is too long, by stated rules.

Rules, in order, each only as far as needed:

1. history loses messages from the middle: the first and the last ones stay;
2. tool calls and their results are cut in their middle;
3. documents keep the passages that share most words with the response (else the query); every
   document keeps its place and its beginning, so that ranks stay what they were;
4. any other text is cut in its middle, the longest first.

What was left out is said in its place, and counted for the score's details.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable

from scorers.judging.evidence import Piece
from scorers.judging.faults import TooLong

_WORD = re.compile(r"\w+")
PASSAGE = 600
"""Characters of a passage of a document."""
OPENING = 200
"""Characters of a document that always stay."""
PIECE_TOKENS = 44
"""Tokens of a piece's boundary lines."""


def _estimate(text: str) -> int:
    """Tokens by length: 3.5 ASCII characters each, more where characters take more bytes.

    On English this is about a fifth too many, on Chinese about right: never far too few.
    """
    length = len(text)
    beyond = 0 if text.isascii() else len(text.encode("utf-8", "replace")) - length
    return math.ceil(length / 3.5 + beyond * 0.36)


count_tokens: Callable[[str], int] = _estimate


def use_exact_counts() -> bool:
    """Count by tiktoken where it is installed with its data at hand; says whether it is so."""
    global count_tokens
    try:
        encoding = importlib.import_module("tiktoken").get_encoding("o200k_base")
    except (ImportError, OSError, ValueError):
        return False
    count_tokens = lambda text: len(encoding.encode(text, disallowed_special=()))  # noqa: E731
    return True


def tokens_of(evidence: dict[str, list[Piece]]) -> int:
    """Tokens of all pieces with their boundaries."""
    return sum(
        count_tokens(piece.text) + PIECE_TOKENS for group in evidence.values() for piece in group
    )


def shorten(evidence: dict[str, list[Piece]], limit: int) -> dict[str, int]:
    """Make `evidence` fit into `limit` tokens, in place; gives the characters left out by input.

    Raises TooLong when even the shortest form does not fit.
    """
    before = {name: _characters(group) for name, group in evidence.items()}
    steps = (_shorten_history, _shorten_tool_calls, _shorten_documents, _shorten_rest)
    for step in steps:
        excess = tokens_of(evidence) - limit
        if excess <= 0:
            break
        step(evidence, excess)
    if tokens_of(evidence) > limit:
        raise TooLong(f"evidence does not fit into {limit} tokens")
    return {
        name: lost
        for name, group in evidence.items()
        if (lost := before[name] - _characters(group)) > 0
    }


def cut_middle(text: str, keep: int) -> str:
    """`text` with its middle left out so that `keep` characters stay."""
    if len(text) <= keep:
        return text
    head = keep * 2 // 3
    tail = keep - head
    lost = len(text) - keep
    return (
        f"{text[:head]}\n[{lost} characters left out]\n{text[len(text) - tail :] if tail else ''}"
    )


def _characters(group: list[Piece]) -> int:
    return sum(len(piece.text) for piece in group)


def _shorten_history(evidence: dict[str, list[Piece]], excess: int) -> None:
    for name in ("history", "conversation"):
        group = evidence.get(name, [])
        dropped = 0
        while excess > 0 and len(group) > 3:
            middle = 1 + (len(group) - 1) // 3
            excess -= count_tokens(group[middle].text) + PIECE_TOKENS
            del group[middle]
            dropped += 1
        if dropped:
            at = min(1 + (len(group) - 1) // 3, len(group))
            group.insert(at, Piece("cut", f"[{dropped} messages left out]"))


def _shorten_tool_calls(evidence: dict[str, list[Piece]], excess: int) -> None:
    for name in ("tool_calls", "tool_definitions"):
        group = evidence.get(name, [])
        _shrink(group, excess, floor=400)


def _shorten_documents(evidence: dict[str, list[Piece]], excess: int) -> None:
    group = evidence.get("context", [])
    if not group:
        return
    guide = evidence.get("response") or evidence.get("query") or []
    wanted = {word for piece in guide for word in _WORD.findall(piece.text.lower())}
    passages = [
        (position, start)
        for position, piece in enumerate(group)
        for start in range(OPENING, len(piece.text), PASSAGE)
    ]

    def gain(passage: tuple[int, int]) -> float:
        position, start = passage
        words = _WORD.findall(group[position].text[start : start + PASSAGE].lower())
        return len(wanted.intersection(words)) / math.sqrt(len(words) + 1)

    drop: set[tuple[int, int]] = set()
    excess += 12 * len(group)
    for passage in sorted(passages, key=gain):
        if excess <= 0:
            break
        position, start = passage
        excess -= count_tokens(group[position].text[start : start + PASSAGE])
        drop.add(passage)
    for position, piece in enumerate(group):
        group[position] = piece._replace(text=_without(piece.text, position, drop))


def _without(text: str, position: int, drop: set[tuple[int, int]]) -> str:
    parts = [text[:OPENING]]
    lost = 0
    for start in range(OPENING, len(text), PASSAGE):
        passage = text[start : start + PASSAGE]
        if (position, start) in drop:
            lost += len(passage)
            continue
        if lost:
            parts.append(f"\n[{lost} characters left out]\n")
            lost = 0
        parts.append(passage)
    if lost:
        parts.append(f"\n[{lost} characters left out]")
    return "".join(parts)


def _shorten_rest(evidence: dict[str, list[Piece]], excess: int) -> None:
    for name in sorted(evidence, key=lambda name: -_characters(evidence[name])):
        if excess > 0:
            before = tokens_of(evidence)
            _shrink(evidence[name], excess, floor=400)
            excess -= before - tokens_of(evidence)


def _shrink(group: list[Piece], excess: int, floor: int) -> None:
    """Cut the pieces of `group` in their middle, each in proportion to its length."""
    total = sum(count_tokens(piece.text) for piece in group)
    if total == 0:
        return
    share = max(0.0, 1.0 - (excess + 12 * len(group)) / total)
    for position, piece in enumerate(group):
        keep = max(floor, int(len(piece.text) * share))
        group[position] = piece._replace(text=cut_middle(piece.text, keep))
