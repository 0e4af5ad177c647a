"""What a metric is, whichever engine answers it. The catalogue itself is in `METRICS`.

The rows live here and not in the scorers' room because config, exporters and boards need a
metric's scale, kind and threshold without being able to score.
"""

from __future__ import annotations

import msgspec

from assay.records import Direction, Kind, Subject


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """The contract of a metric."""

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
    """Bounds of the value; none: unbounded."""
    levels: dict[int, str] = {}
    """Names of the values, where they are ordinal."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of the histogram, without +Inf."""
    unit: str = ""
    categories: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    source: str = ""
    """Where the definition comes from."""
