"""METEOR: nltk's meteor_score with Porter's stems and WordNet's synonyms, without a download.

nltk asks its WordNet only for the synonyms of a word; `Synonyms` answers that from a table beside
the code (scorers/data/README.md), so the values are nltk's own. One identical word gives 0.5, as
the formula has it: a single chunk of one match is fully fragmented.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from assay.records import Turn
from scorers.computed.similarity import best, nltk_tokens
from scorers.scorer import Verdict, scorer

# How an inflected form becomes a base form: WordNet's own rules (its manual page morphy).
_RULES = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}


class Lemma(NamedTuple):
    """One synonym, in the form in which nltk asks for it."""

    text: str

    def name(self) -> str:
        return self.text


class Synset(NamedTuple):
    """Words that mean the same."""

    words: tuple[Lemma, ...]

    def lemmas(self) -> tuple[Lemma, ...]:
        return self.words


class Synonyms:
    """WordNet's synonyms of single words, as much of a WordNet reader as METEOR needs."""

    def __init__(self, text: str) -> None:
        self._synsets: dict[str, dict[str, list[str]]] = {pos: defaultdict(list) for pos in _RULES}
        self._exceptions: dict[str, dict[str, list[str]]] = {pos: {} for pos in _RULES}
        pos, reads_synsets = "n", True
        for line in text.splitlines():
            if line[:2] in ("= ", "- "):
                pos, reads_synsets = line[2], line[0] == "="
            elif reads_synsets:
                for word in line.lower().split():
                    self._synsets[pos][word].append(line)
            else:
                form, *bases = line.split()
                self._exceptions[pos][form] = bases

    @lru_cache(maxsize=20_000)  # noqa: B019 - there is one table for the whole process
    def synsets(self, word: str) -> tuple[Synset, ...]:
        """All that the word can mean, in any part of speech, as one group; empty when unknown."""
        names: set[str] = set()
        for pos in _RULES:
            by_word = self._synsets[pos]
            for form in self._forms(word, pos):
                for line in by_word.get(form, ()):
                    names.update(line.split())
        return (Synset(tuple(map(Lemma, names))),) if names else ()

    def _forms(self, word: str, pos: str) -> list[str]:
        exceptions = self._exceptions[pos].get(word)
        if exceptions is not None:
            return [word, *exceptions]
        return [word] + [
            word[: -len(ending)] + instead
            for ending, instead in _RULES[pos]
            if word.endswith(ending)
        ]


class Stemmer:
    """Porter's stemmer, remembering what it has stemmed."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self.stem: Callable[[str], str] = lru_cache(maxsize=50_000)(PorterStemmer().stem)


@cache
def _parts() -> tuple[Callable[..., float], Stemmer, Synonyms]:
    from nltk.translate.meteor_score import single_meteor_score

    packed = files("scorers").joinpath("data/synonyms.txt.gz").read_bytes()
    return single_meteor_score, Stemmer(), Synonyms(gzip.decompress(packed).decode())


def meteor(response: str, reference: str) -> float:
    """nltk's METEOR of the two texts on nltk's word tokens."""
    single_meteor_score, stemmer, synonyms = _parts()
    return float(
        single_meteor_score(
            nltk_tokens(reference), nltk_tokens(response), stemmer=stemmer, wordnet=synonyms
        )
    )


@scorer("meteor_score", version="1")
def meteor_score(turn: Turn) -> Verdict:
    return best(turn, meteor, "nltk")
