"""Groundedness by support: a small regression over how far the documents carry each sentence.

The value is 1 + 4 p, p being the probability that a reader finds all of the response in the
documents. A sentence that stands in them word for word is supported, and a response of nothing else
gets 5. What it cannot see is a wrong statement made of the documents' own words in their own
order, and a right one in quite other words: `confidence` is the calibrated probability that the
side of 3 on which the value lies is right. English only.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain

from assay.records import Turn
from scorers.local.patterns import reads
from scorers.local.refusal import refusing
from scorers.local.support import Support, Text, Weights
from scorers.local.weights import logistic, read
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import content, content_set, sentences, words

MAX_NAMED = 10
"""Unsupported sentences that the details name."""
MAX_SENTENCE = 300
"""Characters of a named sentence or passage."""
REPEATED = 0.96
"""Share of the responses that only repeat their documents which readers called grounded, among the
labelled rows of docs/quality.md."""


@scorer("groundedness", engine="local", version="3")
def groundedness(turn: Turn) -> Verdict:
    response = turn.response or ""
    texts = [text for d in turn.documents for text in (d.title, d.content) if text]
    if not reads(response) or not any(map(reads, texts)):
        return skipped("language")
    found = claims(response)
    if not found:
        return skipped("response without a claim")
    model = logistic("groundedness")
    measured = supports(found, texts)
    repeated = repeats(found, measured, texts)
    if all(repeated):
        return scored(5, confidence=REPEATED)
    probability = model.probability(features(measured))
    unsupported = [
        sentence
        for sentence, support, known in zip(found, measured, repeated, strict=True)
        if not known and model.probability(features([support])) < 0.5
    ]
    confidence = round(max(probability, 1 - probability), 4)
    if probability >= 0.5 or not unsupported:
        return scored(1 + 4 * probability, confidence=confidence)
    named = unsupported[:MAX_NAMED]
    return scored(
        1 + 4 * probability,
        confidence=confidence,
        reason=f"{len(unsupported)} of {len(found)} sentences are not supported by the context",
        unsupported=[sentence[:MAX_SENTENCE] for sentence in named],
        passages=nearest(named, texts),
    )


def claims(response: str) -> list[str]:
    """The sentences that claim something: not refusals, questions or lone words."""
    return [
        sentence
        for sentence in sentences(response)
        if len(content(sentence)) >= 2 and not sentence.endswith("?") and not refusing(sentence)
    ]


def supports(found: Sequence[str], texts: Sequence[str]) -> list[Support]:
    """The support of each sentence by the texts."""
    text = Text(texts, _weights())
    return [text.support(sentence) for sentence in found]


def repeats(found: Sequence[str], measured: Sequence[Support], texts: Sequence[str]) -> list[bool]:
    """Of each sentence whether one of the texts has the same words as a sentence of its own.

    Words within a longer sentence are no such repetition: what goes before can turn them round.
    """
    likely = [support.coverage == support.adjacent == 1.0 for support in measured]
    if not any(likely):
        return likely
    held = {words(passage) for text in texts for passage in sentences(text)}
    return [
        maybe and words(sentence) in held for maybe, sentence in zip(likely, found, strict=True)
    ]


def features(measured: Sequence[Support]) -> tuple[float, ...]:
    """What the model `groundedness` reads, in its order; `measured` is not empty.

    Means are over the sentences, `by_words` over the sentences weighted by their content words.
    """
    count = len(measured)
    total = sum(support.words for support in measured) or 1
    coverages = [support.coverage for support in measured]
    numbers = [support.numbers for support in measured]
    return (
        sum(coverages) / count,
        max(coverages),
        sum(support.coverage * support.words for support in measured) / total,
        sum(support.adjacent for support in measured) / count,
        max(support.weakest for support in measured),
        sum(support.window * support.words for support in measured) / total,
        sum(numbers) / count,
        sum(support.numbers * support.words for support in measured) / total,
        max(numbers),
        sum(support.names for support in measured),
    )


FEATURES = (
    "coverage_mean",
    "coverage_max",
    "coverage_by_words",
    "adjacent_mean",
    "weakest_max",
    "window_by_words",
    "numbers_mean",
    "numbers_by_words",
    "numbers_max",
    "names_sum",
)


def nearest(claimed: Sequence[str], texts: Sequence[str]) -> list[str]:
    """For each sentence the passage that shares most of its content; empty where none does."""
    passages = [passage for text in texts for passage in sentences(text)]
    wanted = frozenset(chain.from_iterable(map(content, claimed)))
    holders: dict[str, list[int]] = {stem: [] for stem in wanted}
    for number, passage in enumerate(passages):
        for stem in wanted.intersection(content(passage)):
            holders[stem].append(number)
    found: list[str] = []
    for sentence in claimed:
        asked = content_set(sentence)
        shared = Counter(chain.from_iterable(map(holders.__getitem__, asked)))
        best = min(shared, key=lambda number: (-shared[number], number), default=None)
        found.append("" if best is None else passages[best][:MAX_SENTENCE])
    return found


@cache
def _weights() -> Weights:
    """The weight of each common stem, and that of all others: the first line's."""
    rarest, *lines = zlib.decompress(read("rarity.txt.z")).decode().split("\n")
    pairs = (line.split(" ") for line in lines if line)
    return Weights({stem: float(weight) for stem, weight in pairs}, float(rarest))
