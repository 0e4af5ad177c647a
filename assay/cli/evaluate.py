"""`assay evaluate` and the commands around data sets: what they take. The work is in
`assay.cli.evaluate_work`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import AsJson, ConfigFile, Metrics

runs = typer.Typer(help="Evaluations that were made.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(evaluate)
    app.add_typer(runs, name="evaluations")


Name = Annotated[str, typer.Argument(help="A run's id or how it begins, or its name.")]
Maps = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        help="Where an input stands: query=${data.question}, response={{sample.text}}, "
        "context=passages; may repeat.",
    ),
]
Outs = Annotated[
    list[Path] | None,
    typer.Option("--out", "-o", help="Write a report: .json, .csv or .html; may repeat."),
]


def evaluate(
    data: Annotated[Path, typer.Argument(help="JSON lines, a JSON list, or CSV.")],
    metrics: Metrics = None,
    maps: Maps = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="What answers the rows first: model:NAME, an http(s) URL, or module:function."
        ),
    ] = None,
    system: Annotated[
        Path | None, typer.Option(help="The model's system prompt: a text file.")
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(help="Examples for the model: JSON lines of role and content."),
    ] = None,
    temperature: Annotated[float | None, typer.Option(min=0, max=2)] = None,
    top_p: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Longest response.")] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="The model's endpoint; default: the judge's. Key: ASSAY_TARGET_KEY."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The run's name.")] = None,
    description: str = "",
    tags: Annotated[list[str] | None, typer.Option("--tag", help="key=value; may repeat.")] = None,
    out: Outs = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with 1 when a pass rate is under this: 0.9 for every defect metric, or "
            "groundedness=0.95; may repeat."
        ),
    ] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Score a data set by any metrics; or a model, an endpoint or a function on it."""
    from assay.cli import evaluate_work as work

    options = work.Options(
        data=data,
        metrics=metrics,
        maps=tuple(maps or ()),
        target=target,
        system=system,
        examples=examples,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        base_url=base_url,
        name=name or data.stem,
        description=description,
        tags=tuple(tags or ()),
        out=tuple(out or ()),
        fail_under=tuple(fail_under or ()),
    )
    raise typer.Exit(work.evaluate(config, options, as_json))


@runs.command("list")
def list_runs(
    config: ConfigFile = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this key=value.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the evaluations, the oldest first."""
    from assay.cli import evaluate_work as work

    work.list_runs(config, tag, as_json)


@runs.command("show")
def show_run(
    run: Name, config: ConfigFile = None, out: Outs = None, as_json: AsJson = False
) -> None:
    """Show an evaluation again, or write another report of it."""
    from assay.cli import evaluate_work as work

    work.show_run(config, run, tuple(out or ()), as_json)
