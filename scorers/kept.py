"""What a pure function of a short string gave, kept: a look-up where a call would cost more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

LIMIT = 30_000
"""Results that are kept; when there are as many, all are forgotten."""
LONGEST = 40
"""Characters of an argument whose result is kept, so that odd texts cannot fill the memory."""

V = TypeVar("V")


class Kept(dict[str, V]):
    """The results of `function` by argument: `kept[argument]`, or `kept.__getitem__` for `map`."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str], V]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, argument: str) -> V:
        result = self._function(argument)
        if len(argument) <= LONGEST:
            if len(self) >= LIMIT:
                self.clear()
            self[argument] = result
        return result
