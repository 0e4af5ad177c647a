"""The dead letters of a stream: which there are, one as it came, and putting them back.

A letter's number is its offset in the dead-letter topic.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from assay.bus.contract import Bus, Outgoing, Position, Record
from assay.bus.topics import DEAD_LETTER, READERS
from assay.errors import Permanent


class DeadLetters:
    """Of the stream on `bus`, which is started."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def listed(self) -> list[dict[str, Any]]:
        """All that the stream keeps, in order, without their bytes."""
        return [_row(letter) for letter in await self._kept()]

    async def letter(self, number: int) -> dict[str, Any]:
        """One, with its headers, and its bytes in base64. Raises `Permanent` when there is none."""
        letter = await self._bus.find(Position(DEAD_LETTER, 0, number))
        if letter is None:
            raise Permanent(f"no dead letter {number}")
        value = base64.b64encode(letter.value).decode()
        return _row(letter) | {"headers": dict(letter.headers), "value_base64": value}

    async def replay(self, numbers: Sequence[int]) -> int:
        """Publish the records again, each once; how many. Raises `Permanent` for one that was cut,
        and for one that would come a second time to a group which took it the first time."""
        kept = await self._kept()
        by_number = {letter.offset: letter for letter in kept}
        missing = sorted(set(numbers) - by_number.keys())
        if missing:
            raise Permanent(f"no dead letter {', '.join(map(str, missing))}")
        refused: dict[str, set[str]] = {}
        for letter in kept:
            refused.setdefault(letter.headers.get("origin", ""), set()).add(
                letter.headers.get("stage", "")
            )
        stats = await self._bus.topic_stats()
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
                    f"dead letter {letter.offset} was taken by {', '.join(sorted(took))}: put back "
                    "it would be counted there a second time"
                )
            headers = {
                name.removeprefix("original-"): value
                for name, value in letter.headers.items()
                if name.startswith("original-")
            }
            outgoing[origin] = Outgoing(topic, letter.value, letter.key, int(partition), headers)
        await self._bus.publish(list(outgoing.values()))
        return len(outgoing)

    async def _kept(self) -> list[Record]:
        return [record async for record in self._bus.read(DEAD_LETTER)]


def _row(letter: Record) -> dict[str, Any]:
    return {
        "number": letter.offset,
        "timestamp": letter.timestamp,
        "stage": letter.headers.get("stage", ""),
        "reason": letter.headers.get("reason", ""),
        "origin": letter.headers.get("origin", ""),
        "bytes": len(letter.value),
    }
