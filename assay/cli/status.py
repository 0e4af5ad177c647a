"""What a running agent tells of itself: `/api/status`, and the series of its stream."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from assay import __version__, series
from assay.bus.embedded import EmbeddedBus, Stats
from assay.errors import AssayError
from assay.health import Check
from assay.telemetry import Trouble

INTERVAL = 5.0
"""Seconds between readings of the stream."""


class Status:
    """Reads the stream's state every few seconds, and answers what the process is doing."""

    def __init__(
        self,
        bus: EmbeddedBus,
        registry: CollectorRegistry,
        checks: Mapping[str, Check],
        facts: dict[str, str],
    ) -> None:
        """`facts` are shown as they are: addresses and folders."""
        self._bus = bus
        self._registry = registry
        self._checks = checks
        self._facts = facts
        self._started = time.time()
        self._bytes = series.instrument(registry, series.BUS_BYTES)
        self._lag = series.instrument(registry, series.BUS_LAG)
        self._age = series.instrument(registry, series.BUS_AGE)
        self._lost = series.instrument(registry, series.BUS_LOST)
        self._trouble = Trouble(logging.getLogger(__name__), "reading the stream's state")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="status")

    async def stop(self) -> None:
        """Safe twice and without start."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def now(self) -> dict[str, Any]:
        """Plain values: facts, then the tables `stages`, `topics` and `ledger`."""
        stats = await self._bus.stats()
        stages = {name: check() for name, check in self._checks.items()}
        return {
            "version": __version__,
            "pid": os.getpid(),
            "up_seconds": round(time.time() - self._started),
            "healthy": all(stage.ok for stage in stages.values()),
            **self._facts,
            "stream_bytes": stats.used,
            "stream_bytes_allowed": stats.max_size,
            "stages": [{"stage": n, **msgspec.to_builtins(s)} for n, s in stages.items()],
            "topics": [
                {"topic": name, "records": topic.records, "oldest_seconds": _age(topic.oldest)}
                for name, topic in stats.topics.items()
            ],
            "ledger": ledger(self._registry),
        }

    async def _watch(self) -> None:
        while True:
            try:
                self._expose(await self._bus.stats())
                self._trouble.worked()
            except AssayError as error:
                self._trouble.failed(error)
            await asyncio.sleep(INTERVAL)

    def _expose(self, stats: Stats) -> None:
        for kind, count in (("used", stats.used), ("file", stats.file), ("max", stats.max_size)):
            self._bytes.labels(kind).set(count)
        for name, topic in stats.topics.items():
            self._age.labels(name).set(_age(topic.oldest))
            for group, lag in topic.lag.items():
                self._lag.labels(name, group).set(lag)
            for group, lost in topic.lost.items():
                self._lost.labels(name, group).set(lost)


def ledger(registry: CollectorRegistry) -> list[dict[str, Any]]:
    """A row per app, metric, subject and engine: how its eligible turns ended, and the `missing`
    ones that are in no outcome yet. Turns that are still being scored are missing too."""
    eligible: dict[str, float] = {}
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for family in registry.collect():
        for sample in family.samples:
            label = sample.labels
            if sample.name == series.TURNS.name:
                eligible[label["app"]] = eligible.get(label["app"], 0) + sample.value
            elif sample.name == series.EVALUATIONS.name:
                key = tuple(label[name] for name in ("app", "metric", "subject", "engine"))
                row = rows.setdefault(key, {"total": 0})
                row["total"] += int(sample.value)
                row[label["outcome"]] = row.get(label["outcome"], 0) + int(sample.value)
    shown = []
    for (app, metric, subject, engine), row in rows.items():
        total = row.pop("total")
        turns = int(eligible.get(app, 0))
        shown.append(
            {
                "app": app,
                "metric": metric,
                "subject": subject,
                "engine": engine,
                "turns": turns,
                "missing": turns - total,
                "outcomes": dict(sorted(row.items())),
            }
        )
    return shown


def _age(oldest_ms: int) -> float:
    return round(time.time() - oldest_ms / 1000, 1) if oldest_ms else 0.0
