"""`assay explain`: which slices of the traffic made an alert's rate move."""

from __future__ import annotations

from typing import Annotated

import typer

from assay.cli.options import AsJson, ConfigFile, config_path


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(explain)


def explain(
    alert: Annotated[str, typer.Argument(help="Name or id of an alert, as `assay alerts` lists.")],
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Split the move of an alert's rate by operation, model, language and version."""
    import msgspec

    from assay.cli.alerts import agent_of
    from assay.cli.show import plain, print_lines, table
    from assay.cli.source import open_source
    from assay.config import load
    from assay.errors import Permanent
    from exporters.alerting.explainer import period_of, splits_of
    from exporters.attribution import DIMENSIONS, explanation, query

    listed = agent_of(config, None).ask("GET", "alerts")["alerts"]
    chosen = [one for one in listed if alert in (one["id"], one["labels"]["alert"])]
    chosen = [one for one in chosen if one["labels"]["cause"] in ("objective", "regression")]
    if not chosen:
        raise Permanent(f"no alert about a rate is called {alert}: see `assay alerts`")
    source = open_source(load(config_path(config)))
    for one in chosen:
        before, since = period_of(one["since"])
        splits = splits_of(
            {
                dimension: source.query(query(dimension, one["labels"], since=since, before=before))
                for dimension in DIMENSIONS
            }
        )
        if as_json:
            print_lines([{"alert": one, "splits": msgspec.to_builtins(splits)}])
            continue
        labels = one["labels"]
        typer.echo(plain(f"{labels['alert']}: {labels['metric']} of {labels['app']}", 200))
        typer.echo(plain(explanation(splits) or "no slice stands out", 1000))
        if not splits:
            continue
        table(
            ("by", "slice", "share before", "after", "rate before", "after", "mix", "within"),
            [
                (
                    split.dimension,
                    plain(part.slice or "(none)", 60),
                    f"{part.share_before:.1%}",
                    f"{part.share_after:.1%}",
                    "-" if part.rate_before is None else f"{part.rate_before:.1%}",
                    "-" if part.rate_after is None else f"{part.rate_after:.1%}",
                    f"{part.mix:+.2%}",
                    f"{part.within:+.2%}",
                )
                for split in splits
                for part in split.parts[:5]
            ],
        )
