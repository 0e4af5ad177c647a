"""Groundedness by support: a small regression over how far the documents carry each sentence.

The value is 1 + 4 p, p being the probability that a reader finds all of the response in the
documents. A sentence that stands in them word for word is supported, and a response of nothing else
gets 5. What it cannot see is a wrong statement made of the documents' own words in their own
order, and a right one in quite other words: `confidence` is the calibrated probability that the
side of 3 on which the value lies is right. English only.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache
from itertools import chain

import numpy as np

from assay.records import Turn
from scorers.language import reads
from scorers.local.refusal import refusing
from scorers.local.support import (
    APART,
    Claims,
    Floats,
    Places,
    Span,
    Support,
    Weights,
    support,
)
from scorers.local.weights import logistic, read
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import Text, prepared

MAX_NAMED = 10
"""Unsupported sentences that the details name."""
MAX_SENTENCE = 300
"""Characters of a named sentence or passage."""
REPEATED = 0.96
"""Share of the responses that only repeat their documents which readers called grounded, among the
labelled rows of docs/quality.md."""


@scorer("groundedness", engine="local", version="5")
def groundedness(turn: Turn) -> Verdict:
    raw = turn.response or ""
    texts = [text for d in turn.documents for text in (d.title, d.content) if text]
    if not reads(raw) or not any(map(reads, texts)):
        return skipped("language")
    response, documents = prepared(raw), list(map(prepared, texts))
    spans = response.of(claims)
    if not spans:
        return skipped("response without a claim")
    model = logistic("groundedness")
    asked = prepared(turn.query or "").content_set
    claimed = Claims(response, spans, weights(), asked)
    places = Places(claimed, documents)
    measured = support(places)
    repeated = repeats(claimed, measured, documents)
    if all(repeated):
        return scored(5, confidence=REPEATED)
    probability = model.probability(features(measured))
    confidence = round(max(probability, 1 - probability), 4)
    if probability >= 0.5:
        return scored(1 + 4 * probability, confidence=confidence)
    odds = model.bias + np.array(model.weights) @ each(measured)
    likely = model.scale * odds + model.shift >= 0.0
    unsupported = [
        number for number, known in enumerate(repeated) if not known and not likely[number]
    ]
    if not unsupported:
        return scored(1 + 4 * probability, confidence=confidence)
    named = unsupported[:MAX_NAMED]
    return scored(
        1 + 4 * probability,
        confidence=confidence,
        reason=f"{len(unsupported)} of {len(repeated)} sentences are not supported by the context",
        unsupported=[response.sentence(*claimed.spans[n])[:MAX_SENTENCE] for n in named],
        passages=nearest(places, named),
    )


def claims(response: Text) -> list[Span]:
    """The sentences that claim something: not refusals, questions or lone words."""
    pieces, before = response.pieces, response.before
    return [
        (start, end)
        for start, end in response.spans
        if before[end] - before[start] >= 2
        and not pieces[end - 1].text.endswith("?")
        and not _declines(response, start, end)
    ]


def _declines(response: Text, start: int, end: int) -> bool:
    words = response.words_of(start, end)
    return not _DECLINING.isdisjoint(words) and refusing(response.sentence(start, end))


_DECLINING = frozenset(
    """
    can't cannot won't don't not never unable sorry afraid decline refuse against outside
    """.split()  # noqa: SIM905 - as in scorers.pieces
)
"""Words without one of which a sentence does not decline."""


def repeats(claimed: Claims, measured: Support, documents: Sequence[Text]) -> list[bool]:
    """Of each sentence whether one of the texts has the same words as a sentence of its own.

    Words within a longer sentence are no such repetition: what goes before can turn them round.
    """
    likely = (measured.coverage == 1.0) & (measured.adjacent == 1.0)
    if not likely.any():
        return [False] * len(likely)
    held = frozenset().union(*(text.of(_sentences) for text in documents))
    return [
        bool(maybe) and claimed.response.words_of(*span) in held
        for maybe, span in zip(likely, claimed.spans, strict=True)
    ]


def _sentences(text: Text) -> frozenset[tuple[str, ...]]:
    """The words of each sentence."""
    return frozenset(text.words_of(*span) for span in text.spans)


def features(measured: Support) -> tuple[float, ...]:
    """What the model `groundedness` reads, in its order.

    Means are over the sentences, `by_words` over the sentences weighted by their content words.
    """
    count = len(measured.words)
    by_words = measured.words / measured.words.sum()
    coverage, numbers = measured.coverage.tolist(), measured.numbers.tolist()
    return (
        sum(coverage) / count,
        max(coverage),
        float(measured.coverage @ by_words),
        sum(measured.adjacent.tolist()) / count,
        max(measured.weakest.tolist()),
        float(measured.window @ by_words),
        sum(numbers) / count,
        float(measured.numbers @ by_words),
        max(numbers),
        sum(measured.names.tolist()),
    )


def each(measured: Support) -> Floats:
    """`features` of every sentence by itself, a column a sentence."""
    coverage, numbers = measured.coverage, measured.numbers
    return np.array(
        (
            coverage,
            coverage,
            coverage,
            measured.adjacent,
            measured.weakest,
            measured.window,
            numbers,
            numbers,
            numbers,
            measured.names,
        )
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


def nearest(places: Places, asked: Sequence[int]) -> list[str]:
    """For each of the sentences `asked` the passage that shares most of its content.

    A passage is a sentence of a document; empty where none shares anything.
    """
    claims = places.claims
    passages = [(text, span) for text in places.documents for span in (*text.spans, _NONE)]
    sizes = list(chain.from_iterable(text.of(_sizes) for text in places.documents))
    passage = np.repeat(np.arange(len(sizes)), sizes)[places.hits]
    # A word counts once a passage.
    passage, number = np.divmod(np.unique(passage * places.count + places.found), places.count)
    found: list[str] = []
    for sentence in asked:
        wanted = np.zeros(places.count)
        wanted[claims.stems[claims.sentence == sentence]] = 1.0
        shared = np.bincount(passage, wanted[number], 1)
        best = int(shared.argmax())
        text, span = passages[best]
        found.append(text.sentence(*span)[:MAX_SENTENCE] if shared[best] else "")
    return found


_NONE = (0, 0)


def _sizes(text: Text) -> list[int]:
    """The content words of each sentence; last, of the gap after the text."""
    before = text.before
    own = [before[end] - before[start] for start, end in text.spans]
    return [*own, len(text.content) - sum(own) + APART]


@cache
def weights() -> Weights:
    """The weight of each common stem, and that of all others: the first line's."""
    rarest, *lines = zlib.decompress(read("rarity.txt.z")).decode().split("\n")
    pairs = (line.split(" ") for line in lines if line)
    return Weights({stem: float(weight) for stem, weight in pairs}, float(rarest))
