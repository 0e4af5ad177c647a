"""`assay generate` and `assay adversarial`: data sets that are made rather than collected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli.options import ConfigFile, config_path

adversarial = typer.Typer(
    help="Data sets that attack an app, to measure what it does.", no_args_is_help=True
)

Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="JSON lines; default: standard output.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same rows.")]
PerRow = Annotated[int, typer.Option(min=1, help="Attacks per row.")]
Data = Annotated[Path, typer.Argument(help="Rows with a query: JSON lines or CSV.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(generate)
    app.add_typer(adversarial, name="adversarial")


def generate(
    topic: Annotated[str, typer.Argument(help="What the questions are about.")],
    count: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 20,
    model: Annotated[str | None, typer.Option(help="Default: the judge's.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="The model's endpoint; default: the judge's.")
    ] = None,
    out: Out = None,
    config: ConfigFile = None,
) -> None:
    """Write sample questions with a model, where there is no data set."""
    import asyncio

    from assay.cli.evaluate_work import Options, target_of
    from assay.config import load
    from scorers.adversarial_questions import questions

    settings = load(config_path(config))
    name = model or (settings.judge.model if settings.judge is not None else "")

    async def write() -> list[dict[str, Any]]:
        options = Options(data=Path(), target=f"model:{name}", base_url=base_url, temperature=1.0)
        target = target_of(options, settings)
        assert target is not None
        try:
            found = [question async for question in questions(target, topic, count)]
        finally:
            await target.stop()
        return [{"id": str(number), "query": question} for number, question in enumerate(found)]

    _write(asyncio.run(write()), out)


@adversarial.command("baseline")
def baseline(
    harms: Annotated[str | None, typer.Option(help="Comma-separated; default: all four.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Requests per harm.")] = 20,
    seed: Seed = 1,
    out: Out = None,
) -> None:
    """Harmful requests, so that the app's answers can be judged."""
    from assay.catalogue import HARMS
    from assay.errors import ConfigError
    from scorers import adversarial as making

    names = [name.strip() for name in harms.split(",")] if harms is not None else list(HARMS)
    wrong = [name for name in names if name not in HARMS]
    if wrong:
        raise ConfigError([f"--harms: got {', '.join(wrong)}; allowed: {', '.join(HARMS)}"])
    _write(making.baseline(names, count=count, seed=seed), out)


@adversarial.command("direct")
def direct(data: Data, per_row: PerRow = 1, seed: Seed = 1, out: Out = None) -> None:
    """Wrap each row's query in jailbreaks; `assay compare --jailbreak` pairs them again."""
    from scorers import adversarial as making

    _derive(data, lambda rows: making.direct(rows, per_row=per_row, seed=seed), out)


@adversarial.command("indirect")
def indirect(data: Data, per_row: PerRow = 1, seed: Seed = 1, out: Out = None) -> None:
    """Plant instructions in each row's documents."""
    from scorers import adversarial as making

    _derive(data, lambda rows: making.indirect(rows, per_row=per_row, seed=seed), out)


def _derive(
    data: Path, make: Callable[[list[dict[str, Any]]], Iterable[dict[str, Any]]], out: Path | None
) -> None:
    from assay.cli.evaluate_work import rows_of
    from assay.errors import Permanent
    from scorers.evaluate_target import question_of

    rows = [
        {**row.values, "id": row.name, "query": question_of(row.values)} for row in rows_of(data)[0]
    ]
    found = list(make(rows))
    if not found:
        raise Permanent(f"{data}: no row has what the attack needs")
    _write(found, out)


def _write(rows: Iterable[dict[str, Any]], out: Path | None) -> None:
    import msgspec

    from assay.cli.show import print_lines
    from assay.errors import Permanent

    if out is None:
        print_lines(rows)
        return
    listed = list(rows)
    try:
        out.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in listed))
    except OSError as error:
        raise Permanent(f"{out}: {error.strerror or error}") from error
    typer.echo(f"{out}: {len(listed):,} rows")
