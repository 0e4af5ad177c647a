"""The support of sentences by documents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorers.joined import joined
from scorers.local.support import BLOCK, BLOCKS, MOST_STEMS, Claims, Places, Support, support
from scorers.text import Text


def equal(stem):
    """Every stem weighs the same."""
    return 1.0


def spoken(texts):
    """Of joined texts the sentences with content."""
    return np.unique(texts.sentence[texts.stems[1]])


def of_several(cases):
    """What is measured of (response, documents, question) together."""
    responses = joined([Text(response) for response, _, _ in cases])
    asked = joined([Text(question) for _, _, question in cases])
    held = joined([Text(document) for _, documents, _ in cases for document in documents])
    claims = Claims(responses, asked, spoken(responses), equal)
    turns = np.repeat(np.arange(len(cases)), [len(documents) for _, documents, _ in cases])
    return support(Places(claims, held, turns))


def measured(response, *documents, asked=""):
    return of_several([(response, documents, asked)])


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


def drawn(rng, words, count):
    return " ".join(rng.choice(words, count))


def several():
    """Responses of all sizes, some without content or documents, in common and own words."""
    rng = np.random.default_rng(0)
    words = [f"word{letter}" for letter in "abcdefghijklmnopqrst"] + ["Rome", "17", "the", "are."]
    cases = [("", ("a document",), ""), ("Alpha beta.", (), ""), ("?", ("",), "Rome?")]
    for size in (1, 3, 9, 40, 900):
        response = ". ".join(drawn(rng, words, size) for _ in range(5))
        documents = [drawn(rng, words, length) for length in (0, 5, 60, 3_000)]
        cases += [(response, documents, "17"), (f"own{size} {response}", documents[:2], "")]
    return cases


@pytest.mark.parametrize("cells", [1 << 19, 1 << 8])
def test_several_give_what_each_gives(monkeypatch, cells):
    """Responses are measured alike alone and with others, at once and in steps."""
    cases = several()
    alone = [of_several([case]) for case in cases]
    monkeypatch.setattr("scorers.local.support.CELLS", cells)
    together = of_several(cases)
    for name, own in together._asdict().items():
        expected = np.concatenate([getattr(each, name) for each in alone])
        assert np.array_equal(own, expected), name
    assert isinstance(together, Support) and len(together.words) > 30


def test_of_a_long_response_every_nth_sentence_is_measured():
    """The number of measured stems is bounded, and they are spread over the response."""
    texts = joined([Text(" ".join(f"Alpha number{n} beta." for n in range(MOST_STEMS)))])
    claims = Claims(texts, joined([Text("")]), spoken(texts), equal)
    assert len(claims.stems) <= MOST_STEMS
    assert claims.sentences[-1] > texts.count * 0.9
    short, long = "Alpha. " * 99, " ".join(f"number{n}" for n in range(MOST_STEMS)) + ". "
    odd = joined([Text((long + short) * 20)])
    assert len(Claims(odd, joined([Text("")]), spoken(odd), equal).stems) <= MOST_STEMS


@given(st.lists(st.text(), min_size=1, max_size=3), st.text())
def test_shares_are_shares(documents, response):
    """Whatever the texts are, every measure is finite and within its range."""
    found = measured(f"Alpha beta. {response}", *documents)
    for share in (found.coverage, found.adjacent, found.weakest, found.window):
        assert ((share >= 0) & (share <= 1 + 1e-6)).all()
    assert all(np.isfinite(values).all() for values in found)
