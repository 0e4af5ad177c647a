"""`assay rules`: the settings' alerts as a file of rules for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import ConfigFile, config_path


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(rules)


def rules(
    config: ConfigFile = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: print.")
    ] = None,
) -> None:
    """Print the alerts as rules for Prometheus, with recording rules that add up over replicas."""
    from assay.cli.wiring import check_plan
    from assay.config import load
    from assay.errors import Permanent
    from exporters.alerting.rules import rules_of
    from exporters.rules.generate import rules_file

    settings = load(config_path(config), checks=[check_plan])
    text = rules_file(rules_of(settings), settings.exporters.grafana.url)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Permanent(f"cannot write {output}: {error.strerror}") from error
