"""Groundedness by support: a small regression over how far the documents carry each sentence.

The value is 1 + 4 p, p being the probability that a reader finds all of the response in the
documents. A sentence that stands in them word for word is supported, and a response of nothing else
gets 5. What it cannot see is a wrong statement made of the documents' own words in their own
order, and a right one in quite other words: `confidence` is the calibrated probability that the
side of 3 on which the value lies is right. English only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, compress, islice, pairwise, starmap
from operator import and_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.records import Turn
from scorers.joined import Joined, distinct, joined
from scorers.language import reads_each
from scorers.local.refusal import refusing
from scorers.local.support import Claims, Floats, Places, Support, Weights, support
from scorers.local.weights import logistic, read, sigmoid
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import prepared
from scorers.vocabulary import Numbers, Rows

MAX_NAMED = 10
"""Unsupported sentences that the details name."""
MAX_SENTENCE = 300
"""Characters of a named sentence or passage."""
REPEATED = 0.96
"""Share of the responses that only repeat their documents which readers called grounded, among the
labelled rows of docs/quality.md."""


@scorer("groundedness", engine="local", version="6", batched=True)
def groundedness(turns: Sequence[Turn]) -> list[Verdict]:
    responses = [prepared(turn.response or "") for turn in turns]
    documents = [list(map(prepared, _texts(turn))) for turn in turns]
    readable = iter(reads_each([*responses, *chain.from_iterable(documents)]))
    answers = list(islice(readable, len(turns)))
    carried = [any(list(islice(readable, len(own)))) for own in documents]
    kept = list(compress(range(len(turns)), map(and_, answers, carried)))
    verdicts = [skipped("language")] * len(turns)
    if kept:
        judged = _judged([turns[number] for number in kept])
        for number, verdict in zip(kept, judged, strict=True):
            verdicts[number] = verdict
    return verdicts


def _texts(turn: Turn) -> list[str]:
    return [text for d in turn.documents for text in (d.title, d.content) if text]


def _judged(turns: Sequence[Turn]) -> list[Verdict]:
    places = placed(
        [turn.response or "" for turn in turns],
        list(map(_texts, turns)),
        [turn.query or "" for turn in turns],
    )
    claimed, model = places.claims, logistic("groundedness")
    measured = support(places)
    firsts = claimed.bounds[:-1][np.diff(claimed.bounds) > 0]
    odds = iter(model.odds(features(measured, firsts)).tolist())
    repeated = repeats(places, measured)
    unsupported = ~repeated & (model.odds(features(measured, np.arange(len(repeated)))) < 0.0)
    judged = [
        _Judged(
            sigmoid(next(odds)),
            repeated[own].tolist(),
            (unsupported[own].nonzero()[0] + own.start).tolist(),
        )
        if own.start < own.stop
        else None
        for own in starmap(slice, pairwise(claimed.bounds.tolist()))
    ]
    named = np.array(
        [
            number
            for each in judged
            if each and each.probability < 0.5
            for number in each.unsupported[:MAX_NAMED]
        ],
        np.intp,
    )
    sentences = iter(claimed.responses.said(claimed.sentences[named]))
    passages = iter(nearest(places, named))
    return [_verdict(each, sentences, passages) for each in judged]


class _Judged(NamedTuple):
    """What was found on a response with claims."""

    probability: float
    """That it is grounded."""
    repeated: list[bool]
    """Of its sentences."""
    unsupported: list[int]
    """The numbers of those sentences that no document carries."""


def _verdict(found: _Judged | None, sentences: Iterator[str], passages: Iterator[str]) -> Verdict:
    """Takes of the sentences and passages, those of all responses, the response's own."""
    if found is None:
        return skipped("response without a claim")
    probability, repeated, unsupported = found
    if all(repeated):
        return scored(5, confidence=REPEATED)
    value, confidence = 1 + 4 * probability, round(max(probability, 1 - probability), 4)
    if probability >= 0.5 or not unsupported:
        return scored(value, confidence=confidence)
    count = min(len(unsupported), MAX_NAMED)
    return scored(
        value,
        confidence=confidence,
        reason=f"{len(unsupported)} of {len(repeated)} sentences are not supported by the context",
        unsupported=[sentence[:MAX_SENTENCE] for sentence in islice(sentences, count)],
        passages=[passage[:MAX_SENTENCE] for passage in islice(passages, count)],
    )


def placed(
    responses: Sequence[str],
    documents: Sequence[Sequence[str]],
    queries: Sequence[str],
    claim: Callable[[Joined], Numbers] | None = None,
) -> Places:
    """The claims of responses in their documents; `claim` names the sentences, else `claims`."""
    texts = [list(map(prepared, each)) for each in (responses, chain(*documents), queries)]
    said = joined(texts[0])
    held, asked = (joined(each, said.known) for each in texts[1:])
    claimed = Claims(said, asked, (claim or claims)(said), weights().__getitem__)
    return Places(claimed, held, np.repeat(np.arange(len(documents)), list(map(len, documents))))


def claims(responses: Joined) -> Numbers:
    """The sentences that claim something: not refusals, questions or lone words."""
    pieces = responses.known.pieces
    sizes = np.bincount(responses.sentence[responses.stems[1]], minlength=responses.count)
    last = responses.pieces[responses.sentences[1:] - 1]
    found = (sizes >= 2) & ~pieces.column(_asks, np.bool_)[last]
    words, owners = responses.words
    may_decline = responses.known.words.column(_DECLINING.__contains__, np.bool_)[words]
    asked = distinct(responses.sentence[owners[may_decline]])
    asked = asked[found[asked]]
    found[asked] = [not refusing(sentence) for sentence in responses.said(asked)]
    return np.flatnonzero(found)


def _asks(piece: str) -> bool:
    return piece.endswith("?")


_DECLINING = frozenset(
    """
    can't cannot won't don't not never unable sorry afraid decline refuse against outside
    """.split()  # noqa: SIM905 - as in scorers.pieces
)
"""Words without one of which a sentence does not decline."""


def repeats(places: Places, measured: Support) -> NDArray[np.bool_]:
    """Of each sentence whether one of its turn's texts has the same words as a sentence of its own.

    Words within a longer sentence are no such repetition: what goes before can turn them round.
    """
    claimed, documents = places.claims, places.documents
    found: NDArray[np.bool_] = (measured.coverage == 1.0) & (measured.adjacent == 1.0)
    if not found.any():
        return found
    own = claimed.responses.spoken[claimed.sentences[found]]
    held = documents.spoken, places.turns[documents.text[documents.sentences[:-1]]]
    found[found] = np.isin(_together(own, claimed.turn[found]), _together(*held))
    return found


def _together(spoken: NDArray[np.uint64], turns: Numbers) -> NDArray[np.uint64]:
    return spoken + turns.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def features(measured: Support, firsts: Numbers) -> list[Floats]:
    """What the model `groundedness` reads, in its order, of stretches of sentences.

    A stretch begins at each of `firsts`. Means are over its sentences, `by_words` over the
    sentences weighted by their content words.
    """
    counts = np.diff(firsts, append=len(measured.words))
    words = np.add.reduceat(measured.words, firsts)

    def mean(values: Floats) -> Floats:
        return np.add.reduceat(values, firsts) / counts

    def by_words(values: Floats) -> Floats:
        return np.add.reduceat(values * measured.words, firsts) / words

    return [
        mean(measured.coverage),
        np.maximum.reduceat(measured.coverage, firsts),
        by_words(measured.coverage),
        mean(measured.adjacent),
        np.maximum.reduceat(measured.weakest, firsts),
        by_words(measured.window),
        mean(measured.numbers),
        by_words(measured.numbers),
        np.maximum.reduceat(measured.numbers, firsts),
        np.add.reduceat(measured.names, firsts),
    ]


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


def nearest(places: Places, asked: Numbers) -> list[str]:
    """For each of the sentences `asked` the passage that shares most of its content.

    A passage is a sentence of a document; empty where none shares anything.
    """
    claims, documents = places.claims, places.documents
    if not len(asked):
        return []
    # The numbers of each sentence, and the passages of each number, everything once.
    total, held = len(claims.distinct), documents.count
    position = np.full(len(claims.counts), -1)
    position[asked] = np.arange(len(asked))
    own = np.flatnonzero(position[claims.sentence] >= 0)
    number, sentence = np.divmod(
        distinct(claims.stems[own] * len(asked) + position[claims.sentence[own]]), len(asked)
    )
    sizes = np.bincount(number, minlength=total)
    seen = np.flatnonzero(sizes[places.numbers] > 0)
    passage, shared = np.divmod(
        distinct(documents.sentence[places.pieces[seen]] * total + places.numbers[seen]), total
    )
    of_sentence, pair = Rows(sizes.cumsum() - sizes, sizes, sentence).of(shared)
    # A cell for each sentence and each passage of its turn, and one that shares nothing.
    turn = claims.turn[asked]
    begins = documents.sentence_bounds[np.searchsorted(places.turns, np.arange(turn[-1] + 2))]
    widths = np.diff(begins)[turn] + 1
    cells = widths.cumsum() - widths
    found = np.bincount(
        cells[of_sentence] + passage[pair] - begins[turn[of_sentence]], minlength=widths.sum()
    )
    # The first of those that share most.
    nth = np.arange(len(found)) - np.repeat(cells, widths)
    best = np.maximum.reduceat(found * (held + 2) - nth, cells)
    most = -(-best // (held + 2))
    first = most * (held + 2) - best + begins[turn]
    shares = most > 0
    said = iter(documents.said(first[shares]))
    return [next(said) if any_shared else "" for any_shared in shares.tolist()]


@cache
def weights() -> Weights:
    """The weight of each common stem, and that of all others: the first line's."""
    rarest, *lines = zlib.decompress(read("rarity.txt.z")).decode().split("\n")
    pairs = (line.split(" ") for line in lines if line)
    return Weights({stem: float(weight) for stem, weight in pairs}, float(rarest))
