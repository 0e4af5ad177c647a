"""The rate that is no news."""

from __future__ import annotations

from assay.records import Cell
from exporters.baseline import Sums, add, null_rate, recurring


def cells(judged: int, defects: int) -> list[Cell]:
    return [Cell("base", 1.0, judged=judged, defects=defects)]


def test_no_baseline_from_little() -> None:
    """Fewer than a hundred verdicts are no baseline."""
    assert null_rate(cells(99, 5), [], 1.0, 0.2) is None


def test_null_is_above_the_estimate_and_its_margin() -> None:
    """The null is the upper end of the interval, raised by the smallest change worth a page."""
    few, many = (null_rate(cells(n, n // 20), [], 1.0, 0.2) for n in (200, 200_000))
    assert few is not None
    assert many is not None
    assert 0.06 < many < 0.062 < few


def test_hour_that_is_always_worse_is_no_news() -> None:
    """Where the same hours of before were clearly worse, theirs is the null."""
    usual = null_rate(cells(100_000, 4000), cells(1000, 42), 1.0, 0.2)
    evening = null_rate(cells(100_000, 4000), cells(1000, 100), 1.0, 0.2)
    assert usual == null_rate(cells(100_000, 4000), [], 1.0, 0.2)
    assert evening is not None
    assert evening > 0.12


def test_nothing_can_get_worse_than_always_wrong() -> None:
    """A metric that nearly always fails has no regression to find."""
    assert null_rate(cells(1000, 990), [], 1.0, 0.2) is None


def test_same_hours_are_of_the_day_first_and_of_the_week_later() -> None:
    """In the first week the same hour of every day counts, after it that of last week."""
    assert recurring(60, 0) == [35, 36, 37, 11, 12, 13]
    assert recurring(200, 0) == [31, 32, 33]
    assert recurring(60, 30) == [35, 36, 37]
    assert recurring(10, 0) == []


def test_sums_taken_away_leave_nothing_behind() -> None:
    """Adding hours and taking them away again ends at none, and never below."""
    sums: Sums = {}
    add(sums, cells(10, 3))
    add(sums, cells(5, 1))
    add(sums, cells(10, 3), -1)
    assert [(c.judged, c.defects) for c in sums.values()] == [(5, 1)]
    add(sums, cells(9, 9), -1)
    assert sums == {}
