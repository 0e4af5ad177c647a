from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.bus.progress import MAX_BEYOND, Progress

offsets = st.lists(st.integers(0, 300), max_size=120)
starts = st.integers(0, 200)


def seen(progress: Progress) -> tuple[int, list[int]]:
    return progress.next, [n for n in range(progress.next, 400) if progress.done(n)]


@given(starts, offsets, st.randoms())
def test_any_order_of_marks_is_the_same(start, marks, random):
    """Progress depends on what was marked, not on the order or on repetition."""
    one, other = Progress(start), Progress(start)
    shuffled = marks + marks[: len(marks) // 2]
    random.shuffle(shuffled)
    for offset in marks:
        one.mark(offset)
    for offset in shuffled:
        other.mark(offset)
    assert seen(one) == seen(other)
    assert one.metadata() == other.metadata()


@given(starts, offsets)
def test_progress_is_the_set_of_marks(start, marks):
    """An offset is done exactly when it is before the start or was marked."""
    progress = Progress(start, marks)
    done = set(range(start)) | set(marks)
    assert [progress.done(n) for n in range(400)] == [n in done for n in range(400)]
    assert progress.next == min(set(range(400)) - done)
    assert progress.beyond == sum(n > progress.next for n in done)
    assert progress.undone(start // 2, 350) == len(set(range(start // 2, 350)) - done)


@given(starts, offsets)
def test_metadata_restores_the_same_progress(start, marks):
    """What travels with the offset gives the progress back."""
    progress = Progress(start, marks)
    assert seen(Progress.restore(progress.next, progress.metadata())) == seen(progress)


@given(starts, offsets, st.integers(0, 300), st.integers(0, 60))
def test_gap_counts_as_done(start, marks, first, length):
    """A gap is the same as marking each of its offsets."""
    gapped, marked = Progress(start, marks), Progress(start, marks)
    gapped.gap(first, first + length)
    for offset in range(first, first + length):
        marked.mark(offset)
    assert seen(gapped) == seen(marked)


@given(starts, offsets, st.integers(0, 300))
def test_copy_is_independent(start, marks, more):
    """Marking a copy leaves the original as it was."""
    progress = Progress(start, marks)
    before = seen(progress)
    progress.copy().mark(more)
    assert seen(progress) == before


@given(st.text(max_size=40).filter(bool))
def test_damaged_metadata_is_refused(text):
    """Text that is not progress raises ValueError, and never becomes some other progress."""
    with pytest.raises(ValueError):
        Progress.restore(0, text)


def test_metadata_of_a_full_progress_fits_beside_an_offset():
    """At the bound the text is under the 4,096 bytes that brokers keep, however irregular."""
    progress = Progress(0, [n for n in range(1, MAX_BEYOND) if n * 2654435761 >> 7 & 1])
    assert not progress.full
    progress.mark(MAX_BEYOND)
    assert progress.full
    assert len(progress.metadata()) < 4096
    progress.gap(0, MAX_BEYOND)
    assert (progress.full, progress.next) == (False, MAX_BEYOND + 1)
