"""The stages run apart, any number of each, over a stream that they share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay import __version__
from assay.cli import export_scores
from assay.cli.options import ConfigFile, config_path

if TYPE_CHECKING:
    from assay.config import Config

Listen = Annotated[
    str | None,
    typer.Option(help="Address of /metrics and /health; default: exporters.prometheus.listen."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(collect)
    app.command()(assemble)
    exports = typer.Typer()
    exports.callback()(export)
    export_scores.register(exports)
    app.add_typer(exports, name="export", invoke_without_command=True)


def collect(
    config: ConfigFile = None,
    from_kafka: Annotated[
        list[str] | None,
        typer.Option(help="Also take in this topic, written by an OpenTelemetry Collector."),
    ] = None,
    listen: Listen = None,
    verbose: Verbose = False,
) -> None:
    """Run the doors of several machines' agent: OTLP in, spans on the stream."""
    from assay.cli import collect as stage
    from assay.cli.process import run_until_signalled

    running = stage.run(_settings(config), listen, from_kafka or ())
    run_until_signalled(running, _greet("collector"), verbose=verbose)


def assemble(config: ConfigFile = None, listen: Listen = None, verbose: Verbose = False) -> None:
    """Run an assembler: spans of the stream in, turns out."""
    from assay.cli import assemble as stage
    from assay.cli.process import run_until_signalled

    running = stage.run(_settings(config), listen)
    run_until_signalled(running, _greet("assembler"), verbose=verbose)


def score(config: Path | None, groups: Sequence[str], listen: str | None, *, verbose: bool) -> None:
    """Run a scorer: turns of the stream in, scores out."""
    from assay.cli import score_stage as stage
    from assay.cli.process import run_until_signalled

    running = stage.run(_settings(config), listen, groups)
    run_until_signalled(running, _greet("scorer"), verbose=verbose)


def export(
    context: typer.Context,
    config: ConfigFile = None,
    sink: Annotated[
        list[str] | None, typer.Option(help="prometheus or store; default: all of the settings.")
    ] = None,
    listen: Listen = None,
    verbose: Verbose = False,
) -> None:
    """Run the exporters: scores of the stream in, series and tables out."""
    if context.invoked_subcommand is not None:
        return
    from assay.cli import export as stage
    from assay.cli.process import run_until_signalled

    running = stage.run(_settings(config), listen, sink or ())
    run_until_signalled(running, _greet("exporter"), verbose=verbose)


def _settings(path: Path | None) -> Config:
    from assay.cli.wiring import check_plan
    from assay.config import load

    return load(config_path(path), checks=[check_plan])


def _greet(what: str) -> Callable[[Sequence[str]], None]:
    """Says on standard output that the process is ready, and where it serves what."""

    def greet(served: Sequence[str]) -> None:
        lines = [f"Assay {__version__}: the {what} is ready.", *(f"  {line}" for line in served)]
        print("\n".join(lines), flush=True, file=sys.stdout)

    return greet
