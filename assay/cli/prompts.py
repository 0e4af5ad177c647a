"""`assay prompts`: the judge's prompts, their versions, and what a version changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from assay.cli.options import AsJson, ConfigFile, config_path
from assay.cli.show import console, moment, plain, print_lines, table
from assay.errors import Permanent

if TYPE_CHECKING:
    from assay.config import Config
    from scorers.judging.library import Library
    from scorers.judging.versions import Archive, Version

prompts = typer.Typer(help="The judge's prompts and their versions.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A prompt's name.")]
Which = Annotated[str, typer.Argument(help="A digest or its beginning, or a version.")]


@prompts.command("list")
def list_prompts(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the prompts in force: metric, subject, version, digest, scale, threshold."""
    rows = [
        {
            "name": prompt.name,
            "metric": prompt.metric,
            "subject": prompt.subject,
            "family": prompt.file.family,
            "version": prompt.file.version,
            "digest": prompt.digest,
            "scale": prompt.scale.kind,
            "threshold": prompt.file.threshold,
            "question": prompt.file.question,
        }
        for prompt in _library(_settings(config))
    ]
    if as_json:
        print_lines(rows)
        return
    columns = ("name", "metric", "subject", "version", "digest", "scale", "question")
    table(columns, ([plain(row[column]) for column in columns] for row in rows))


@prompts.command("show")
def show(name: Name, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show a prompt as the judge gets it, for each subject; inputs stand as their names."""
    found = [prompt for prompt in _library(_settings(config)) if prompt.name == name]
    if not found:
        raise Permanent(f"no prompt {name!r}: `assay prompts list` shows them all")
    for prompt in found:
        messages = prompt.messages({given: f"<{given}>" for given in prompt.inputs})
        if as_json:
            print_lines(
                [{"subject": prompt.subject, "messages": messages, "schema": prompt.schema}]
            )
            continue
        out = console()
        out.print(Text(f"{name} ({prompt.subject}), version {prompt.file.version}", "bold"))
        out.print(Text(f"digest {prompt.digest}; needs {', '.join(prompt.required)}\n", "dim"))
        for message in messages:
            out.print(Text(message["role"], "bold"))
            out.print(Text(plain(message["content"]) + "\n"))


@prompts.command("check")
def check(
    folder: Annotated[Path | None, typer.Argument(help="Folder of own prompts.")] = None,
    config: ConfigFile = None,
) -> None:
    """Check all prompts, also those of FOLDER; every fault with its file and key."""
    from scorers.judging.library import load_library

    judge = _settings(config).judge
    own = folder or (judge.prompts if judge is not None else None)
    library = load_library(own)
    typer.echo(f"{len(library.names())} prompts: right")


@prompts.command("history")
def history(name: Name, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the versions of a prompt that were ever in force here."""
    versions = _archive(_settings(config)).history(name)
    if as_json:
        print_lines(versions)
        return
    table(
        ("digest", "version", "first used", ""),
        (
            (one.digest, one.version, moment(one.first_used), "in force" if one.current else "")
            for one in versions
        ),
    )


@prompts.command("diff")
def diff(
    name: Name,
    first: Which,
    second: Which,
    turns: Annotated[
        bool, typer.Option(help="List the stored turns that both judged, and differently.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Show what changed from one version of a prompt to another."""
    loaded = _settings(config)
    archive = _archive(loaded)
    typer.echo(plain(archive.diff(name, first, second)))
    if turns:
        _disagreements(loaded, archive.find(name, first), archive.find(name, second))


@prompts.command("use")
def use(name: Name, which: Which, config: ConfigFile = None) -> None:
    """Bring a version back: it is written to the own folder and in force from the next start."""
    loaded = _settings(config)
    folder = loaded.judge.prompts if loaded.judge is not None else None
    if folder is None:
        raise Permanent("judge.prompts names no folder to write the version to")
    typer.echo(f"written: {_archive(loaded).use(name, which, folder)}")


def _disagreements(config: Config, first: Version, second: Version) -> None:
    from assay.cli.wiring import open_store
    from scorers.judging.versions import disagreements

    store = open_store(config)
    if store is None:
        raise Permanent("exporters.store.enabled is false: no scores are stored")
    found = asyncio.run(disagreements(store, first, second))
    columns = ("subject_id", "app", "subject", "engine", "first", "second")
    table(columns, ([plain(getattr(one, column)) for column in columns] for one in found))


def _settings(path: Path | None) -> Config:
    from assay.config import load

    return load(config_path(path))


def _library(config: Config) -> Library:
    from scorers.judging.library import load_library

    return load_library(config.judge.prompts if config.judge is not None else None)


def _archive(config: Config) -> Archive:
    from scorers.judging.versions import ARCHIVE, Archive

    library = _library(config)
    archive = Archive(config.data_dir / ARCHIVE, library)
    archive.keep()
    return archive
