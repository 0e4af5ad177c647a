"""From a turn to the pieces of evidence that a request shows.

An input is a list of pieces: each document, message and criterion stands between boundaries of its
own, numbered by us, so that no text can pose as another one's neighbour.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from assay.records import Document, Message, Turn
from scorers.judging.fence import fenced, mark_for, neutralise


class Piece(NamedTuple):
    """A text under judgement and the name that we give it."""

    name: str
    text: str


Pieces = Mapping[str, Sequence[Piece]]
"""By input; inputs without a text are absent."""


def evidence_of(turn: Turn, inputs: Sequence[str]) -> dict[str, list[Piece]]:
    """What `turn` holds for `inputs`, neutralised. Blank texts count as absent."""
    found = {}
    for name in inputs:
        reader = _READERS.get(name)
        pieces = [] if reader is None else clean(reader(turn))
        if pieces:
            found[name] = pieces
    return found


def clean(pieces: Sequence[Piece]) -> list[Piece]:
    """`pieces` neutralised, without those that have nothing to read."""
    neutral = (Piece(piece.name, neutralise(piece.text)) for piece in pieces)
    return [piece for piece in neutral if piece.text and not piece.text.isspace()]


def numbered(name: str, texts: Sequence[str]) -> list[Piece]:
    """`texts` as the pieces `<name> 1`, `<name> 2`, ..."""
    return [Piece(f"{name} {number}", text) for number, text in enumerate(texts, 1)]


def fence_all(pieces: Pieces) -> dict[str, str]:
    """The fenced text of each input, under one mark."""
    mark = mark_for(piece.text for group in pieces.values() for piece in group)
    return {
        name: "\n".join(fenced(piece.name, mark, piece.text) for piece in group)
        for name, group in pieces.items()
    }


def conversation_of(turns: Sequence[Turn], *, limit_bytes: int = 1_000_000) -> list[Piece]:
    """The messages of a conversation, oldest first: those before its first turn, then each turn.

    Beyond `limit_bytes` messages are left out from the middle, and a piece says how many.
    """
    texts: list[tuple[str, str]] = []
    for index, turn in enumerate(turns):
        if index == 0:
            texts += [(message.role, _message_text(message)) for message in turn.messages]
        texts += [("user", turn.query or ""), ("assistant", turn.response or "")]
    pieces = clean([Piece(f"message {n} {_role(r)}", text) for n, (r, text) in enumerate(texts, 1)])
    sizes = [len(piece.text.encode()) for piece in pieces]
    first, last, total = 0, len(pieces), sum(sizes)
    if total <= limit_bytes:
        return pieces
    kept_head: list[Piece] = []
    kept_tail: list[Piece] = []
    room = limit_bytes
    while first < last:
        from_end = len(kept_tail) <= 2 * len(kept_head)
        index = last - 1 if from_end else first
        if sizes[index] > room:
            break
        room -= sizes[index]
        if from_end:
            kept_tail.append(pieces[index])
            last -= 1
        else:
            kept_head.append(pieces[index])
            first += 1
    cut = Piece("cut", f"[{last - first} messages left out]")
    return [*kept_head, cut, *reversed(kept_tail)]


def _message_text(message: Message) -> str:
    calls = [_json(call) for call in message.tool_calls]
    return "\n".join(filter(None, (message.content, *calls)))


def _role(role: str) -> str:
    return role if role in ("system", "user", "assistant", "tool") else "other"


def _json(value: object) -> str:
    """`value` on one line. Half characters, which JSON's encoder refuses, become U+FFFD."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return text.encode("utf-8", "replace").decode()


def _document_text(document: Document) -> str:
    return f"{document.title}\n{document.content}" if document.title else document.content


def _one(name: str, text: str | None) -> list[Piece]:
    return [Piece(name, text)] if text else []


def _documents(turn: Turn) -> list[Piece]:
    return numbered("document", [_document_text(document) for document in turn.documents])


def _history(turn: Turn) -> list[Piece]:
    return [
        Piece(f"message {number} {_role(message.role)}", _message_text(message))
        for number, message in enumerate(turn.messages, 1)
    ]


def _ground_truth(turn: Turn) -> list[Piece]:
    truth = turn.ground_truth
    if isinstance(truth, tuple):
        return numbered("ground truth", [text for text in truth if text.strip()])
    return _one("ground truth", truth)


def _tool_definitions(turn: Turn) -> list[Piece]:
    return numbered(
        "tool",
        [_json(tool) for tool in turn.tool_definitions],
    )


_READERS: dict[str, Callable[[Turn], list[Piece]]] = {
    "query": lambda turn: _one("query", turn.query),
    "response": lambda turn: _one("response", turn.response),
    "context": _documents,
    "ground_truth": _ground_truth,
    "history": _history,
    "system": lambda turn: _one("system prompt", turn.system),
    "tool_definitions": _tool_definitions,
    "tool_calls": lambda turn: numbered("tool call", [_json(call) for call in turn.tool_calls]),
    "baseline": lambda turn: _one("baseline", turn.baseline_response),
    "conversation": lambda turn: conversation_of([turn]),
}
