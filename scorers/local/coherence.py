"""Coherence by links: do neighbouring sentences speak of the same things, without going in circles?

A text of one sentence is coherent unless it says nothing or repeats itself. English and other Latin
scripts.
"""

from __future__ import annotations

from assay.records import Turn
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import prepared

_CONNECTIVES = frozenset(
    """
    also and but so because therefore however then first second third next finally thus hence
    moreover furthermore additionally although though while since after before otherwise instead
    meanwhile it this that these those they he she its their such both either once if when to for
    you your we our
    """.split()  # noqa: SIM905 - as in text.py
)
BASE, LINKED, REPEATED = 0.5, 0.4, 0.9
CHANCE = 0.5
"""Confidence: rules agree with people hardly more often than chance (docs/quality.md)."""
LOOP = 0.25
"""Share of repeated runs of three words beyond which a text goes in circles."""


@scorer("coherence", engine="local", version="2")
def coherence(turn: Turn) -> Verdict:
    text = prepared(turn.response or "")
    if text.latin_share < 0.5:
        return skipped("language")
    spans = [(text.words_of(start, end), start, end) for start, end in text.spans]
    parts = [(words, start, end) for words, start, end in spans if words]
    if not parts:
        return scored(1, confidence=CHANCE)
    content, before = text.content, text.before
    said = [words for words, *_ in parts]
    stems = [frozenset(content[before[start] : before[end]]) for _, start, end in parts]
    fragments = sum(len(set(words)) < 2 for words in said) / len(said)
    repeated = max(1 - len(set(said)) / len(said), _looping(text.words))
    pairs = len(said) - 1
    links = sum(
        not first.isdisjoint(second) or not _CONNECTIVES.isdisjoint(words)
        for first, second, words in zip(stems, stems[1:], said[1:], strict=False)
    )
    linked = links / pairs if pairs else 1.0
    quality = BASE + LINKED * linked + 0.1 * (1 - fragments) - REPEATED * repeated
    return scored(
        1 + 4 * min(1.0, max(0.0, quality - 0.25 * fragments)),
        confidence=CHANCE,
        linked=round(linked, 3),
        repeated=round(repeated, 3),
    )


def _looping(words: tuple[str, ...]) -> float:
    """The share of runs of three words that were there before, 0 while it is no more than usual."""
    runs = len(words) - 2
    if runs < 1:
        return 0.0
    share = 1 - len(set(zip(words, words[1:], words[2:], strict=False))) / runs
    return share if share > LOOP else 0.0
