"""A thread for one blocking client, which a stop need not wait for."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from assay.errors import Permanent

T = TypeVar("T")


class ClientThread:
    """Runs calls one after another. The clients wait without end for brokers that are away, so the
    thread is a daemon: `stop` gives it some time and then leaves it to the end of the process."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._stopped = False
        self._thread.start()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of `function`, called in the thread. Raises `Permanent` once stopped."""
        if self._stopped:
            raise Permanent("the bus is stopped")
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        self._calls.put(partial(_call, loop, result, function, args))
        return await result

    async def stop(self, last: Callable[[], None] | None, wait: float) -> None:
        """Call `last` when all before it is done, and end; return after `wait` seconds at most.
        Safe twice."""
        if self._stopped:
            return
        try:
            if last is not None:
                async with asyncio.timeout(wait):
                    await self.run(last)
        except TimeoutError:
            return
        finally:
            self._stopped = True
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _call(
    loop: asyncio.AbstractEventLoop,
    result: asyncio.Future[T],
    function: Callable[..., T],
    args: tuple[Any, ...],
) -> None:
    value: T | None = None
    error: BaseException | None = None
    try:
        value = function(*args)
    except BaseException as failure:  # noqa: BLE001 - raised again where the call was made
        error = failure

    def settle() -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
