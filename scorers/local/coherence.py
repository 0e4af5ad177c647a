"""Coherence by links: do neighbouring sentences speak of the same things, without going in circles?

A text of one sentence is coherent unless it says nothing or repeats itself. English and other Latin
scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.records import Turn
from scorers.joined import Joined, different, joined, member, mixture
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import Text, of_each, prepared
from scorers.vocabulary import Numbers

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


@scorer("coherence", engine="local", version="2", batched=True)
def coherence(turns: Sequence[Turn]) -> list[Verdict]:
    texts = [prepared(turn.response or "") for turn in turns]
    return [
        skipped("language") if text.latin_share < 0.5 else _verdict(signs)
        for text, signs in zip(texts, of_each(texts, _signs), strict=True)
    ]


class _Signs(NamedTuple):
    """Shares of a text, 0 to 1."""

    linked: float
    """Of its sentences but the first those that have a link to the one before."""
    repeated: float
    """Of its sentences, or of its runs of three words, those that were there before."""
    fragments: float
    """Of its sentences those of less than two different words."""


def _verdict(signs: _Signs | None) -> Verdict:
    if signs is None:
        return scored(1, confidence=CHANCE)
    linked, repeated, fragments = signs
    quality = BASE + LINKED * linked + 0.1 * (1 - fragments) - REPEATED * repeated
    return scored(
        1 + 4 * min(1.0, max(0.0, quality - 0.25 * fragments)),
        confidence=CHANCE,
        linked=round(linked, 3),
        repeated=round(repeated, 3),
    )


def _signs(texts: Sequence[Text]) -> list[_Signs | None]:
    """The signs of each text; none of one without words."""
    said = joined(texts)
    words, pieces = said.words
    if not len(words):
        return [None] * len(texts)
    sizes = np.bincount(said.sentence[pieces], minlength=said.count)
    spoken = np.flatnonzero(sizes)
    starts = (sizes.cumsum() - sizes)[spoken]
    text = said.text[said.sentences[spoken]]
    count = np.bincount(text, minlength=len(texts))
    short = np.minimum.reduceat(words, starts) == np.maximum.reduceat(words, starts)
    fragments = np.bincount(text, short, len(texts))
    new = different(text, said.spoken[spoken], len(texts))
    # The first sentence of a text is linked to nothing.
    follows = np.append(False, text[1:] == text[:-1])
    linked = np.bincount(text, _linked(said, spoken, starts) & follows, len(texts))
    looping = _looping(said)
    return [
        _Signs(
            links / (own - 1) if own > 1 else 1.0,
            max(1 - distinct / own, loops),
            broken / own,
        )
        if own
        else None
        for own, distinct, broken, links, loops in zip(
            *(each.tolist() for each in (count, new, fragments, linked, looping)), strict=True
        )
    ]


def _linked(said: Joined, spoken: Numbers, starts: Numbers) -> NDArray[np.bool_]:
    """Of each sentence with words whether it has a connective, or a stem of the one before."""
    connective = said.known.words.column(_CONNECTIVES.__contains__, np.bool_)[said.words[0]]
    found = np.logical_or.reduceat(connective, starts)
    stems, pieces = said.stems
    place = np.searchsorted(spoken, said.sentence[pieces])
    found[place[member((place, stems), (place + 1, stems))]] = True
    return found


def _looping(said: Joined) -> NDArray[np.float64]:
    """Of each text the share of runs of three words that were there before, 0 while that is no more
    than usual."""
    words, pieces = said.words
    text = said.text[pieces]
    runs = np.flatnonzero(text[2:] == text[:-2])
    mixed = sum((mixture(words[runs + nth], nth) for nth in (1, 2)), mixture(words[runs], 0))
    owner, count = text[runs], len(said.texts)
    total = np.bincount(owner, minlength=count)
    share = 1 - different(owner, mixed, count) / np.maximum(total, 1)
    return np.where((share > LOOP) & (total > 0), share, 0.0)
