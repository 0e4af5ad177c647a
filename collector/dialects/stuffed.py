"""Prompts that an app stuffed with context: the bare question and the passages in them."""

from __future__ import annotations

import re

from assay.records import Document
from collector.dialects.speech import fields

_QUESTION = re.compile(
    r"(?:^|\n)[ \t]*(?:#+[ \t]*|\*\*|<)?(?:user(?:'s)?[ _])?(?:question|query)"
    r"(?:\*\*)?[ \t]*(?::|>)(?:\*\*)?[ \t]*",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"\n[ \t]*(?:</(?:user_)?(?:question|query)>|(?:#+[ \t]*|\*\*)?(?:helpful[ ])?"
    r"(?:answer|response|assistant)(?:\*\*)?[ \t]*:)|</(?:user_)?(?:question|query)>",
    re.IGNORECASE,
)
_CUE = re.compile(
    r"context|document|passage|source|knowledge|information|excerpt|reference|\[\d+\]",
    re.IGNORECASE,
)
_LABELLED = re.compile(r"^[ \t]*\[(?P<id>[^\]\n]{1,120})\][ \t:]*(?P<text>\S.*)$", re.MULTILINE)
_TAGGED = re.compile(
    r"<(?:document|doc|source|passage)\b(?P<facts>[^>]*)>\s*(?P<text>.*?)\s*"
    r"</(?:document|doc|source|passage)>",
    re.DOTALL | re.IGNORECASE,
)
_TAG_ID = re.compile(r"\b(?:id|index|name|source)\s*=\s*[\"']?(?P<id>[^\"'\s>]+)")
_CONTEXT = re.compile(
    r"(?:^|\n)(?:#+ *|\*\*)?(?:Context|Documents|Sources|Knowledge base)(?:\*\*)?:\**[ \t]*\n",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"(?:^|\n)[^\n]{0,120}?\b(?:context|documents?|sources?|passages?|information)\b"
    r"[^\n:]{0,40}:[ \t]*\n?",
    re.IGNORECASE,
)


def _last_question(prompt: str) -> re.Match[str] | None:
    last = None
    for found in _QUESTION.finditer(prompt):
        last = found
    return last


def question_in(prompt: str) -> str | None:
    """The bare question at the end of a prompt that was stuffed with context; None when it is not.

    It is what follows the last line that begins with `Question:` (or Query), as long as the text
    before that line speaks of context, up to an `Answer:` line.
    """
    if len(prompt) < 40 or not _speaks_of_one(prompt):
        return None
    last = _last_question(prompt)
    if last is None or not _CUE.search(prompt, 0, last.start()):
        return None
    after = prompt[last.end() :]
    end = _AFTER.search(after)
    return (after[: end.start()] if end else after).strip() or None


def _speaks_of_one(prompt: str) -> bool:
    """A cheap test before the expressions."""
    lower = prompt.lower()
    return "question" in lower or "query" in lower


def documents_in(prompt: str) -> list[Document]:
    """The context in a stuffed prompt: labelled or tagged passages, else the text after a heading.

    Empty when nothing marks a context.
    """
    marked = fields(prompt) if "[[ ## context ## ]]" in prompt else None
    if marked is not None:
        prompt = marked["context"].replace("«", "").replace("»", "")
    last = _last_question(prompt)
    context = prompt[: last.start()] if last else prompt
    tagged = [
        Document(id=found["id"] if (found := _TAG_ID.search(tag["facts"])) else None, content=text)
        for tag in _TAGGED.finditer(context)
        if (text := tag["text"])
    ]
    if tagged:
        return tagged
    labels = list(_LABELLED.finditer(context))
    if labels and (marked is not None or _CUE.search(context)):
        ends = [label.start() for label in labels[1:]] + [len(context)]
        return [
            Document(
                id=None if label["id"].isdecimal() else label["id"],
                content=context[label.start("text") : end].strip(),
            )
            for label, end in zip(labels, ends, strict=True)
        ]
    heading = _HEADING.search(context)
    body = context[heading.end() :].strip() if heading else context.strip() if marked else ""
    return [Document(content=body)] if body and (last or marked) else []


def context_in(system: str) -> list[Document]:
    """The context after a heading of its own in a system prompt: labelled or tagged passages, else
    its paragraphs."""
    heading = _CONTEXT.search(system)
    if heading is None:
        return []
    body = system[heading.end() :]
    paragraphs = [part.strip() for part in body.split("\n\n")]
    return documents_in(f"Context:\n{body}") or [Document(content=p) for p in paragraphs if p]
