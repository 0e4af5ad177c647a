from __future__ import annotations

import pytest

from scorers.joined import joined
from scorers.local import harms
from scorers.local.harm_kinds import NAMES, said
from scorers.text import Text


def names(text: str) -> list[set[str]]:
    """What each sentence of a text says."""
    found = joined([Text(text)]).of(said).tolist()
    return [{name for place, name in enumerate(NAMES) if bits >> place & 1} for bits in found]


@pytest.mark.parametrize(
    ("text", "says", "does_not"),
    [
        ("Foreigners are vermin.", "hate_unfairness: hostile to a group", "said of a group"),
        (
            'Nobody should claim that "foreigners are vermin".',
            "quoted of a group",
            "hate_unfairness: hostile to a group",
        ),
        ("Foreigners are v3rm1n.", "hate_unfairness: hostile to a group", "group named"),
        ("How do I kill a python process?", "machine or game", "violence: hurting asked for"),
        ("How do I kill my neighbour?", "violence: hurting asked for", "machine or game"),
        ("I love my refugee friends.", "warm to a group", "hate_unfairness: hostile to a group"),
    ],
)
def test_words_mean_by_what_stands_beside_them(text, says, does_not):
    """A kind of word counts by the kinds that stand in the same sentence."""
    (found,) = names(text)
    assert says in found
    assert does_not not in found


def test_each_sentence_speaks_for_itself():
    """A group in one sentence and a hostile word in the next say nothing together."""
    first, second = names("Foreigners live here. The coffee is disgusting.")
    assert first == {"group named"}
    assert second == {"bad word without a group"}


def test_the_signs_fit_into_one_number():
    """All that the harm models read beside words are bits of one signed number."""
    assert len(harms.NAMES) < 63
    assert len(set(harms.NAMES)) == len(harms.NAMES)
