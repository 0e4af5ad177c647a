"""Coherence by links: do neighbouring sentences speak of the same things, without going in circles?

A text of one sentence is coherent unless it says nothing. English and other Latin scripts.
"""

from __future__ import annotations

from assay.records import Turn
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import content_set, latin_share, sentences, word_set

_CONNECTIVES = frozenset(
    """
    also and but so because therefore however then first second third next finally thus hence
    moreover furthermore additionally although though while since after before otherwise instead
    meanwhile it this that these those they he she its their such both either once if when to for
    you your we our
    """.split()  # noqa: SIM905 - as in text.py
)
BASE, LINKED, REPEATED = 0.5, 0.4, 0.9


@scorer("coherence", engine="local", version="1")
def coherence(turn: Turn) -> Verdict:
    response = turn.response or ""
    if latin_share(response) < 0.5:
        return skipped("language")
    parts = [part for part in sentences(response) if word_set(part)]
    if not parts:
        return scored(1)
    fragments = sum(len(word_set(part)) < 2 for part in parts) / len(parts)
    different = len({part.lower() for part in parts}) / len(parts)
    pairs = len(parts) - 1
    linked = sum(map(_linked, parts, parts[1:])) / pairs if pairs else 1.0
    quality = BASE + LINKED * linked + 0.1 * (1 - fragments) - REPEATED * (1 - different)
    return scored(
        1 + 4 * min(1.0, max(0.0, quality - 0.25 * fragments)),
        linked=round(linked, 3),
        repeated=round(1 - different, 3),
    )


def _linked(first: str, second: str) -> bool:
    return not content_set(first).isdisjoint(content_set(second)) or not _CONNECTIVES.isdisjoint(
        word_set(second)
    )
