"""Groundedness by support: how much of what each sentence says stands in the context.

A sentence is supported as far as its content words and its numbers stand in the documents or were
said by the user. The value rests half on the mean and half on the least supported sentence: one
invented sentence spoils an answer.
"""

from __future__ import annotations

import re

from assay.records import Turn
from scorers.local.refusal import refusing
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import content, content_set, latin_share, sentences, word_set

SUPPORTED = 0.5
"""Share of a sentence's words from which it counts as supported."""
MAX_NAMED = 10
"""Unsupported sentences that the details name."""
MAX_SENTENCE = 300
"""Characters of a named sentence."""

_NUMBER = re.compile(r"\d")
_NUMBER_WEIGHT = 2.0


def support(sentence: str, known: frozenset[str]) -> float | None:
    """The share of the sentence's content that is known, 0 to 1; none when it claims nothing."""
    stems = content(sentence)
    if len(stems) < 2 or sentence.endswith("?") or refusing(sentence):
        return None
    held = total = 0.0
    for word in stems:
        weight = _NUMBER_WEIGHT if _NUMBER.search(word) else 1.0
        total += weight
        held += weight * (word in known)
    return held / total


@scorer("groundedness", engine="local", version="1")
def groundedness(turn: Turn) -> Verdict:
    texts = [text for d in turn.documents for text in (d.title, d.content) if text]
    if _other_script(turn.response or "", texts):
        return skipped("language")
    known = frozenset[str]().union(*map(content_set, texts))
    known |= content_set(turn.query or "")
    found = [
        (sentence, share)
        for sentence in sentences(turn.response or "")
        if (share := support(sentence, known)) is not None
    ]
    if not found:
        return skipped("response without a claim")
    shares = [share for _, share in found]
    value = 1 + 4 * (sum(shares) / len(shares) + min(shares)) / 2
    named = [sentence[:MAX_SENTENCE] for sentence, share in found if share < SUPPORTED]
    if not named:
        return scored(value)
    return scored(
        value,
        reason=f"{len(named)} of {len(found)} sentences are not supported by the context",
        unsupported=named[:MAX_NAMED],
    )


def _other_script(response: str, texts: list[str]) -> bool:
    """Whether the answer is in one script and the context in another: words cannot meet."""
    context = " ".join(text[:500] for text in texts)
    if not word_set(context):
        return False
    return (latin_share(response) >= 0.5) != (latin_share(context) >= 0.5)
