"""Reports of an evaluation: the records that users of other tools know, as JSON, CSV or a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import ConfigError
from assay.records import Score
from scorers.evaluate import Result
from scorers.evaluate_run import EvaluationRun

COLUMNS = (
    "row", "line", "query", "response", "type", "name", "metric", "subject", "engine", "score",
    "label", "reason", "threshold", "passed", "outcome", "outcome_reason",
)  # fmt: skip
SHOWN = 300
"""Characters of a text on the page."""
MOST_FAILURES = 1000
"""Rows of the page's list: a browser shows no hundred thousand."""


def record(score: Score) -> dict[str, Any]:
    """A Score in the users' known form; `label` is pass or fail, else the metric's own word."""
    verdict = None if score.passed is None else "pass" if score.passed else "fail"
    return {
        "type": "assay",
        "name": score.metric,
        "metric": score.metric,
        "subject": score.subject,
        "engine": score.engine,
        "score": score.value,
        "label": verdict or score.label,
        "reason": score.reason,
        "threshold": score.threshold,
        "passed": score.passed,
        "outcome": score.outcome,
        "outcome_reason": score.outcome_reason,
    }


def write_report(path: Path, run: EvaluationRun, results: Iterable[Result]) -> None:
    """Write the report in the form that the name ends in. Raises ConfigError for another one."""
    write = _FORMS.get(path.suffix.lower())
    if write is None:
        raise ConfigError([f"--out: got {str(path)!r}; allowed endings: {', '.join(_FORMS)}"])
    path.write_text(write(run, results), encoding="utf-8", errors="replace", newline="")


def check_report(path: Path) -> None:
    """Raises ConfigError when no report can be written under that name."""
    if path.suffix.lower() not in _FORMS:
        raise ConfigError([f"--out: got {str(path)!r}; allowed endings: {', '.join(_FORMS)}"])


def _json(run: EvaluationRun, results: Iterable[Result]) -> str:
    rows = [
        {
            "row": result.name,
            "line": result.line,
            "query": result.turn.query,
            "response": result.turn.response,
            "results": [record(score) for score in result.scores.scores],
        }
        for result in results
    ]
    document = {"run": run, "rows": rows}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _csv(run: EvaluationRun, results: Iterable[Result]) -> str:
    del run
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    for result in results:
        row = {
            "row": result.name,
            "line": result.line,
            "query": result.turn.query,
            "response": result.turn.response,
        }
        for score in result.scores.scores:
            writer.writerow({k: _cell(v) for k, v in (row | record(score)).items()})
    return out.getvalue()


def _cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


def _html(run: EvaluationRun, results: Iterable[Result]) -> str:
    metrics = _table(
        ("metric", "subject", "engine", "mean", "pass rate", "defect rate", "scored", "not scored"),
        [
            (
                s.metric,
                s.subject,
                s.engine,
                "" if s.mean is None else f"{s.mean.value:.4g}",
                "" if s.pass_rate is None else f"{s.pass_rate:.1%}",
                ""
                if s.defect_rate is None
                else f"{s.defect_rate.value:.1%} "
                f"({s.defect_rate.lower:.1%} to {s.defect_rate.upper:.1%})",
                f"{s.scored} of {s.rows}",
                ", ".join(f"{n:,} {why}" for why, n in s.unscored.items()),
            )
            for s in run.summaries
        ],
    )
    found = (
        (
            str(result.line),
            _cut(result.turn.query),
            _cut(result.turn.response),
            f"{score.metric} ({score.engine})",
            "" if score.value is None else f"{score.value:.3g}",
            _cut(score.reason or score.outcome_reason),
        )
        for result in results
        for score in result.scores.scores
        if score.passed is False or score.outcome == "error"
    )
    failures = _table(
        ("line", "query", "response", "metric", "score", "reason"), islice(found, MOST_FAILURES)
    )
    if more := sum(1 for _ in found):
        failures += f"<p>{more:,} more are in the CSV and JSON reports.</p>"
    facts = f"{run.rows} rows of {run.data}, {run.bad_rows} bad rows" + (
        f", answered by {run.target}" if run.target else ""
    )
    return _PAGE.format(
        title=escape(run.name), description=escape(run.description), facts=escape(facts),
        metrics=metrics, failures=failures,
    )  # fmt: skip


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _cut(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #1c1c1c; background: #fff }}
table {{ border-collapse: collapse; margin: 1rem 0 }}
th, td {{ border-bottom: 1px solid #ddd; padding: .3rem .8rem; text-align: left;
  vertical-align: top; white-space: pre-wrap; overflow-wrap: anywhere }}
th {{ border-bottom-color: #555; white-space: nowrap; overflow-wrap: normal }}
</style></head><body>
<h1>{title}</h1><p>{description}</p><p>{facts}</p>
<h2>Metrics</h2>{metrics}
<h2>Failures and errors</h2>{failures}
</body></html>
"""
_FORMS = {".json": _json, ".csv": _csv, ".html": _html}
