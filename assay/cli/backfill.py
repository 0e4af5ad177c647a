"""`assay backfill`: the commands. What they do is in `assay.cli.backfill_work`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import AsJson, ConfigFile, Metrics

commands = typer.Typer(help="Score stored traces again; see `assay backfill --help`.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(commands, name="backfill", invoke_without_command=True)


Name = Annotated[str, typer.Argument(help="A run's id, or how it begins.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Score at most so many turns.")]
Processes = Annotated[int | None, typer.Option(min=1, help="Default: one per core.")]
OpenMetrics = Annotated[
    Path | None,
    typer.Option("--openmetrics", help="Write the run's series with their true times here."),
]


@commands.callback()
def backfill(
    context: typer.Context,
    config: ConfigFile = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="`store`, `kafka` (the stream), or files and folders of saved traces; may repeat.",
        ),
    ] = None,
    metrics: Metrics = None,
    since: Annotated[str | None, typer.Option(help="30d, 6h, or 2026-10-01[T12:00].")] = None,
    until: Annotated[str | None, typer.Option(help="The same; default: now.")] = None,
    app: Annotated[str | None, typer.Option(help="Only this app (service.name).")] = None,
    when: Annotated[str | None, typer.Option(help="Only turns for which this is true.")] = None,
    sample: Annotated[
        float, typer.Option(help="Share of the turns, by their own draw; weighted.")
    ] = 1.0,
    limit: Limit = None,
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Also what the same scorer has scored.")
    ] = False,
    share: Annotated[
        float, typer.Option(min=0.01, max=1, help="Part of the judge's budget and concurrency.")
    ] = 0.5,
    via: Annotated[
        str, typer.Option(help="`here`, or `kafka`: by the processes of `assay score -g backfill`.")
    ] = "here",
    processes: Processes = None,
    openmetrics: OpenMetrics = None,
    yes: Yes = False,
) -> None:
    """Score stored traces: by a new metric, a new judge, or for the first time.

    First it says what that would take. A run that was ended goes on by `assay backfill resume`.
    """
    if context.invoked_subcommand is not None:
        return
    from assay.cli import backfill_work as work

    options = work.Options(
        sources=tuple(source or ["store"]),
        metrics=metrics,
        since=since,
        until=until,
        app=app,
        when=when,
        sample=sample,
        limit=limit,
        rescore=rescore,
        share=share,
        via=via,
    )
    work.begin(config, options, processes=processes, openmetrics=openmetrics, yes=yes)


@commands.command("list")
def list_runs(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the runs, the oldest first."""
    from assay.cli import backfill_work as work

    work.list_runs(config, as_json)


@commands.command("show")
def show_run(run: Name, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show a run: what it selects, how far it is, and what it found."""
    from assay.cli import backfill_work as work

    work.show_run(config, run, as_json)


@commands.command("resume")
def resume(
    run: Name,
    config: ConfigFile = None,
    limit: Limit = None,
    processes: Processes = None,
    openmetrics: OpenMetrics = None,
    yes: Yes = False,
) -> None:
    """Go on with a run that was ended, from its last commit, with its own settings."""
    from assay.cli import backfill_work as work

    work.resume(config, run, limit=limit, processes=processes, openmetrics=openmetrics, yes=yes)


@commands.command("cancel")
def cancel(run: Name, config: ConfigFile = None) -> None:
    """End a run for good; what it has scored stays."""
    from assay.cli import backfill_work as work

    work.cancel(config, run)


@commands.command("diff")
def diff(run: Name, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Compare a run with the live scores of the same turns."""
    from assay.cli import backfill_work as work

    work.show_diff(config, run, as_json)
