"""`assay compare`: what it takes. The work is in `assay.cli.compare_work`."""

from __future__ import annotations

from typing import Annotated

import typer

from assay.cli.options import AsJson, ConfigFile, Metrics


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


def compare(
    baseline: Annotated[
        str,
        typer.Argument(
            help="An evaluation (id or name), a data set's file, a backfill's id, or app@version."
        ),
    ],
    candidate: Annotated[str, typer.Argument(help="The same, of what is compared with it.")],
    metrics: Metrics = None,
    pairwise: Annotated[
        str | None,
        typer.Option(
            help="Pairwise judge metrics, comma-separated: which response is better, both orders."
        ),
    ] = None,
    jailbreak: Annotated[
        bool,
        typer.Option(
            "--jailbreak", help="The candidate's rows are the baseline's, wrapped in attacks."
        ),
    ] = False,
    since: Annotated[str, typer.Option(help="How far back versions of an app are looked at.")] = (
        "7d"
    ),
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare two evaluations, data sets, backfills or versions of an app."""
    from assay.cli import compare_work as work

    work.compare(
        config,
        baseline,
        candidate,
        metrics=metrics,
        pairwise=pairwise,
        jailbreak=jailbreak,
        since=since,
        as_json=as_json,
    )
