"""A backfill beside the live series: on the turns that both scored, how far do they agree?"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from assay.records import Subject
from assay.statistics import Z95
from assay.store import Store
from scorers.backfill_source import text
from scorers.statistics import Difference, paired_rates


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One metric, scored by the run's engine and by the live one."""

    metric: str
    subject: Subject
    engine: str
    live_engine: str
    turns: int
    """Turns that have both values or verdicts."""
    agreement: float | None
    """Share of the turns with two verdicts that have the same."""
    mean: float | None
    live_mean: float | None
    shift: Difference | None
    """Of the mean, run minus live. Where engines have different scales it means nothing."""
    defect_rate: float | None
    live_defect_rate: float | None
    defect_shift: Difference | None


_SQL = """
WITH live AS (
    SELECT turn_id, metric, subject, engine, value, passed, outcome,
           row_number() OVER (PARTITION BY subject_id, metric, subject, engine
                              ORDER BY revision DESC, scored_at DESC) AS newest
    FROM scores WHERE run = 'live' AND outcome = 'scored'
)
SELECT r.metric, r.subject, r.engine, l.engine AS live_engine, count(*) AS n,
       avg(r.value) AS mean, avg(l.value) AS live_mean,
       sum(CASE WHEN r.value IS NOT NULL AND l.value IS NOT NULL THEN 1 ELSE 0 END) AS valued,
       sum(r.value - l.value) AS shift,
       sum((r.value - l.value) * (r.value - l.value)) AS squares,
       sum(CASE WHEN r.passed IS NOT NULL AND l.passed IS NOT NULL THEN 1 ELSE 0 END) AS judged,
       sum(CASE WHEN r.passed = false AND l.passed = true THEN 1 ELSE 0 END) AS gained,
       sum(CASE WHEN r.passed = true AND l.passed = false THEN 1 ELSE 0 END) AS lost,
       sum(CASE WHEN r.passed = false AND l.passed IS NOT NULL THEN 1 ELSE 0 END) AS failed,
       sum(CASE WHEN l.passed = false AND r.passed IS NOT NULL THEN 1 ELSE 0 END) AS live_failed
FROM scores r JOIN live l
  ON r.turn_id = l.turn_id AND r.metric = l.metric AND r.subject = l.subject
WHERE r.run = {run} AND r.outcome = 'scored' AND l.newest = 1
GROUP BY r.metric, r.subject, r.engine, l.engine ORDER BY r.metric, r.subject, r.engine, l.engine
"""


async def diff(store: Store, run_id: str) -> list[Row]:
    """A row for each metric, subject and pair of engines that run and live have in common."""
    return [_row(row) for row in await store.query(_SQL.format(run=text(run_id)))]


def _row(row: dict[str, Any]) -> Row:
    judged = row["judged"] or 0
    return Row(
        metric=row["metric"],
        subject=row["subject"],
        engine=row["engine"],
        live_engine=row["live_engine"],
        turns=row["n"],
        agreement=1 - (row["gained"] + row["lost"]) / judged if judged else None,
        mean=row["mean"],
        live_mean=row["live_mean"],
        shift=_mean_shift(row["valued"] or 0, row["shift"], row["squares"]),
        defect_rate=row["failed"] / judged if judged else None,
        live_defect_rate=row["live_failed"] / judged if judged else None,
        defect_shift=paired_rates(judged, row["gained"], row["lost"]),
    )


def _mean_shift(n: int, total: float | None, squares: float | None) -> Difference | None:
    """From sums, with the normal's limits: there is no list of differences."""
    if not n or total is None or squares is None:
        return None
    centre = total / n
    spread = math.sqrt(max(0.0, squares / n - centre * centre) / max(1, n - 1))
    p = math.erfc(abs(centre) / spread / math.sqrt(2)) if spread else float(centre == 0.0)
    return Difference(centre, centre - Z95 * spread, centre + Z95 * spread, p)
