"""`assay dead-letter`: what could not be processed, and putting it back."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from assay.cli.options import AsJson, ConfigFile, config_path

if TYPE_CHECKING:
    from assay.cli.source import Remote
    from assay.dead_letters import DeadLetters

T = TypeVar("T")
commands = typer.Typer(
    help="What could not be processed: reason, origin, raw bytes.", no_args_is_help=True
)
Number = Annotated[int, typer.Argument(min=0, help="As `assay dead-letter list` shows it.")]


@commands.command("list")
def list_letters(
    config: ConfigFile = None,
    reason: Annotated[str | None, typer.Option(help="Only this reason.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the latest.")] = 30,
    as_json: AsJson = False,
) -> None:
    """List the latest dead letters."""
    from assay.cli.show import moment, print_lines, table

    found = _ask(config, lambda remote: remote.dead_letters(), lambda letters: letters.listed())
    found = [each for each in found if reason in (None, each["reason"])][-limit:]
    if as_json:
        print_lines(found)
        return
    table(
        ("number", "when", "stage", "reason", "origin", "bytes"),
        [
            (
                str(each["number"]),
                moment(each["timestamp"] * 1_000_000),
                each["stage"],
                each["reason"],
                each["origin"],
                str(each["bytes"]),
            )
            for each in found
        ],
    )


@commands.command("show")
def show(number: Number, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show one: its headers, and its bytes as they came."""
    from assay.cli.show import plain, print_lines

    letter = _ask(
        config,
        lambda remote: remote.ask("GET", f"dead-letters/{number}"),
        lambda letters: letters.letter(number),
    )
    if as_json:
        print_lines([letter])
        return
    for name, value in letter["headers"].items():
        print(f"{name}: {plain(value)}")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\n" + base64.b64decode(letter["value_base64"]) + b"\n")


@commands.command("replay")
def replay(
    numbers: Annotated[list[int], typer.Argument(min=0, help="As `list` shows them.")],
    config: ConfigFile = None,
) -> None:
    """Put dead letters back where they came from, once what was at fault is put right."""

    def asked(remote: Remote) -> int:
        answer = remote.ask("POST", "dead-letters/replay", {"numbers": numbers})
        return int(answer["count"])

    count = _ask(config, asked, lambda letters: letters.replay(numbers))
    typer.echo(f"{count} records were put back")


def _ask(
    path: Any,
    remotely: Callable[[Remote], T],
    here: Callable[[DeadLetters], Awaitable[T]],
) -> T:
    """The answer of the agent that runs on the data folder, else of the stream, opened for it."""
    from assay.cli.source import answering
    from assay.cli.wiring import open_bus
    from assay.config import load
    from assay.dead_letters import DeadLetters

    config = load(config_path(path))
    remote = answering(config)
    if remote is not None:
        return remotely(remote)

    async def run() -> T:
        bus = open_bus(config)
        await bus.start()
        try:
            return await here(DeadLetters(bus))
        finally:
            await bus.stop()

    return asyncio.run(run())
