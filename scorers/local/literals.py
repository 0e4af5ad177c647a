"""Strings that a regular expression cannot match without, read off its parsed form.

Looking for a few strings is many times faster than a search by a pattern of alternatives, and most
searches find nothing.
"""

from __future__ import annotations

import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Collection, Iterator
from typing import Any

SHORTEST = 3
"""Characters of a string that is worth looking for."""
MOST = 16
"""Strings beyond which the search itself is as fast."""


def literals(regex: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """Strings of which every match of `regex` holds at least one; none where nothing good is known.

    `known` words were found already: strings that tell more than they do are preferred.
    """
    found = _best(list(parser.parse(regex)), frozenset(known)) or frozenset()
    return tuple(sorted(found)) if len(found) <= MOST else ()


def _best(sequence: list[Any], known: frozenset[str]) -> frozenset[str] | None:
    """The most telling of the sets of which each match of `sequence` holds one string."""
    return max(_sets(sequence, known), key=lambda each: _telling(each, known), default=None)


def _telling(found: frozenset[str], known: frozenset[str]) -> tuple[bool, int]:
    return not found <= known, min(map(len, found))


def _sets(sequence: list[Any], known: frozenset[str]) -> Iterator[frozenset[str]]:
    run = ""
    for operation, argument in [*sequence, (None, None)]:
        if operation is sre.LITERAL:
            run += chr(argument)
            continue
        if len(run) >= SHORTEST:
            yield frozenset({run})
        run = ""
        inner: frozenset[str] | None = None
        if operation is sre.SUBPATTERN:
            inner = _best(list(argument[-1]), known)
        elif operation is sre.MAX_REPEAT and argument[0] >= 1:
            inner = _best(list(argument[2]), known)
        elif operation is sre.BRANCH:
            branches = [_best(list(branch), known) for branch in argument[1]]
            if all(branches):
                inner = frozenset().union(*(branch for branch in branches if branch))
        if inner:
            yield inner
