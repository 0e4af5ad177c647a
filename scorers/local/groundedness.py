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
    Claims,
    Floats,
    Numbers,
    Span,
    Support,
    Weights,
    places,
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


@scorer("groundedness", engine="local", version="4")
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
    claimed = Claims(response, spans, weights())
    measured = support(claimed, documents)
    repeated = repeats(claimed, measured, documents)
    if all(repeated):
        return scored(5, confidence=REPEATED)
    probability = model.probability(features(measured))
    confidence = round(max(probability, 1 - probability), 4)
    if probability >= 0.5:
        return scored(1 + 4 * probability, confidence=confidence)
    odds = model.bias + each(measured) @ np.array(model.weights)
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
        passages=nearest(claimed, named, documents),
    )


def claims(response: Text) -> list[Span]:
    """The sentences that claim something: not refusals, questions or lone words."""
    pieces = response.pieces
    return [
        (start, end)
        for start, end in response.spans
        if sum([len(piece.stems) for piece in pieces[start:end]]) >= 2
        and not pieces[end - 1].text.endswith("?")
        and not _declines(response, start, end)
    ]


def _declines(response: Text, start: int, end: int) -> bool:
    words = chain.from_iterable([piece.words for piece in response.pieces[start:end]])
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
        bool(maybe) and _words(claimed.response, span) in held
        for maybe, span in zip(likely, claimed.spans, strict=True)
    ]


def _sentences(text: Text) -> frozenset[tuple[str, ...]]:
    """The words of each sentence."""
    return frozenset(_words(text, span) for span in text.spans)


def _words(text: Text, span: Span) -> tuple[str, ...]:
    return tuple(chain.from_iterable([piece.words for piece in text.pieces[slice(*span)]]))


def features(measured: Support) -> tuple[float, ...]:
    """What the model `groundedness` reads, in its order.

    Means are over the sentences, `by_words` over the sentences weighted by their content words.
    """
    by_words = measured.words / measured.words.sum()
    return (
        float(measured.coverage.mean()),
        float(measured.coverage.max()),
        float(measured.coverage @ by_words),
        float(measured.adjacent.mean()),
        float(measured.weakest.max()),
        float(measured.window @ by_words),
        float(measured.numbers.mean()),
        float(measured.numbers @ by_words),
        float(measured.numbers.max()),
        float(measured.names.sum()),
    )


def each(measured: Support) -> Floats:
    """`features` of every sentence by itself, a row a sentence."""
    coverage, numbers = measured.coverage, measured.numbers
    return np.column_stack(
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


def nearest(claimed: Claims, asked: Sequence[int], documents: Sequence[Text]) -> list[str]:
    """For each of the sentences `asked` the passage that shares most of its content.

    A passage is a sentence of a document; empty where none shares anything.
    """
    wanted = np.zeros((len(claimed.distinct), len(claimed.counts)), np.float32)
    wanted[claimed.stems, claimed.sentence] = 1.0
    wanted = wanted[:, list(asked)]
    useful = wanted.any(1)
    wanted = wanted[useful]
    column = np.append(np.where(useful, useful.cumsum() - 1, -1), -1)
    most = [(0.0, "")] * len(asked)
    for text in documents:
        if not text.spans:
            continue
        held = np.zeros((len(text.spans), len(wanted)), np.bool_)
        where = column[places(claimed, text)]
        hits = np.flatnonzero(where >= 0)
        held[text.of(_passage)[hits], where[hits]] = True
        shared = held.astype(np.float32) @ wanted
        for place, best in enumerate(shared.argmax(0)):
            if shared[best, place] > most[place][0]:
                passage = text.sentence(*text.spans[best])[:MAX_SENTENCE]
                most[place] = float(shared[best, place]), passage
    return [passage for _, passage in most]


def _passage(text: Text) -> Numbers:
    """Of each content word the number of its sentence."""
    counts = [
        sum([len(piece.stems) for piece in text.pieces[start:end]]) for start, end in text.spans
    ]
    return np.repeat(np.arange(len(counts)), counts)


@cache
def weights() -> Weights:
    """The weight of each common stem, and that of all others: the first line's."""
    rarest, *lines = zlib.decompress(read("rarity.txt.z")).decode().split("\n")
    pairs = (line.split(" ") for line in lines if line)
    return Weights({stem: float(weight) for stem, weight in pairs}, float(rarest))
