"""`assay dead-letter`: what could not be processed, and putting it back."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from assay.cli.options import AsJson, ConfigFile, config_path

if TYPE_CHECKING:
    from assay.bus.contract import Bus, Record
    from assay.config import Config

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

    found = [row(letter) for letter in _with_bus(config, letters)]
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

    letter = _with_bus(config, lambda bus: letter_at(bus, number))
    if as_json:
        value = base64.b64encode(letter.value).decode()
        print_lines([row(letter) | {"headers": dict(letter.headers), "value_base64": value}])
        return
    for name, value in letter.headers.items():
        print(f"{name}: {plain(value)}")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\n" + letter.value + b"\n")


@commands.command("replay")
def replay(
    numbers: Annotated[list[int], typer.Argument(min=0, help="As `list` shows them.")],
    config: ConfigFile = None,
) -> None:
    """Put dead letters back where they came from, once what was at fault is put right."""

    async def put_back(bus: Bus) -> int:
        return await replay_letters(bus, numbers)

    count = _with_bus(config, put_back)
    typer.echo(f"{count} records were put back")


async def letters(bus: Bus) -> list[Record]:
    """All that the stream keeps, in order."""
    from assay.bus.topics import DEAD_LETTER

    return [record async for record in bus.read(DEAD_LETTER)]


async def letter_at(bus: Bus, number: int) -> Record:
    """The dead letter of that number. Raises `Permanent` when there is none."""
    from assay.bus.contract import Position
    from assay.bus.topics import DEAD_LETTER
    from assay.errors import Permanent

    letter = await bus.find(Position(DEAD_LETTER, 0, number))
    if letter is None:
        raise Permanent(f"no dead letter {number}")
    return letter


async def replay_letters(bus: Bus, numbers: Sequence[int]) -> int:
    """Publish the records again, each once; how many. Raises `Permanent` for one that was cut, and
    for one that would come a second time to a group which took it the first time."""
    from assay.bus.contract import Outgoing
    from assay.bus.topics import READERS
    from assay.errors import Permanent

    kept = await letters(bus)
    by_number = {letter.offset: letter for letter in kept}
    missing = sorted(set(numbers) - by_number.keys())
    if missing:
        raise Permanent(f"no dead letter {', '.join(map(str, missing))}")
    refused: dict[str, set[str]] = {}
    for letter in kept:
        refused.setdefault(letter.headers.get("origin", ""), set()).add(
            letter.headers.get("stage", "")
        )
    stats = await bus.topic_stats()
    outgoing = {}
    for letter in (by_number[number] for number in numbers):
        origin = letter.headers.get("origin", "")
        topic, partition, _ = origin.rsplit("/", 2)
        reading = {group for group in READERS.get(topic, ()) if group in stats[topic].lag}
        took = reading - refused[origin]
        if "cut" in letter.headers:
            raise Permanent(f"dead letter {letter.offset} was too large to be kept whole")
        if took:
            raise Permanent(
                f"dead letter {letter.offset} was taken by {', '.join(sorted(took))}: put back it "
                "would be counted there a second time"
            )
        headers = {
            name.removeprefix("original-"): value
            for name, value in letter.headers.items()
            if name.startswith("original-")
        }
        outgoing[origin] = Outgoing(topic, letter.value, letter.key, int(partition), headers)
    await bus.publish(list(outgoing.values()))
    return len(outgoing)


def row(letter: Record) -> dict[str, Any]:
    """What a listing shows of it."""
    return {
        "number": letter.offset,
        "timestamp": letter.timestamp,
        "stage": letter.headers.get("stage", ""),
        "reason": letter.headers.get("reason", ""),
        "origin": letter.headers.get("origin", ""),
        "bytes": len(letter.value),
    }


def _with_bus(path: Any, ask: Callable[[Bus], Awaitable[T]]) -> T:
    from assay.cli.wiring import open_bus
    from assay.config import load

    config: Config = load(config_path(path))

    async def run() -> T:
        bus = open_bus(config)
        await bus.start()
        try:
            return await ask(bus)
        finally:
            await bus.stop()

    return asyncio.run(run())
