"""`assay export scores`: rows of the store as a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import ConfigFile, config_path

FORMS = {"parquet": "parquet", "csv": "csv", "jsonl": "json"}


class Form(StrEnum):
    """What the file is."""

    parquet = "parquet"
    csv = "csv"
    jsonl = "jsonl"


def register(app: typer.Typer) -> None:
    """Add the command to the group `assay export`."""
    app.command("scores")(scores)


def scores(
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    form: Annotated[
        Form | None, typer.Option("--format", help="Default: as the file's name ends.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="30d, 6h, or 2026-10-01[T12:00].")] = None,
    until: Annotated[str | None, typer.Option(help="The same; default: now.")] = None,
    app: Annotated[str | None, typer.Option(help="Only this app.")] = None,
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    run: Annotated[str | None, typer.Option(help="`live`, or a backfill's id; default: all.")] = (
        None
    ),
    with_turns: Annotated[
        bool, typer.Option("--with-turns", help="With query and response of the turn.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Write the store's scores to a file: of a conversation that opened again only the last."""
    import asyncio

    from assay.cli.backfill_work import moment_of, store_of
    from assay.config import load
    from assay.errors import ConfigError
    from scorers.backfill_run import Selected
    from scorers.backfill_source import conditions, text

    name = form.value if form is not None else out.suffix.removeprefix(".").lower()
    if name not in FORMS:
        raise ConfigError([f"--format: got {name!r}; allowed: {', '.join(FORMS)}"])
    selected = Selected(
        since=moment_of(since, "--since"), until=moment_of(until, "--until"), app=app
    )
    where = [f"s.{condition}" for condition in conditions(selected, "event_time")]
    where += [f"s.metric = {text(metric)}"] if metric is not None else []
    where += [f"s.run = {text(run)}"] if run is not None else []
    columns, join = "s.*", ""
    if with_turns:
        columns += ", t.query, t.response"
        join = "LEFT JOIN turns AS t ON t.turn_id = s.turn_id AND t.date = s.date"
    sql = (
        f"SELECT {columns} FROM scores_latest AS s {join} "  # noqa: S608 - quoted
        f"WHERE {' AND '.join(where) or 'true'} ORDER BY s.event_time, s.subject_id, s.metric"
    )
    store = store_of(load(config_path(config)))
    count = asyncio.run(store.write_file(sql, out, FORMS[name]))
    typer.echo(f"{out}: {count:,} scores")
