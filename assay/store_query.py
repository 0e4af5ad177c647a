"""A reader's own SQL over the store, run in a process of its own.

Anybody's select may be heavy or without end, and the engine neither stops when asked nor lets the
rest of its process run meanwhile. So it works apart, for at most SECONDS and in at most MEMORY
bytes, and is killed after that: what takes in traces is not held up by what reads them.
"""

from __future__ import annotations

import asyncio
import pickle
import resource
import sys
from contextlib import suppress
from typing import Any

import msgspec

from assay.errors import AssayError, Permanent

SECONDS = 60.0
MEMORY = 4 * 2**30
AT_ONCE = 2


class Question(msgspec.Struct, frozen=True):
    """One select over the tables under `url`; what the child reads, as JSON, on standard input."""

    url: str
    options: dict[str, str]
    sql: str


class Desk:
    """Runs the questions to one store, at most AT_ONCE at a time; the others wait."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def ask(self, question: Question) -> list[dict[str, Any]]:
        """The rows. Raises what the store's `query` raises, and Permanent for one that is stopped.

        The child is gone when this returns, whichever way.
        """
        try:
            body = msgspec.json.encode(question)
        except UnicodeEncodeError:
            raise Permanent("the query is not valid Unicode") from None
        async with self._turn:
            # The question goes by standard input: others may read the arguments of a process.
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", __name__),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                async with asyncio.timeout(self._seconds):
                    out, _ = await child.communicate(body)
            except TimeoutError:
                raise Permanent(
                    f"the query took longer than {self._seconds:g} s and was stopped"
                ) from None
            finally:
                with suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
        if child.returncode != 0:
            raise Permanent(
                f"the query ended early; it may need more than {MEMORY // 2**30} GiB of memory"
            )
        answer = pickle.loads(out)  # noqa: S301  # written by our own child, on a pipe of ours
        if isinstance(answer, AssayError):
            raise answer
        rows: list[dict[str, Any]] = answer
        return rows


def main() -> None:
    """The child: answers the question on standard input with rows, or with our error."""
    from assay.store import Store

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    answer: list[dict[str, Any]] | AssayError
    try:
        answer = asyncio.run(Store(question.url, options=question.options).query(question.sql))
    except AssayError as error:
        answer = error
    pickle.dump(answer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
