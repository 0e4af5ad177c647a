"""Document retrieval: the ranking of the documents against graded relevance labels."""

from __future__ import annotations

import math

import msgspec

from assay.records import Turn
from scorers.scorer import Function, Verdict, scored, scorer, skipped

DISCOUNT = 0.6
"""XDCG: the weight of each rank against the one before it."""


class RankingOptions(msgspec.Struct, frozen=True, kw_only=True):
    k: int = 3
    """Ranks that count."""
    label_max: float = 4.0
    """The best relevance label that there is."""


def dcg(labels: list[float]) -> float:
    """Discounted cumulative gain: (2^label - 1) / log2(rank + 1), summed."""
    return math.fsum((2**label - 1) / math.log2(rank + 1) for rank, label in enumerate(labels, 1))


def xdcg(labels: list[float], k: int, label_max: float) -> float:
    """Gain against a full page of best labels, 0 to 100, discounted by 0.6 a rank."""
    gained = math.fsum(label / label_max * DISCOUNT**rank for rank, label in enumerate(labels))
    return 100 * gained / math.fsum(DISCOUNT**rank for rank in range(k))


def fidelity(found: list[float], all_labels: list[float]) -> float:
    """The share of good documents that were found, each weighing 2^label - 1."""
    good = math.fsum(2**label - 1 for label in all_labels)
    return math.fsum(2**label - 1 for label in found) / good if good else 0.0


@scorer("document_retrieval", version="1", options=RankingOptions)
def document_retrieval(options: RankingOptions) -> Function:
    def score(turn: Turn) -> Verdict:
        known = [d.relevance for d in turn.documents if d.relevance is not None]
        if not known:
            return skipped("relevance absent")
        k = options.k
        # A document without a label is a hole: it counts as irrelevant where it stands.
        top = [d.relevance or 0.0 for d in turn.documents[:k]]
        ideal = dcg(sorted(known, reverse=True)[:k])
        holes = sum(d.relevance is None for d in turn.documents)
        return scored(
            dcg(top) / ideal if ideal else 0.0,
            k=k,
            xdcg=round(xdcg(top, k, options.label_max), 6),
            fidelity=round(fidelity(top, known), 6),
            top1_relevance=top[0],
            top_max_relevance=max(top),
            holes=holes,
            holes_ratio=holes / len(turn.documents),
        )

    return score
