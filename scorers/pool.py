"""CPU work on all cores: worker processes that each take one batch at a time.

A process that dies costs its batch an attempt and nobody else anything: the batch is tried again in
a new process, then halved until the turn that kills is alone, and that turn is given up.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from assay.cores import cores
from scorers import batch
from scorers.batch import Job, Known, Result

ATTEMPTS = 2
"""Processes that a single turn may end before it is given up."""


class ScorerPool:
    """`processes` workers (default: one for each core that we may use) for one job."""

    def __init__(
        self,
        job: Job,
        *,
        processes: int | None = None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self.processes = processes or cores()
        self._job = job
        self._on_death = on_death
        self._idle: asyncio.Queue[ProcessPoolExecutor] = asyncio.Queue()
        self._workers: set[ProcessPoolExecutor] = set()

    def start(self) -> None:
        """Start the processes; `score` waits until one is ready."""
        for _ in range(self.processes):
            self._idle.put_nowait(self._worker())

    async def stop(self) -> None:
        """End the processes after the batch that each is at. Safe twice and without start."""
        workers, self._workers = self._workers, set()
        await asyncio.gather(
            *(asyncio.to_thread(worker.shutdown, cancel_futures=True) for worker in workers)
        )

    async def score(self, values: list[bytes], known: Known = None) -> list[Result]:
        """The results of a batch, in order; values are not asked for what is `known` of them."""
        for _ in range(ATTEMPTS if len(values) == 1 else 1):
            worker = await self._idle.get()
            try:
                found = await asyncio.wrap_future(worker.submit(batch.score, values, known))
            except BrokenProcessPool:
                self._on_death()
                worker = self._replace(worker)
            else:
                return found
            finally:
                self._idle.put_nowait(worker)
        if len(values) == 1:
            return [batch.give_up(values[0], self._job, *(known or ()))]
        middle = len(values) // 2
        first, second = (known[:middle], known[middle:]) if known is not None else (None, None)
        return await self.score(values[:middle], first) + await self.score(values[middle:], second)

    def _worker(self) -> ProcessPoolExecutor:
        # spawn: the parent has threads and open connections that a fork would copy.
        worker = ProcessPoolExecutor(
            1,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=batch.begin,
            initargs=(self._job,),
        )
        worker.submit(batch.ready)
        self._workers.add(worker)
        return worker

    def _replace(self, worker: ProcessPoolExecutor) -> ProcessPoolExecutor:
        self._workers.discard(worker)
        worker.shutdown(wait=False)
        return self._worker()
