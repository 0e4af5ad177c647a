"""How far a sentence is carried by a text: the measurements that groundedness is made of.

Words that both have are weak evidence, because a wrong sentence often uses the right words. So what
counts most is whether words that stand side by side in the sentence also stand near each other in
the text, and in the same order.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from scorers.pieces import STOPWORDS, stem
from scorers.text import content

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
# What must not stand before the capital is asked after it, so that the search can skip to capitals.
_NAME = re.compile(r"[A-Z](?<![.!?:\"'“] .)(?<!^.)(?<!\w.)\w*[a-zA-Z]\w*")


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


class Weights(dict[str, float]):
    """What each stem weighs by its rarity; small talk weighs less."""

    def __init__(self, rarity: Mapping[str, float], rarest: float) -> None:
        """`rarity` gives the weight of a stem, `rarest` that of one which it does not know."""
        super().__init__(rarity)
        self._rarest = rarest
        self.update({word: rarity.get(word, rarest) * _CHAT_WEIGHT for word in _CHAT})

    def __missing__(self, word: str) -> float:
        return self._rarest


class Text:
    """An index of the content words of some texts."""

    def __init__(self, texts: Iterable[str], weights: Weights) -> None:
        self._weights = weights
        self._places: dict[str, list[int]] = defaultdict(list)
        """By word where it stands, in order."""
        self._words: list[str] = []
        """The word at each place; between texts more nothing than a window is wide."""
        self._pairs: set[tuple[str, str]] = set()
        """Words that stand side by side."""
        places = self._places
        for text in texts:
            stems = _stems(text)
            for place, word in enumerate(stems, len(self._words)):
                places[word].append(place)
            self._pairs.update(pairwise(stems))
            self._words += stems
            self._words += [""] * (2 * _WINDOW)
        self._prefixes = frozenset(word[:_PREFIX] for word in places if len(word) >= _PREFIX)

    def support(self, sentence: str) -> Support:
        """What of `sentence` stands in the texts. A sentence without content counts as held."""
        stems = _stems(sentence)
        weights = list(map(self._weights.__getitem__, stems))
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
        claims = [word for word in stems if word not in _CHAT]
        return Support(
            words=len(stems),
            coverage=coverage,
            adjacent=self._adjacent(stems, coverage),
            weakest=self._weakest(claims, coverage),
            window=self._window({word: self._weights[word] for word in claims}),
            numbers=numbers,
            names=self._unknown_names(sentence),
        )

    def _adjacent(self, stems: Sequence[str], otherwise: float) -> float:
        pairs = len(stems) - 1
        if pairs < 1:
            return otherwise
        return sum(map(self._pairs.__contains__, pairwise(stems))) / pairs

    def _weakest(self, claims: list[str], otherwise: float) -> float:
        if len(claims) < 2:
            return otherwise
        places = self._places
        if not all(map(places.__contains__, claims)):
            return 0.0
        longest = 1
        for first, second in pairwise(claims):
            starts, ends = places[first], places[second]
            if len(starts) > _OCCURRENCES or len(ends) > _OCCURRENCES:
                starts, ends = starts[:_OCCURRENCES], ends[:_OCCURRENCES]
            elif (first, second) in self._pairs:
                continue
            longest = _distance(starts, ends, longest)
        return 1 / longest

    def _window(self, claims: dict[str, float]) -> float:
        total = sum(claims.values())
        if not total:
            return 1.0
        places, words = self._places, self._words
        hits = sorted(chain.from_iterable(places[word] for word in claims if word in places))
        width = _WINDOW + len(claims)
        inside: dict[str, int] = dict.fromkeys(claims, 0)
        covered = most = 0.0
        first = 0
        for place in hits:
            word = words[place]
            new = not inside[word]
            if new:
                covered += claims[word]
            inside[word] += 1
            while hits[first] < place - width:
                left = words[hits[first]]
                inside[left] -= 1
                if not inside[left]:
                    covered -= claims[left]
                first += 1
            if new and covered > most:
                most = covered
        return most / total

    def _unknown_names(self, sentence: str) -> int:
        names = (name.lower() for name in _NAME.findall(sentence))
        return sum(name not in STOPWORDS and stem(name) not in self._places for name in names)


def _stems(text: str) -> Sequence[str]:
    """The content of `text`, numbers as digits."""
    stems = content(text)
    if _DIGITS.keys().isdisjoint(stems):
        return stems
    return [_DIGITS.get(word, word) for word in stems]


def _distance(starts: list[int], ends: list[int], enough: int) -> int:
    """The fewest steps from one of `starts` on to one of `ends`, but at least `enough`.

    Backwards counts double and one step more, a word onto itself 3. Both are sorted.
    """
    nearest = 1 << 30
    count = len(ends)
    for start in starts:
        at = bisect_left(ends, start)
        if at:
            nearest = min(nearest, 1 + 2 * (start - ends[at - 1]))
        if at < count and ends[at] == start:
            nearest = min(nearest, 3)
            at += 1
        if at < count:
            nearest = min(nearest, ends[at] - start)
        if nearest <= enough:
            return enough
    return nearest
