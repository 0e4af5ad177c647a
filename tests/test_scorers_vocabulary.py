"""Strings by number, joined texts, and what is asked of many at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorers import joined as module
from scorers import vocabulary
from scorers.joined import different, distinct, joined, member, mixture
from scorers.language import reads_each
from scorers.text import Text, of_each, prepared
from scorers.vocabulary import Strings

TEXTS = st.lists(st.text(alphabet="aB1. ,\n。你👍'é"), max_size=6)


def test_a_function_is_asked_once_for_a_string():
    """Columns, numbers and rows grow with the strings, and ask of the new ones only."""
    asked = []

    def length(string):
        asked.append(string)
        return len(string)

    strings = Strings()
    first = [strings[each] for each in ("ab", "abc", "ab")]
    assert first == [1, 2, 1]
    assert strings.column(length, np.intp)[:3].tolist() == [0, 2, 3]
    more = strings["a" * 3_000]
    assert strings.column(length, np.intp)[more] == 3_000
    assert asked == ["", "ab", "abc", "a" * 3_000]


def test_rows_keep_their_order():
    """What strings have stands in order, with the place of what it is of; some have nothing."""
    pieces, words = Strings(), Strings()
    numbers = np.array([pieces[each] for each in ("a-b", "", "c", "a-b")])
    values, owners = pieces.rows(lambda piece: filter(None, piece.split("-")), words).of(numbers)
    assert [words.known[value] for value in values] == ["a", "b", "c", "a", "b"]
    assert owners.tolist() == [0, 0, 2, 3, 3]


@given(TEXTS)
def test_joined_texts_are_each_text(raws):
    """Words, stems and sentences of joined texts are those of each text by itself."""
    texts = list(map(Text, raws))
    found = joined(texts)
    strings, stems = found.known.words.known, found.known.stems.known
    words, owners = found.words
    content, stem_owners = found.stems
    said = found.said(np.arange(found.count))
    for number, text in enumerate(texts):
        own = slice(*found.sentence_bounds[number : number + 2])
        assert tuple(said[own]) == text.sentences
        spoken = tuple(strings[word] for word in words[found.text[owners] == number])
        if spoken:
            assert spoken == text.words
            kept = content[found.text[stem_owners] == number]
            assert tuple(stems[stem] for stem in kept) == text.content


def test_a_full_vocabulary_is_left(monkeypatch):
    """Memory is bounded: a new vocabulary begins, and texts of the old one are read again."""
    monkeypatch.setattr(vocabulary, "LIMIT", 0)
    old = Text("Cats sleep. Dogs do not.")
    before = vocabulary.current()
    new = Text("Dogs bark.")
    assert vocabulary.current() is not before
    found = joined([old, new])
    assert found.known is vocabulary.current()
    assert found.said(np.arange(3)) == ["Cats sleep.", "Dogs do not.", "Dogs bark."]
    assert old.words == ("cats", "sleep", "dogs", "do", "not")


def test_the_same_words_in_another_order_are_others():
    """A sentence's words are known again, whatever stands around them, and only in their order."""
    found = joined([Text("Dogs chase cats. Cats chase dogs!"), Text("(dogs chase Cats)")])
    first, turned, again = found.spoken.tolist()
    assert first == again != turned


@pytest.mark.parametrize("cells", [1 << 23, 0])
@given(st.data())
def test_member(cells, data):
    """A number is found where its owner has it, by table or by sorting."""
    pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=20)
    own, others = (np.array(data.draw(pairs), np.intp).reshape(-1, 2).T for _ in range(2))
    before = module.CELLS
    module.CELLS = cells
    try:
        found = member(tuple(own), tuple(others)).tolist()
    finally:
        module.CELLS = before
    known = set(map(tuple, others.T.tolist()))
    assert found == [tuple(pair) in known for pair in own.T.tolist()]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9))))
def test_different_ones_are_counted(pairs):
    """Each key once, in order; each owner's different numbers once."""
    owners, numbers = np.array(pairs, np.intp).reshape(-1, 2).T
    assert distinct(numbers).tolist() == sorted(set(numbers.tolist()))
    counts = different(owners, mixture(numbers, 0), 4).tolist()
    assert counts == [len({n for o, n in pairs if o == owner}) for owner in range(4)]


def test_what_is_known_of_a_text_is_not_asked_again():
    """A function of many texts gets those that it has not seen, each once."""
    asked = []

    def lengths(texts):
        asked.append([text.raw for text in texts])
        return [len(text.raw) for text in texts]

    one, two = Text("one"), Text("three")
    assert of_each([one], lengths) == [3]
    assert of_each([two, one, two], lengths) == [5, 3, 5]
    assert asked == [["one"], ["three"]]


def test_languages_of_many():
    """Each text is read by itself, whatever stands beside it."""
    raws = ["This is what you have.", "Das ist nicht gut und ich bin es", "你好。再见。", "", "👍"]
    alone = [reads_each([Text(raw)])[0] for raw in raws]
    assert reads_each(list(map(prepared, raws))) == alone == [True, False, False, True, True]
