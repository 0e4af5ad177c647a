"""Document retrieval against graded labels."""

import math

import pytest

from assay.records import Document, Turn
from scorers.computed.ranking import RankingOptions, document_retrieval


def verdict(*labels, **options):
    documents = tuple(Document(id=str(i), relevance=label) for i, label in enumerate(labels))
    turn = Turn(turn_id="t", trace_id="0" * 32, documents=documents)
    return document_retrieval.bind(RankingOptions(**options))(turn)


def test_a_perfect_ranking():
    """The best documents first: NDCG 1, no holes."""
    found = verdict(4, 3, 2, 0)
    assert found.value == 1.0
    assert found.details["top1_relevance"] == 4
    assert found.details["holes"] == 0


def test_values_by_hand():
    """NDCG, XDCG and fidelity as their formulas give them at k = 3."""
    found = verdict(0, 4, None, 2)
    ideal = 15 + 3 / math.log2(3)
    assert found.value == pytest.approx(15 / math.log2(3) / ideal)
    assert found.details["xdcg"] == pytest.approx(100 * 0.6 / (1 + 0.6 + 0.36), abs=1e-6)
    assert found.details["fidelity"] == pytest.approx(15 / 18, abs=1e-6)
    assert (found.details["holes"], found.details["holes_ratio"]) == (1, 0.25)


def test_without_a_relevant_document_or_label():
    """Nothing relevant is 0; nothing labelled is skipped."""
    assert verdict(0, 0, 0).value == 0.0
    assert verdict(None, None).outcome == "skipped"
    assert verdict(0, 4, k=1).value == 0.0
