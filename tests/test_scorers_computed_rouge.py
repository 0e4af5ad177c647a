"""ROUGE."""

import pytest
import rouge_score_rs.rouge_scorer
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from assay.records import Turn
from scorers.computed.rouge import (
    MAX_CHARACTERS,
    RougeOptions,
    rouge,
    rouge_f1_score,
    rouge_precision,
    rouge_recall,
)

TYPES = ("rouge1", "rouge2", "rouge5", "rougeL", "rougeLsum")
TEXT = st.lists(
    st.sampled_from(["the", "The", "cats", "sat", "sitting", "on\nmat", "dog's", "fast.", "42"])
).map(" ".join)


def turn(response, truth):
    return Turn(turn_id="t", trace_id="0" * 32, response=response, ground_truth=truth)


@pytest.mark.parametrize("stemmer", [False, True])
@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=50)
@given(response=TEXT, truth=TEXT)
def test_values_are_rouge_scores_own(kind, stemmer, response, truth):
    """Every type equals rouge-score, with and without the stemmer, and so does its fast twin."""
    theirs = RougeScorer([kind], use_stemmer=stemmer).score(truth, response)[kind]
    twin = rouge_score_rs.rouge_scorer.RougeScorer([kind], use_stemmer=stemmer)
    assert tuple(twin.score(truth, response)[kind]) == pytest.approx(tuple(theirs), abs=1e-9)
    ours = rouge(response, truth, kind, stemmer)
    if ours is None:
        assert tuple(theirs) == (0, 0, 0)
    else:
        assert tuple(ours) == pytest.approx(tuple(theirs), abs=1e-9)


@pytest.mark.parametrize("text", ["退货需要", "สั่งซื้อก่อน", "Заказ придёт", "يمكنك إلغاء", "👍🎉"])
@pytest.mark.parametrize("kind", ["rouge1", "rougeL", "rougeLsum"])
def test_other_scripts_are_not_zero(kind, text):
    """Equal texts have 1 in every script, unrelated ones 0, partly equal ones lie between."""
    assert rouge(text, text, kind, False).fmeasure == 1.0
    assert rouge("Нет", text, kind, False).fmeasure == 0.0
    assert 0 < rouge(f"{text} {text[0]}", text, kind, False).fmeasure < 1


def test_accents_do_not_cut_words():
    """A word with an accent is one word: equal in either Unicode form, different without it."""
    assert rouge("cafe\u0301 creme\u0300", "caf\u00e9 crem\u00e8", "rouge1", False).fmeasure == 1.0
    assert rouge("cafe creme", "café crème", "rouge1", False).fmeasure == 0.0


def test_parts_come_from_the_best_reference():
    """Precision and recall are those of the reference with the best F1."""
    case = turn("a b c d", ("a b c d e f g h", "x", "a b"))
    options = RougeOptions(rouge_type="rouge1")
    best = max(
        (rouge("a b c d", t, "rouge1", False) for t in case.ground_truth), key=lambda r: r[2]
    )
    for scorer, part in ((rouge_precision, 0), (rouge_recall, 1), (rouge_f1_score, 2)):
        assert scorer.bind(options)(case).value == pytest.approx(best[part])


def test_no_words_and_too_long():
    """Without a token the metric is skipped; a text too long for the quadratic form overflows."""
    assert rouge_f1_score.bind()(turn("\u200b", "word")).outcome == "skipped"
    long = turn("word " * MAX_CHARACTERS, "word")
    assert rouge_f1_score.bind(RougeOptions(rouge_type="rougeL"))(long).outcome == "overflow"
