"""Similarity to a ground truth: F1, BLEU, GLEU, exact match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.gleu_score import sentence_gleu

from assay.records import Turn
from scorers.computed import similarity
from scorers.computed.similarity import bleu, gleu, squad_f1

SCRIPTS = {
    "zh": "退货需要在十四天内提出申请",
    "ja": "注文は明日届きます",
    "ko": "주문은 내일 도착합니다",
    "th": "สั่งซื้อก่อนเที่ยง",
    "ar": "يمكنك إلغاء الطلب اليوم",
    "hi": "आपका ऑर्डर कल आएगा",
    "ru": "Заказ придёт завтра",
    "el": "Η παραγγελία έρχεται αύριο",
    "mixed": "订单 1182 已发货 OK",
    "emoji": "👍🎉",
}
WORDS = st.lists(
    st.sampled_from(["the", "a", "cat", "sat", "ran,", "fast.", "It's", "(ok)", "$5"])
).map(" ".join)


def turn(response, truth):
    return Turn(turn_id="t", trace_id="0" * 32, response=response, ground_truth=truth)


def value(scorer, response, truth):
    return scorer.bind()(turn(response, truth)).value


@pytest.mark.parametrize(
    ("response", "truth", "expected"),
    [
        ("Paris Paris Paris Paris Paris", "Paris", 1 / 3),
        ("tower eiffel the", "The Eiffel Tower", 1.0),
        ("PARIS!!!", "paris.", 1.0),
        ("cafe creme", "café crème", 0.0),
        ("cafe\u0301", "caf\u00e9", 1.0),
        ("!!!", "???", 1.0),
        ("the", "Paris", 0.0),
    ],
)
def test_f1_counts_as_squad_does(response, truth, expected):
    """Shared words count as often as both have them; case, punctuation and articles do not."""
    assert squad_f1(response, truth) == pytest.approx(expected)


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_equal_texts_are_equal_in_every_script(text):
    """An answer equal to the truth is never scored 0 because of its script."""
    assert squad_f1(text, text) == 1.0
    assert gleu(text, text) == 1.0
    assert 0.5 <= bleu(text, text) <= 1.0


def test_part_of_a_text_without_spaces():
    """A partly equal Chinese answer lies strictly between, and says how it was split."""
    verdict = similarity.f1_score.bind()(
        turn("退货需要在三十天内提出申请", "退货需要在十四天内提出申请")
    )
    assert 0.3 < verdict.value < 0.97
    assert verdict.details["tokens"] == "letters"


@given(WORDS, WORDS)
def test_values_are_nltks_own(response, truth):
    """BLEU and GLEU equal nltk's on nltk's word tokens."""
    tokens = NLTKWordTokenizer().tokenize
    if not tokens(response) or not tokens(truth):
        return
    smoothing = SmoothingFunction().method4
    theirs = sentence_bleu([tokens(truth)], tokens(response), smoothing_function=smoothing)
    assert bleu(response, truth) == pytest.approx(min(1.0, theirs), abs=1e-9)
    assert gleu(response, truth) == pytest.approx(
        sentence_gleu([tokens(truth)], tokens(response)), abs=1e-9
    )


def test_the_best_reference_counts():
    """Of several references the best one counts, empty ones do not, and text is one reference."""
    several = ("It leaves tomorrow", "Ships on Monday", "")
    for scorer in (similarity.f1_score, similarity.gleu_score, similarity.exact_match):
        assert value(scorer, "Ships on Monday", several) == 1.0
        assert value(scorer, "Ships on Monday", "Ships on Monday") == 1.0
    assert value(similarity.exact_match, "ships on monday", several) == 0.0
