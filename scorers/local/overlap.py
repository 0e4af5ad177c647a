"""How many stems texts share, counted for the texts of many turns at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from assay.records import Turn
from scorers.joined import Joined, Pairs, distinct, joined, member
from scorers.text import prepared
from scorers.vocabulary import Numbers


class Overlaps(NamedTuple):
    """Different stems: of each turn's query, of its response, of both; and of its documents in
    their order those that the query has, and those that the response has."""

    asked: list[int]
    said: list[int]
    answered: list[int]
    of_asked: list[list[int]]
    of_said: list[list[int]]


def overlaps(turns: Sequence[Turn]) -> Overlaps:
    """The overlaps of the turns' texts."""
    texts = [
        [prepared(turn.query or "") for turn in turns],
        [prepared(turn.response or "") for turn in turns],
        [prepared(document.content) for turn in turns for document in turn.documents],
    ]
    asked = joined(texts[0])
    said, held = (joined(each, asked.known) for each in texts[1:])
    sizes = [len(turn.documents) for turn in turns]
    owners = np.repeat(np.arange(len(turns)), sizes)
    bounds = np.cumsum(sizes)[:-1]
    return Overlaps(
        asked=_different(asked, asked.of(content)).tolist(),
        said=_different(said, said.of(content)).tolist(),
        answered=_shared(said, np.arange(len(turns)), asked).tolist(),
        of_asked=[each.tolist() for each in np.split(_shared(held, owners, asked), bounds)],
        of_said=[each.tolist() for each in np.split(_shared(held, owners, said), bounds)],
    )


def content(texts: Joined) -> Pairs:
    """The texts and their stems; symbols stand for words in a text that has none. Use it as
    `texts.of(content)`."""
    stems, pieces = texts.stems
    owners = texts.text[pieces]
    silent = np.bincount(texts.text[texts.words[1]], minlength=len(texts.texts)) == 0
    strings = texts.known.stems
    symbols = [
        (text, strings[stem])
        for text in np.flatnonzero(silent).tolist()
        for stem in texts.texts[text].content
    ]
    if not symbols:
        return owners, stems
    more = np.array(symbols)
    return np.append(owners, more[:, 0]), np.append(stems, more[:, 1])


def _different(texts: Joined, pairs: Pairs) -> Numbers:
    """Of each text how many different stems it has."""
    owners, stems = pairs
    known = len(texts.known.stems)
    return np.bincount(distinct(owners * known + stems) // known, minlength=len(texts.texts))


def _shared(texts: Joined, turns: Numbers, others: Joined) -> Numbers:
    """Of each text how many different stems its turn's text among the `others` has too."""
    owners, stems = texts.of(content)
    kept = member((turns[owners], stems), others.of(content))
    return _different(texts, (owners[kept], stems[kept]))
