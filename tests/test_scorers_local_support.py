"""The support of sentences by documents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorers.local.support import (
    BLOCK,
    BLOCKS,
    CELLS,
    MOST_STEMS,
    Claims,
    Places,
    Weights,
    support,
)
from scorers.text import Text

EQUAL = Weights({}, 1.0)


def measured(response, *documents, asked=""):
    text = Text(response)
    spans = [(a, b) for a, b in text.spans if text.before[b] > text.before[a]]
    claims = Claims(text, spans, EQUAL, Text(asked).content_set)
    return support(Places(claims, [Text(each) for each in documents]))


def test_a_repeated_sentence_is_wholly_supported():
    """What stands in a document word for word has full support of every kind."""
    found = measured("Tax law changed yesterday.", "Cats sleep. Tax law changed yesterday. Birds.")
    assert found.coverage == found.adjacent == found.weakest == [1.0]
    assert found.window == pytest.approx([1.0])
    assert found.numbers == found.names == [0.0]


def test_order_and_distance_count():
    """The same words in another order have their coverage and no neighbours."""
    turned = measured("Dogs chase cats.", "Cats chase dogs.")
    assert (turned.coverage, turned.adjacent, turned.weakest) == ([1.0], [0.0], [0.0])
    apart = measured("Dogs chase cats.", "Dogs often chase grey cats.")
    assert (apart.adjacent, apart.weakest) == ([0.0], [0.5])


def test_numbers_in_any_form_are_the_same():
    """A number word, an ordinal and a decade count as their digits; another number is missing."""
    same = measured("Three people won the 15th race of the 1990s.", "3 people won 15 race in 1990.")
    assert same.numbers == [0.0]
    assert measured("Four people won.", "3 people won.").numbers == [1.0]


def test_what_the_question_gives_is_not_missing():
    """Its numbers weigh nothing and its names are known; its other words are claims as ever."""
    answer = "We paid 80 euros to Acme."
    alone = measured(answer, "They paid euros.")
    given = measured(answer, "They paid euros.", asked="80 for Acme?")
    assert (alone.numbers, alone.names) == ([1.0], [1.0])
    assert (given.numbers, given.names) == ([0.0], [0.0])
    assert alone.coverage < given.coverage < [1.0]
    assert measured("Four people won.", "3 people won.", asked="Four?").coverage == [1.0]


def test_names_are_capitals_within_a_sentence():
    """An unknown capitalised word counts, but not where a sentence begins."""
    found = measured("Llamas like Paris. Rome fell.", "They fell for a llama.")
    assert list(found.names) == [1.0, 0.0]


def test_no_neighbours_or_windows_across_documents():
    """Words of two documents stand side by side in neither."""
    found = measured("Tax law changed yesterday.", "Tax law.", "Changed yesterday.")
    assert found.coverage == [1.0]
    assert found.adjacent == pytest.approx([2 / 3])
    assert found.window == pytest.approx([0.5])


def test_a_window_is_of_limited_width():
    """Words further apart than a window is wide are not covered together."""
    gap = " filler" * BLOCK * BLOCKS
    assert measured("Alpha beta.", f"Alpha{gap} beta.").window == pytest.approx([0.5])


def test_many_steps_give_what_one_gives(monkeypatch):
    """A long document is looked at in steps, with the same result."""
    rng = np.random.default_rng(0)
    vocabulary = [f"word{letter}" for letter in "abcdefghijklmnopqrst"]
    text = " ".join(rng.choice(vocabulary, 3_000))
    response = ". ".join(" ".join(rng.choice(vocabulary, 9)) for _ in range(5))
    whole = measured(response, text).window
    monkeypatch.setattr("scorers.local.support.CELLS", CELLS >> 12)
    assert np.array_equal(measured(response, text).window, whole)


def test_of_a_long_response_every_nth_sentence_is_measured():
    """The number of measured stems is bounded, and they are spread over the response."""
    text = Text(" ".join(f"Alpha number{n} beta." for n in range(MOST_STEMS)))
    claims = Claims(text, text.spans, EQUAL)
    assert len(claims.stems) <= MOST_STEMS
    assert claims.spans[-1][0] > len(text.pieces) * 0.9
    short, long = "Alpha. " * 99, " ".join(f"number{n}" for n in range(MOST_STEMS)) + ". "
    odd = Text((long + short) * 20)
    assert len(Claims(odd, odd.spans, EQUAL).stems) <= MOST_STEMS


@given(st.lists(st.text(), min_size=1, max_size=3), st.text())
def test_shares_are_shares(documents, response):
    """Whatever the texts are, every measure is finite and within its range."""
    found = measured(f"Alpha beta. {response}", *documents)
    for share in (found.coverage, found.adjacent, found.weakest, found.window):
        assert ((share >= 0) & (share <= 1 + 1e-6)).all()
    assert all(np.isfinite(values).all() for values in found)
