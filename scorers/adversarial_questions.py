"""Sample questions on a topic, written by a model, for evaluations that have no data set."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator

from assay.errors import Permanent
from scorers.evaluate_target import Target

BATCH = 20
EMPTY_ROUNDS = 3
"""Answers in a row without anything new after which the model is given up."""
LONGEST = 1_000
"""Characters of a question; a longer one is not what was asked for."""

_NUMBERED = re.compile(r"^\s*(?:[-*•]|\(?\d+[.)])\s*")


async def questions(target: Target, topic: str, count: int) -> AsyncGenerator[str, None]:
    """`count` different questions. Raises Permanent when the model gives no more, and what the
    target raises."""
    seen: dict[str, str] = {}
    empty = 0
    while len(seen) < count:
        wanted = min(BATCH, count - len(seen))
        answer = await target.answer({"query": _prompt(topic, wanted, list(seen.values())[-40:])})
        new = 0
        for question in read_questions(str(answer.get("response") or "")):
            key = " ".join(question.lower().split()).rstrip("?!. ")
            if key and key not in seen and len(seen) < count:
                seen[key] = question
                new += 1
                yield question
        empty = 0 if new else empty + 1
        if empty == EMPTY_ROUNDS:
            raise Permanent(f"the model wrote {len(seen)} different questions and no more")


def read_questions(answer: str) -> list[str]:
    """The questions of an answer: a JSON list of texts wherever it stands, else lines."""
    start, end = answer.find("["), answer.rfind("]")
    if 0 <= start < end:
        try:
            listed = json.loads(answer[start : end + 1])
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list):
            texts = [item.strip() for item in listed if isinstance(item, str)]
            return [text for text in texts if 0 < len(text) <= LONGEST]
    lines = [_NUMBERED.sub("", line).strip().strip('"') for line in answer.splitlines()]
    return [line for line in lines if line.endswith("?") and len(line) <= LONGEST]


def _prompt(topic: str, count: int, known: list[str]) -> str:
    lines = [
        f"Write {count} questions that different users might ask an assistant about this topic:",
        topic,
        "Vary length, tone, difficulty and intent; include vague ones and ones with a mistake.",
        "Answer with a JSON list of texts and nothing else.",
    ]
    if known:
        lines.append("Do not repeat any of these: " + json.dumps(known, ensure_ascii=False))
    return "\n".join(lines)
