"""Words, sentences and stems."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorers.pieces import split_spaceless, stem
from scorers.text import (
    REMEMBERED,
    Text,
    _Texts,
    content,
    latin_share,
    sentences,
    word_set,
    words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat's 2 hats", ("the", "cat's", "2", "hats")),
        ("退货需要", ("退", "货", "需", "要")),
        ("订单 1182 OK", ("订", "单", "1182", "ok")),
        ("आपका ऑर्डर कल", ("आपका", "ऑर्डर", "कल")),
        ("주문은 내일", ("주문은", "내일")),
        ("Ｙｏｕ ａｒｅ", ("you", "are")),
        ("cafe\u0301 crème", ("café", "crème")),
        ("It’s", ("it's",)),
        ("👍🎉", ("👍", "🎉")),
        ("", ()),
    ],
)
def test_words_follow_the_script(text, expected):
    """Words keep accents and marks, spaceless scripts give letters, symbols stand in for none."""
    assert words(text) == expected


@given(st.text())
def test_words_lose_no_ascii_word(text):
    """Every run of ASCII letters that stands alone is found, whatever is around it."""
    found = set(words(f"{text} plainword {text}"))
    assert "plainword" in found
    assert word_set(text) == set(words(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ("One.", "Two!", "Three?")),
        ("Dr. Smith is in. He waits.", ("Dr. Smith is in.", "He waits.")),
        ("It costs 3.5 euro. Fine.", ("It costs 3.5 euro.", "Fine.")),
        ('He said "no." Then left.', ('He said "no."', "Then left.")),
        ("- a\n- b", ("- a", "- b")),
        ("你好。再见。", ("你好。", "再见。")),
        ("  ", ()),
    ],
)
def test_sentences(text, expected):
    """A sentence ends at its stop or line, not at an abbreviation or a decimal point."""
    assert sentences(text) == expected


@given(st.text(alphabet=string.ascii_letters + " .!?\n。"))
def test_sentences_lose_nothing(text):
    """All that is not white space stands in some sentence, in order."""
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "forms",
    [("refund", "refunds", "refunded", "refunding"), ("policy", "policies"), ("box", "boxes")],
)
def test_inflections_share_a_stem(forms):
    """Regular inflections of an English word have one stem."""
    assert len({stem(form) for form in forms}) == 1


def test_content_leaves_function_words_out():
    """Content words are stems without English function words."""
    assert content("What is the refund policy for you?") == ("refund", "policy")


def test_scripts():
    """The share of Latin letters counts letters only."""
    assert latin_share("abc 123") == 1.0
    assert latin_share("да") == 0.0
    assert split_spaceless("北京2024") == ["北", "京", "2024"]
    assert split_spaceless("word-s!") == ["word-s!"]


def test_texts_are_remembered_within_a_bound():
    """A text read again is the same object; the oldest are forgotten when too much is held."""
    texts = _Texts()
    first = texts("one")
    assert texts("one") is first
    for number in range(5):
        texts(f"{number} " * (REMEMBERED // 8))
    assert texts("one") is not first
    assert sum(map(len, texts)) <= REMEMBERED


def test_what_an_engine_found_is_kept_with_the_text():
    """A function is asked once for a text."""
    asked = []
    text = Text("one")
    assert [text.of(lambda_) for lambda_ in [asked.append] * 2] == [None, None]
    assert asked == [text]
