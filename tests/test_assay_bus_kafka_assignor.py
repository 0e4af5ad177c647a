from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.bus.kafka_assignor import share_out

MEMBERS = st.lists(st.text("abcdefgh", min_size=1, max_size=3), min_size=1, max_size=6, unique=True)


@st.composite
def groups(draw):
    """Partitions, and members that own some of them, no two the same."""
    partitions = draw(st.integers(0, 20))
    members = draw(MEMBERS)
    owned: dict[str, list[int]] = {member: [] for member in members}
    for number in range(partitions):
        owner = draw(st.sampled_from([*members, None]))
        if owner is not None:
            owned[owner].append(number)
    return partitions, owned


def settle(partitions, owned):
    """Rebalances until nothing moves, and how many there were."""
    rounds = 0
    while (given_out := share_out(partitions, owned)) != owned:
        owned = given_out
        rounds += 1
        assert rounds < 5
    return owned, rounds


@given(groups())
def test_nobody_is_given_what_another_still_has(group) -> None:
    """A partition changes hands only over a rebalance in which nobody has it."""
    partitions, owned = group
    for member, numbers in share_out(partitions, owned).items():
        for other, had in owned.items():
            assert other == member or not set(numbers) & set(had)


@given(groups())
def test_it_settles_within_two_rebalances_evenly_and_wholly(group) -> None:
    """All partitions are shared out, each to one member, and nobody has two more than another."""
    partitions, owned = group
    settled, rounds = settle(partitions, owned)
    assert rounds <= 2
    assert sorted(n for numbers in settled.values() for n in numbers) == list(range(partitions))
    sizes = [len(numbers) for numbers in settled.values()]
    assert max(sizes) - min(sizes) <= 1


@given(groups())
def test_no_more_moves_than_balance_needs(group) -> None:
    """A member gives up only what it has beyond its share."""
    partitions, owned = group
    first = share_out(partitions, owned)
    most = -(-partitions // len(owned))
    for member, had in owned.items():
        assert len(set(had) - set(first[member])) <= max(0, len(had) - most + 1)


def test_a_partition_that_two_claim_is_taken_from_both() -> None:
    """One of them lost it unknowingly: nobody goes on with it before it was restored."""
    first = share_out(2, {"a": [0, 1], "b": [1]})
    assert first == {"a": [0], "b": []}
    assert share_out(2, first) == {"a": [0], "b": [1]}
