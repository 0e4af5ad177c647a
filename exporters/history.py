"""A backfill's scores as series with the times of their events, in an OpenMetrics file.

`promtool tsdb create-blocks-from openmetrics` makes blocks of it that Prometheus takes in beside
its own. The names and the label `run` keep history apart from what is live: no alert sees it.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from assay import series
from assay.catalogue import CASCADE
from assay.records import Cell
from assay.store import Store
from exporters.intervals import estimated, interval

WINDOW = "1h"
HOUR = datetime.timedelta(hours=1)
ROWS = (
    series.HISTORY_MEAN,
    series.HISTORY_DEFECT_RATE,
    series.HISTORY_DEFECT_RATE_LOWER,
    series.HISTORY_DEFECT_RATE_UPPER,
    series.HISTORY_WINDOW_TURNS,
)
_LABELS = ("app", "environment", "metric", "engine", "kind", "subject")

_SQL = """
SELECT app, environment, metric, engine, kind, subject, stratum, weight,
       date_trunc('hour', event_time) AS hour,
       count(value) AS n, sum(value) AS total, sum(value * value) AS squares,
       count(passed) AS judged, sum(CASE WHEN passed = false THEN 1 ELSE 0 END) AS defects
FROM scores WHERE run = '{run}' AND outcome = 'scored'
GROUP BY app, environment, metric, engine, kind, subject, stratum, weight,
         date_trunc('hour', event_time)
"""

Labels = tuple[str, ...]
Samples = dict[Labels, dict[int, dict[str, float]]]
"""By labels, then by Unix seconds: value by name."""


async def write_history(store: Store, run_id: str, path: Path) -> int:
    """Write the series of a run, one sample for each hour at its end; how many samples."""
    cells: dict[tuple[Labels, int], list[Cell]] = {}
    async for rows in store.stream(_SQL.format(run=run_id.replace("'", "''"))):
        for row in rows:
            labels = tuple(row[name] or "" for name in _LABELS)
            cells.setdefault((labels, _end_of(row["hour"])), []).append(_cell(row))
    samples: Samples = {}
    for (labels, end), own in cells.items():
        estimates = labels[_LABELS.index("engine")] == CASCADE
        samples.setdefault(labels, {})[end] = _values(own, estimates=estimates)
    lines = list(_lines(samples, run_id))
    text = "\n".join([*lines, "# EOF", ""])
    await asyncio.to_thread(path.write_text, text, encoding="utf-8")
    return sum(not line.startswith("#") for line in lines)


def _lines(samples: Samples, run_id: str) -> Iterator[str]:
    for row in ROWS:
        yield f"# TYPE {row.name} gauge"
        yield f"# HELP {row.name} {row.help}"
        for labels in sorted(samples):
            named = dict(zip(_LABELS, labels, strict=True)) | {"run": run_id, "window": WINDOW}
            text = ",".join(f'{name}="{_escaped(value)}"' for name, value in named.items() if value)
            for end in sorted(samples[labels]):
                value = samples[labels][end].get(row.name)
                if value is not None:
                    yield f"{row.name}{{{text}}} {value!r} {end}"


def _values(cells: Iterable[Cell], *, estimates: bool) -> dict[str, float]:
    cells = list(cells)
    weight = sum(cell.n * cell.weight for cell in cells)
    turns = sum(max(cell.n, cell.judged) for cell in cells)
    found = {series.HISTORY_WINDOW_TURNS.name: float(turns)}
    if weight > 0:
        mean = sum(cell.total * cell.weight for cell in cells) / weight
        found[series.HISTORY_MEAN.name] = mean
    limits = estimated(cells) if estimates else interval(cells)
    if limits is not None:
        found[series.HISTORY_DEFECT_RATE.name] = limits.rate
        found[series.HISTORY_DEFECT_RATE_LOWER.name] = limits.lower
        found[series.HISTORY_DEFECT_RATE_UPPER.name] = limits.upper
    return found


def _cell(row: Mapping[str, Any]) -> Cell:
    return Cell(
        stratum=row["stratum"] or "",
        weight=row["weight"],
        n=row["n"],
        judged=row["judged"],
        defects=row["defects"],
        total=row["total"] or 0.0,
        squares=row["squares"] or 0.0,
    )


def _end_of(hour: datetime.datetime) -> int:
    return int((hour.replace(tzinfo=datetime.UTC) + HOUR).timestamp())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
