"""The thread that writes the log: what waits is committed together, with one sync."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from assay.bus.log import Log
from assay.bus.retention import sweep
from assay.bus.rows import Transaction
from assay.errors import Retryable

logger = logging.getLogger(__name__)

MAX_BATCH = 32 * 2**20
"""Bytes of values in one transaction, so that waiting stays short."""
MAX_WAITING = 256 * 2**20
"""Bytes of values that may wait; more is refused."""
SWEEP_SECONDS = 1.0


class _Job:
    """A transaction, or a call to make between transactions, and who waits for it."""

    __slots__ = ("call", "future", "size", "transaction")

    def __init__(
        self,
        future: asyncio.Future[Any],
        transaction: Transaction | None = None,
        call: Callable[[], Any] | None = None,
    ) -> None:
        self.future = future
        self.transaction = transaction
        self.call = call
        self.size = sum(len(append.value) for append in transaction.appends) if transaction else 0


class Writer:
    """Runs transactions and calls in its own thread, in the order in which they came."""

    def __init__(self, log: Log, max_size: int, on_commit: Callable[[], None]) -> None:
        self._log = log
        self._max_size = max_size
        self._on_commit = on_commit
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._waiting = 0
        self._fault: str | None = None
        self._swept = time.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; results go to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="assay-bus-writer", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Finish what was accepted. Safe twice and without start."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)

    async def write(self, transaction: Transaction, *, refusable: bool) -> None:
        """Return when the transaction is durable.

        A `refusable` one raises `Retryable` while the log is full. Commits are not refusable: they
        are what makes room.
        """
        job = _Job(self._future(), transaction)
        if refusable and self._waiting + job.size > max(MAX_WAITING, job.size):
            raise Retryable("the log is busy: too much waits to be written", retry_after=1.0)
        if refusable and self._log.used + self._waiting + job.size > self._max_size:
            raise Retryable("the log is full", retry_after=5.0)
        await self._submit(job)

    async def call(self, function: Callable[[], Any]) -> Any:
        """Run `function` in the thread, between transactions, and return its result."""
        return await self._submit(_Job(self._future(), call=function))

    async def sweep(self) -> None:
        """Apply the retention at once, rather than within the next seconds."""
        await self.call(self._sweep)

    def _future(self) -> asyncio.Future[Any]:
        if self._thread is None:
            raise Retryable("the bus is stopped")
        return asyncio.get_running_loop().create_future()

    async def _submit(self, job: _Job) -> Any:
        self._waiting += job.size
        self._jobs.put(job)
        return await job.future

    # In the thread

    def _run(self) -> None:
        going = True
        while going:
            jobs = self._next_jobs()
            going = None not in jobs
            self._execute([job for job in jobs if job is not None])
            self._keep_house()

    def _next_jobs(self) -> list[_Job | None]:
        """What waits, up to about `MAX_BATCH`; none comes last."""
        jobs: list[_Job | None] = []
        size = 0
        try:
            job = self._jobs.get(timeout=SWEEP_SECONDS)
            jobs.append(job)
            while job is not None and size < MAX_BATCH:
                size += job.size
                job = self._jobs.get_nowait()
                jobs.append(job)
        except queue.Empty:
            pass
        return jobs

    def _execute(self, jobs: list[_Job]) -> None:
        transactions = [job.transaction for job in jobs if job.transaction is not None]
        if transactions:
            result = _outcome(lambda: self._log.apply(transactions))
            # Before the answer, so that the next publish is measured against what this one took.
            # An error is no error of the callers; it comes again, and is logged, with the sweep.
            _outcome(self._log.settle)
            self._report([(job, *result) for job in jobs if job.transaction is not None])
        for job in jobs:
            if job.call is not None:
                self._report([(job, *_outcome(job.call))])

    def _keep_house(self) -> None:
        """What no caller waits for: it is tried again, and a change of its error is logged."""
        if time.monotonic() - self._swept >= SWEEP_SECONDS:
            _, error = _outcome(self._sweep)
            fault = None if error is None else str(error)
            if fault is not None and fault != self._fault:
                logger.error("the log cannot be kept in order: %s", fault)
            self._fault = fault

    def _sweep(self) -> None:
        self._swept = time.monotonic()
        self._log.settle()
        sweep(self._log, self._max_size, self._jobs.empty)

    def _report(self, results: list[tuple[_Job, Any, BaseException | None]]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._resolve, results)
        except RuntimeError:  # the loop was closed without `stop`: nobody waits any more
            logger.warning("the bus was not stopped before its event loop was closed")

    # In the event loop

    def _resolve(self, results: list[tuple[_Job, Any, BaseException | None]]) -> None:
        for job, value, error in results:
            self._waiting -= job.size
            if job.future.done():
                continue
            if error is None:
                job.future.set_result(value)
            else:
                job.future.set_exception(error)
        self._on_commit()


def _outcome(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return call(), None
    except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
        return None, error
