"""The contract of a metric, and the scales that metrics share."""

from __future__ import annotations

import msgspec

from assay.records import Direction, Kind, Subject


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """The contract of a metric: what it asks of what, and how the answer reads."""

    name: str
    summary: str
    """One line: the question that it answers."""
    kind: Kind
    subject: Subject
    needs: tuple[str, ...] = ()
    """Fields of the Turn without which the metric is skipped; `a|b` means one of them."""
    uses: tuple[str, ...] = ()
    """Fields that are read where they are there."""
    direction: Direction = "higher"
    threshold: float | None = None
    """Default; none: no verdict unless the user sets one."""
    low: float | None = None
    high: float | None = None
    """Bounds of the value; none: unbounded. A value outside them is an error."""
    levels: dict[int, str] = {}
    """Names of the values, where they are ordinal."""
    labels: tuple[str, ...] = ()
    """The vocabulary of the label, where the answer is a label and not a value."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of the histogram, without +Inf."""
    unit: str = ""
    categories: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    """Metrics that selecting this one selects too."""
    source: str = ""
    """Where the definition comes from."""


ONE_TO_FIVE = (1.0, 2.0, 3.0, 4.0, 5.0)
SHARE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
YES_NO = (0.0, 1.0)
PROBABILITY = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
SEVERITY = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
TOKENS = (10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6)
DOLLARS = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 10.0)
