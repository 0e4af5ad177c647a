"""Why did a rate move: another mix of traffic, or another behaviour of the same traffic?

For a slicing (by operation, model, language, version or prompt version) with shares a and rates p
of the slices, before (0) and after (1), the move is split exactly into

    mix     sum (a1 - a0) * (p0 - r0)      where r0 is the rate before
    within  sum a1 * (p1 - p0)

(Kitagawa's decomposition with the rates before as standard). A slice that is new has no rate
before: it counts with the rate before of the whole, so that its badness is `within` it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

DIMENSIONS = ("operation", "model", "language", "version", "prompt_version")
"""Columns of the store's scores by which a move is split."""
MOST_SLICES = 3
EXPLAINS = 0.2
"""Share of the move from which on a slice is named."""


class Count(msgspec.Struct, frozen=True):
    """Verdicts of one slice in one period."""

    slice: str
    after: bool
    weight: float
    defects: float
    """Weight of the defects."""
    n: int


class Part(msgspec.Struct, frozen=True):
    """What one slice adds to the move."""

    slice: str
    share_before: float
    share_after: float
    rate_before: float | None
    rate_after: float | None
    mix: float
    within: float

    @property
    def total(self) -> float:
        return self.mix + self.within


class Split(msgspec.Struct, frozen=True):
    """A move split by one dimension; `mix` + `within` = after - before."""

    dimension: str
    before: float
    after: float
    mix: float
    within: float
    parts: list[Part]
    """Those that add most come first."""


def split(dimension: str, counts: Iterable[Count]) -> Split | None:
    """The move by `dimension`; none when one of the periods has no verdict."""
    cells = {(count.slice, count.after): count for count in counts if count.weight > 0}
    totals = {after: sum(c.weight for (_, a), c in cells.items() if a is after)
              for after in (False, True)}  # fmt: skip
    if not all(totals.values()):
        return None
    rates = {after: sum(c.defects for (_, a), c in cells.items() if a is after) / totals[after]
             for after in (False, True)}  # fmt: skip
    parts = []
    for name in sorted({name for name, _ in cells}):
        old, new = cells.get((name, False)), cells.get((name, True))
        share_before = old.weight / totals[False] if old else 0.0
        share_after = new.weight / totals[True] if new else 0.0
        rate_before = old.defects / old.weight if old else None
        rate_after = new.defects / new.weight if new else None
        standard = rates[False] if rate_before is None else rate_before
        parts.append(
            Part(
                slice=name,
                share_before=share_before,
                share_after=share_after,
                rate_before=rate_before,
                rate_after=rate_after,
                mix=(share_after - share_before) * (standard - rates[False]),
                within=share_after * ((rate_after or 0.0) - standard) if new else 0.0,
            )
        )
    move = rates[True] - rates[False]
    parts.sort(key=lambda part: -part.total if move >= 0 else part.total)
    return Split(
        dimension=dimension,
        before=rates[False],
        after=rates[True],
        mix=sum(part.mix for part in parts),
        within=sum(part.within for part in parts),
        parts=parts,
    )


def explanation(splits: Sequence[Split]) -> str:
    """One sentence: the dimension whose few slices explain most of the move, and which they are.
    Empty when the rate did not move or no slicing tells anything."""
    best: tuple[float, Split, list[Part]] | None = None
    for one in splits:
        move = one.after - one.before
        if not move or len(one.parts) < 2:
            continue
        named = [p for p in one.parts[:MOST_SLICES] if p.total / move >= EXPLAINS]
        concentration = sum(
            part.total / move - part.share_after for part in named if part.total / move > 0
        )
        if named and concentration > 0 and (best is None or concentration > best[0]):
            best = concentration, one, named
    if best is None:
        return ""
    _, one, named = best
    move = one.after - one.before
    slices = "; ".join(
        f"{part.slice or '(none)'} explains {part.total / move:.0%} (share {part.share_before:.0%} "
        f"to {part.share_after:.0%}, rate {_rate(part.rate_before)} to {_rate(part.rate_after)})"
        for part in named
    )
    return (
        f"{one.before:.1%} to {one.after:.1%}, {one.mix / move:.0%} of it by another mix of "
        f"{one.dimension}: {slices}"
    )


def _rate(rate: float | None) -> str:
    return "none" if rate is None else f"{rate:.1%}"


def query(dimension: str, labels: Mapping[str, str], *, since: float, before: float) -> str:
    """The select that gives the counts: verdicts from `before` until `since` (Unix seconds) and
    from `since` on, of the series that `labels` name."""
    if dimension not in DIMENSIONS:
        raise ValueError(dimension)
    matches = " and ".join(
        f"{name} = {_text(labels[name])}"
        for name in ("app", "environment", "metric", "engine", "subject")
        if labels.get(name)
    )
    return (  # every part is a name of ours, a number or quoted
        f"select coalesce({dimension}, '') as slice, "  # noqa: S608
        f"scored_at >= {_moment(since)} as after, sum(weight) as weight, "
        "sum(case when passed then 0 else weight end) as defects, count(*) as n "
        f"from scores_latest where {matches} and run = 'live' and passed is not null "
        f"and date >= {_day(before)} and scored_at >= {_moment(before)} group by 1, 2"
    )


def _text(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _moment(seconds: float) -> str:
    return f"to_timestamp_micros({int(seconds * 1e6)})"


def _day(seconds: float) -> str:
    return f"cast(to_timestamp_micros({int((seconds - 86400) * 1e6)}) as date)"
