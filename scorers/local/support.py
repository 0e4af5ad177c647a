"""How far a sentence is carried by a text: the measurements that groundedness is made of.

Words that both have are weak evidence, because a wrong sentence often uses the right words. So what
counts most is whether words that stand side by side in the sentence also stand near each other in
the text, and in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from scorers.text import STOPWORDS, content, stem

_OCCURRENCES = 12
"""Places of one word that are looked at when its distance to another is taken."""
_WINDOW = 30
"""Content words beyond those of the sentence that a window over the text may hold."""
_PREFIX = 5
_RELATED = 0.6
"""What a word counts whose first letters alone stand in the text (consume, consumption)."""
_CHAT_WEIGHT = 0.25

_DIGITS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
    )
}
_CHAT = frozenset(
    map(
        stem,
        """
        sure know think heard hear love like favorite wonder hope feel enjoy wow cool great nice
        interesting agree yes yeah hi hello really maybe ever believe guess probably actually
        definitely also well lot thing good one
        """.split(),  # noqa: SIM905 - as in scorers.text
    )
)
"""Stems of small talk: they claim nothing that a document could hold."""
_NAME = re.compile(r"(?<![.!?:\"'“] )(?<!^)\b[A-Z]\w*[a-zA-Z]\w*")


class Support(NamedTuple):
    """What was measured of one sentence against a text."""

    words: int
    """Content words of the sentence."""
    coverage: float
    """Share of the sentence's content, weighted by rarity, that stands in the text; 0 to 1."""
    weakest: float
    """The least 1/distance of two neighbouring content words; 0 to 1."""
    adjacent: float
    """Share of neighbouring content words that are neighbours in the text; 0 to 1."""
    window: float
    """The most content, weighted by rarity, that one window of the text covers; 0 to 1."""
    numbers: int
    """Numbers that are not in the text."""
    names: int
    """Capitalised words within the sentence that are not in the text."""


class Text:
    """An index of the content words of some texts."""

    def __init__(self, texts: Iterable[str], rarity: Mapping[str, float], rarest: float) -> None:
        """`rarity` gives the weight of a stem, `rarest` that of one which it does not know."""
        self._rarity = rarity
        self._rarest = rarest
        self._places: dict[str, list[int]] = {}
        places = self._places
        place = 0
        for text in texts:
            for word in content(text):
                word = _DIGITS.get(word, word)
                if word in places:
                    places[word].append(place)
                else:
                    places[word] = [place]
                place += 1
            place += 2 * _WINDOW
        self._prefixes = frozenset(word[:_PREFIX] for word in places if len(word) >= _PREFIX)

    def support(self, sentence: str) -> Support:
        """What of `sentence` stands in the texts. A sentence without content counts as held."""
        stems = [_DIGITS.get(word, word) for word in content(sentence)]
        weights = [self._weight(word) for word in stems]
        total = sum(weights)
        places = self._places
        held = 0.0
        numbers = 0
        for word, weight in zip(stems, weights, strict=True):
            if word in places:
                held += weight
            elif word[0].isdigit():
                numbers += 1
            elif len(word) >= _PREFIX and word[:_PREFIX] in self._prefixes:
                held += weight * _RELATED
        coverage = held / total if total else 1.0
        claims = [
            (word, weight) for word, weight in zip(stems, weights, strict=True) if word not in _CHAT
        ]
        return Support(
            words=len(stems),
            coverage=coverage,
            adjacent=self._adjacent(stems, coverage),
            weakest=self._weakest([word for word, _ in claims], coverage),
            window=self._window(dict(claims)),
            numbers=numbers,
            names=self._unknown_names(sentence),
        )

    def _weight(self, word: str) -> float:
        weight = self._rarity.get(word, self._rarest)
        return weight * _CHAT_WEIGHT if word in _CHAT else weight

    def _distance(self, first: str, second: str) -> int:
        """Steps from `first` on to `second`, which both stand there; backwards counts double."""
        places = self._places
        nearest = 1 << 30
        for start in places[first][:_OCCURRENCES]:
            for end in places[second][:_OCCURRENCES]:
                step = end - start
                step = step if step > 0 else 1 - 2 * step if step < 0 else 3
                if step < nearest:
                    nearest = step
        return nearest

    def _adjacent(self, stems: list[str], otherwise: float) -> float:
        pairs = len(stems) - 1
        if pairs < 1:
            return otherwise
        found = 0
        for first, second in pairwise(stems):
            before, after = self._places.get(first), self._places.get(second)
            if before and after:
                found += not {place + 1 for place in before}.isdisjoint(after)
        return found / pairs

    def _weakest(self, claims: list[str], otherwise: float) -> float:
        if len(claims) < 2:
            return otherwise
        if not all(word in self._places for word in claims):
            return 0.0
        return 1 / max(map(self._distance, claims, claims[1:]))

    def _window(self, claims: dict[str, float]) -> float:
        total = sum(claims.values())
        if not total:
            return 1.0
        places = self._places
        hits = sorted((place, word) for word in claims if word in places for place in places[word])
        width = _WINDOW + len(claims)
        inside: dict[str, int] = dict.fromkeys(claims, 0)
        covered = most = 0.0
        first = 0
        for place, word in hits:
            if not inside[word]:
                covered += claims[word]
            inside[word] += 1
            while hits[first][0] < place - width:
                left = hits[first][1]
                inside[left] -= 1
                if not inside[left]:
                    covered -= claims[left]
                first += 1
            if covered > most:
                most = covered
        return most / total

    def _unknown_names(self, sentence: str) -> int:
        names = (name.lower() for name in _NAME.findall(sentence))
        return sum(name not in STOPWORDS and stem(name) not in self._places for name in names)
