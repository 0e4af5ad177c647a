"""`assay grafana push`: boards, data source, alert rules and contact points into Grafana."""

from __future__ import annotations

from typing import Annotated

import typer

from assay.cli.options import ConfigFile, config_path

commands = typer.Typer(help="Grafana's boards and rules.", no_args_is_help=True)


@commands.callback()
def grafana() -> None:
    """Grafana's boards and rules."""


@commands.command()
def push(
    config: ConfigFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would change.")
    ] = False,
) -> None:
    """Make Grafana as exporters.grafana, alerts and notify want it; may be done again."""
    from assay.cli.grafana_push import push as push_all
    from assay.cli.wiring import check_plan
    from assay.config import load

    settings = load(config_path(config), checks=[check_plan])
    for line in push_all(settings, dry_run=dry_run):
        typer.echo(line)
