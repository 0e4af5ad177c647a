"""`assay corpus`: texts whose repetition `protected_material` finds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.options import AsJson, ConfigFile, config_path

corpus = typer.Typer(
    help="Texts that a response must not repeat: see protected_material.", no_args_is_help=True
)
PIECE = 1 << 16
"""Characters of a text that are read at a time."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(corpus, name="corpus")


@corpus.command("add")
def add_corpus(
    name: Annotated[str, typer.Argument(help="How findings name it.")],
    paths: Annotated[
        list[Path],
        typer.Argument(help="Text files, JSON lines with text and id, or folders of such."),
    ],
    config: ConfigFile = None,
) -> None:
    """Register texts. Only hashes of their words are kept, not the texts."""
    from assay.cli.wiring import make_data_folder
    from scorers.corpora.registry import add

    folder = _folder(config)
    make_data_folder(folder.parent)
    added = add(folder, name, _documents(paths))
    print(f"{added.name}: {added.documents:,} documents, {added.words:,} words")


@corpus.command("list")
def list_corpora(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """What is registered."""
    from assay.cli.show import print_lines, table
    from scorers.corpora.registry import corpora

    known = corpora(_folder(config))
    if as_json:
        print_lines(known)
        return
    table(
        ("corpus", "documents", "words", "added"),
        [
            (
                one.name,
                f"{one.documents:,}",
                f"{one.words:,}",
                datetime.fromtimestamp(one.added_at, UTC).strftime("%Y-%m-%d %H:%M"),
            )
            for one in known
        ],
    )


@corpus.command("remove")
def remove_corpus(
    name: Annotated[str, typer.Argument(help="Of a registered corpus.")],
    config: ConfigFile = None,
) -> None:
    """Forget a corpus."""
    from scorers.corpora.registry import remove

    gone = remove(_folder(config), name)
    print(f"{gone.name}: {gone.words:,} words forgotten")


def _folder(config: Path | None) -> Path:
    from assay.config import load
    from scorers.corpora.registry import FOLDER

    return load(config_path(config)).data_dir / FOLDER


def _documents(paths: Iterable[Path]) -> Iterator[tuple[str, Iterable[str]]]:
    """Each document's name, and its text in pieces. Raises Permanent for what cannot be read."""
    for path in paths:
        for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
            if file.suffix == ".jsonl":
                yield from _rows(file)
            else:
                yield str(file.relative_to(path) if path.is_dir() else file.name), _pieces(file)


def _rows(file: Path) -> Iterator[tuple[str, Iterable[str]]]:
    from scorers.evaluate_data import BadLine, read_rows

    def report(row: BadLine) -> None:
        print(f"{file}:{row.line}: {row.reason}", file=sys.stderr)

    for number, row in enumerate(read_rows(file, report), 1):
        text = row.values.get("text")
        if isinstance(text, str):
            yield str(row.values.get("id") or f"{file.name}:{number}"), (text,)
        else:
            report(BadLine(row.line, "no text"))


def _pieces(file: Path) -> Iterator[str]:
    """The text of a file, cut at blanks."""
    from assay.errors import Permanent

    rest = ""
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            while more := text.read(PIECE):
                head, blank, tail = (rest + more).rpartition(" ")
                if blank and len(tail) < PIECE:
                    yield head
                    rest = tail
                else:
                    yield rest + more
                    rest = ""
    except OSError as error:
        raise Permanent(f"{file}: {error.strerror}") from error
    yield rest
