"""How far a scorer can be trusted, by people's labels, and the defect rate without its errors.

The corrected rate is prediction-powered inference, stratified by the scorer's verdict (Angelopoulos
et al. 2023; Fisch et al. 2024): among the turns that failed, and among those that passed, the share
that people call defects is estimated from the labels, and the two are weighted by how often the
scorer fails turns at all, which is known from far more turns than were labelled. It stays right
where people label failures more often than passes, as long as chance decides within each verdict.
Limits are Wilson's per stratum, joined by MOVER, with the part of the unlabelled share.

Rogan and Gladen's (1978) estimate corrects the observed rate by sensitivity and specificity; it
needs labels that were drawn regardless of the verdict, and is shown beside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.statistics import Z95, wilson
from assay.store import Store
from assay.store_rows import EPOCH, MICROSECOND


class Limits(NamedTuple):
    """A rate with its 95 % limits, 0 <= lower <= value <= upper <= 1."""

    value: float
    lower: float
    upper: float


class Confusion(msgspec.Struct, frozen=True, kw_only=True):
    """Labelled turns, by the scorer's verdict and people's."""

    both_fail: int = 0
    scorer_fails: int = 0
    """The scorer fails the turn, people pass it."""
    people_fail: int = 0
    """People fail the turn, the scorer passes it."""
    both_pass: int = 0

    @property
    def n(self) -> int:
        return self.both_fail + self.scorer_fails + self.people_fail + self.both_pass


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A scorer beside people, on the turns that both judged."""

    metric: str
    engine: str
    scored: int
    """Turns with the scorer's verdict."""
    confusion: Confusion
    accuracy: float | None
    precision: float | None
    """Of the scorer's failures."""
    recall: float | None
    specificity: float | None
    kappa: float | None
    """Cohen's; none where both always say the same one thing."""
    spearman: float | None
    """Between the scorer's values and people's."""
    observed: Limits | None
    """The defect rate as scored, weighted."""
    corrected: Limits | None
    """None without a label under each verdict that occurs."""
    rogan_gladen: Limits | None
    """None where the scorer is no better than chance."""


class Pair(NamedTuple):
    """A labelled turn."""

    fails: bool
    """By the scorer."""
    defect: bool
    """By people."""
    value: float | None = None
    label: float | None = None


def calibrate(
    metric: str,
    engine: str,
    pairs: Sequence[Pair],
    *,
    scored: int,
    weight: float,
    squares: float,
    failed: float,
) -> Calibration:
    """The calibration from labelled turns, and from the sums over all scored ones: of the weights,
    their squares, and the weights of failures."""
    found = Confusion(
        both_fail=sum(p.fails and p.defect for p in pairs),
        scorer_fails=sum(p.fails and not p.defect for p in pairs),
        people_fail=sum(p.defect and not p.fails for p in pairs),
        both_pass=sum(not p.fails and not p.defect for p in pairs),
    )
    share = failed / weight if weight > 0 else 0.0
    size = weight * weight / squares if squares > 0 else 0.0
    return Calibration(
        metric=metric,
        engine=engine,
        scored=scored,
        confusion=found,
        accuracy=_share(found.both_fail + found.both_pass, found.n),
        precision=_share(found.both_fail, found.both_fail + found.scorer_fails),
        recall=_share(found.both_fail, found.both_fail + found.people_fail),
        specificity=_share(found.both_pass, found.both_pass + found.scorer_fails),
        kappa=kappa(found),
        spearman=spearman(
            [(p.value, p.label) for p in pairs if p.value is not None and p.label is not None]
        ),
        observed=Limits(share, *wilson(share, size)) if size > 0 else None,
        corrected=corrected(found, share, size),
        rogan_gladen=rogan_gladen(found, share, size),
    )


def corrected(found: Confusion, share: float, size: float) -> Limits | None:
    """The defect rate by people's measure; `share` of `size` turns fail by the scorer's."""
    failing = found.both_fail + found.scorer_fails
    passing = found.people_fail + found.both_pass
    if size <= 0 or (share > 0 and not failing) or (share < 1 and not passing):
        return None
    a = found.both_fail / failing if failing else 0.0
    b = found.people_fail / passing if passing else 0.0
    rate = share * a + (1 - share) * b
    a_low, a_high = wilson(a, failing) if failing else (0.0, 0.0)
    b_low, b_high = wilson(b, passing) if passing else (0.0, 0.0)
    shares = (Z95 * (a - b)) ** 2 * share * (1 - share) / size
    below = math.sqrt((share * (a - a_low)) ** 2 + ((1 - share) * (b - b_low)) ** 2 + shares)
    above = math.sqrt((share * (a_high - a)) ** 2 + ((1 - share) * (b_high - b)) ** 2 + shares)
    return Limits(rate, max(0.0, rate - below), min(1.0, rate + above))


def rogan_gladen(found: Confusion, share: float, size: float) -> Limits | None:
    """(share + specificity - 1) / (sensitivity + specificity - 1), limits by the delta method."""
    defects = found.both_fail + found.people_fail
    fine = found.both_pass + found.scorer_fails
    if not defects or not fine or size <= 0:
        return None
    sensitivity, specificity = found.both_fail / defects, found.both_pass / fine
    youden = sensitivity + specificity - 1
    if youden <= 0:
        return None
    rate = min(1.0, max(0.0, (share + specificity - 1) / youden))
    variance = (
        share * (1 - share) / size
        + rate**2 * sensitivity * (1 - sensitivity) / defects
        + (1 - rate) ** 2 * specificity * (1 - specificity) / fine
    ) / youden**2
    half = Z95 * math.sqrt(variance)
    return Limits(rate, max(0.0, rate - half), min(1.0, rate + half))


def kappa(found: Confusion) -> float | None:
    """Cohen's kappa."""
    n = found.n
    if not n:
        return None
    scorer = (found.both_fail + found.scorer_fails) / n
    people = (found.both_fail + found.people_fail) / n
    expected = scorer * people + (1 - scorer) * (1 - people)
    agreed = (found.both_fail + found.both_pass) / n
    return None if expected >= 1.0 else (agreed - expected) / (1 - expected)


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The rank correlation, ties at their mean rank; none where one side never changes."""
    if len(pairs) < 3:
        return None
    x, y = _ranks([a for a, _ in pairs]), _ranks([b for _, b in pairs])
    mean = (len(pairs) + 1) / 2
    over = math.fsum((a - mean) * (b - mean) for a, b in zip(x, y, strict=True))
    under = math.sqrt(math.fsum((a - mean) ** 2 for a in x) * math.fsum((b - mean) ** 2 for b in y))
    return over / under if under else None


async def calibrations(
    store: Store,
    *,
    metric: str | None = None,
    since: int = 0,
    recent: int = 0,
    app: str | None = None,
) -> list[Calibration]:
    """A calibration for each metric and engine of the live scores that has labels.

    Labelled turns count that ended after `since`, and for the rate as scored those that ended after
    `recent`: nanoseconds since the Unix epoch. Of several labels of a turn the latest counts.
    """
    live = ["run = 'live'", "passed IS NOT NULL"]
    live += [f"app = {_quoted(app)}"] if app is not None else []
    labelled = [*live, *_after(since)]
    labelled += [f"metric = {_quoted(metric)}"] if metric is not None else []
    pairs: dict[tuple[str, str, str], list[Pair]] = {}
    async for rows in store.stream(_LABELLED.format(where=" AND ".join(labelled))):
        for row in rows:
            key = row["metric"], row["subject"], row["engine"]
            pairs.setdefault(key, []).append(
                Pair(not row["passed"], not row["says"], row["value"], row["label"])
            )
    found = []
    for (name, subject, engine), own in sorted(pairs.items()):
        quoted = {"metric": name, "subject": subject, "engine": engine}
        only = [f"{column} = {_quoted(text)}" for column, text in quoted.items()]
        where = " AND ".join([*live, *_after(recent or since), *only])
        (sums,) = await store.query(_SUMS.format(where=where))
        found.append(
            calibrate(
                name,
                engine,
                own,
                scored=sums["scored"],
                weight=sums["weight"] or 0.0,
                squares=sums["squares"] or 0.0,
                failed=sums["failed"],
            )
        )
    return found


async def labelled_apps(store: Store, since: int) -> list[str]:
    """The apps of which turns that ended after `since` have labels."""
    where = " AND ".join(["run = 'live'", *_after(since)])
    rows = await store.query(
        "SELECT DISTINCT app FROM scores WHERE turn_id IN (SELECT turn_id FROM labels) "  # noqa: S608
        f"AND {where} ORDER BY app"
    )
    return [row["app"] for row in rows]


def _after(moment: int) -> list[str]:
    if not moment:
        return []
    day = (EPOCH + MICROSECOND * (moment // 1000)).date().isoformat()
    # A turn is filed under its own day, or that of its arrival.
    return [
        f"event_time >= to_timestamp_micros({moment // 1000})",
        f"date >= date '{day}' - INTERVAL '1 day'",
    ]


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_LABELLED = """
WITH latest AS (
    SELECT *, row_number() OVER (PARTITION BY turn_id, metric ORDER BY labelled_at DESC) AS newest
    FROM labels WHERE passed IS NOT NULL
)
SELECT s.metric, s.subject, s.engine, s.passed, s.value, l.passed AS says, l.value AS label
FROM (SELECT * FROM scores_latest WHERE {where}) s
JOIN latest l ON s.turn_id = l.turn_id AND s.metric = l.metric AND s.subject = l.subject
WHERE l.newest = 1
"""
_SUMS = """
SELECT count(*) AS scored, sum(weight) AS weight, sum(weight * weight) AS squares,
       coalesce(sum(CASE WHEN passed = false THEN weight END), 0.0) AS failed
FROM scores_latest WHERE {where}
"""


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for position in order[start:end]:
            ranks[position] = (start + end + 1) / 2
        start = end
    return ranks
