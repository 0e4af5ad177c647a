"""`assay label import`, `assay calibrate`: people's labels, and what they say of a scorer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import AsJson, ConfigFile, config_path

if TYPE_CHECKING:
    from assay.calibration import Calibration

labels = typer.Typer(help="Labels by people.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(labels, name="label")
    app.command()(calibrate)


@labels.command("import")
def import_labels(
    file: Annotated[Path, typer.Argument(help="JSON lines or CSV: turn_id, metric, value, who.")],
    config: ConfigFile = None,
) -> None:
    """Take in labels; those that are there already change nothing."""
    import asyncio

    from assay.cli.backfill_work import store_of
    from assay.config import load
    from assay.labels import add_labels, label_of
    from scorers.evaluate_data import BadLine, read_rows

    bad = 0

    def report(row: BadLine) -> None:
        nonlocal bad
        bad += 1
        print(f"{file}:{row.line}: {row.reason}", file=sys.stderr)

    found = []
    for row in read_rows(file, report):
        try:
            found.append(label_of(row.values))
        except ValueError as error:
            report(BadLine(row.line, str(error)))
    added = asyncio.run(add_labels(store_of(load(config_path(config))), found))
    print(f"{added:,} labels added, {len(found) - added:,} there already, {bad:,} bad rows")
    raise typer.Exit(int(bad > 0))


def calibrate(
    metric: Annotated[str, typer.Argument(help="The metric that people labelled.")],
    since: Annotated[str, typer.Option(help="Scores from then on: 30d, 2026-10-01.")] = "30d",
    app: Annotated[str | None, typer.Option("--app", help="Only this app.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare a scorer with people's labels, and correct its defect rate by them."""
    import asyncio

    from assay.calibration import calibrations
    from assay.catalogue import canonical
    from assay.cli.backfill_work import moment_of, store_of
    from assay.cli.show import print_lines
    from assay.config import load
    from assay.errors import Permanent

    name = canonical(metric) or metric
    store = store_of(load(config_path(config)))
    moment = moment_of(since, "--since")
    found = asyncio.run(calibrations(store, metric=name, since=moment, app=app))
    if not found:
        raise Permanent(f"no labelled turn has a live verdict of {name}: `assay label import`")
    if as_json:
        print_lines(found)
        return
    for row in found:
        _show(row)


def _show(row: Calibration) -> None:
    from rich.text import Text

    from assay.cli.show import console, plain, table

    out, counts = console(), row.confusion
    out.print(Text(f"{plain(row.metric)} by {plain(row.engine)}", "bold"))
    table(
        ("", "people: defect", "people: fine"),
        (
            ("scorer: defect", f"{counts.both_fail:,}", f"{counts.scorer_fails:,}"),
            ("scorer: fine", f"{counts.people_fail:,}", f"{counts.both_pass:,}"),
        ),
    )
    facts: dict[str, Any] = {
        "labelled": f"{counts.n:,} of {row.scored:,} scored turns",
        "accuracy": row.accuracy,
        "precision": row.precision,
        "recall": row.recall,
        "specificity": row.specificity,
        "kappa": row.kappa,
        "Spearman": row.spearman,
        "defect rate": _limits(row.observed),
        "corrected": _limits(row.corrected) or "needs a label under each verdict",
        "Rogan-Gladen": _limits(row.rogan_gladen),
    }
    for title, value in facts.items():
        shown = f"{value:.3f}" if isinstance(value, float) else value
        if shown:
            out.print(Text(f"{title:>13}  ", "dim") + Text(shown))


def _limits(found: Any) -> str:
    return "" if found is None else f"{found.value:.1%} ({found.lower:.1%} to {found.upper:.1%})"
