"""What a running agent tells of itself: `/api/status`, and the series of its stream."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from assay import __version__, series
from assay.bus.contract import Bus, TopicStats
from assay.bus.embedded import EmbeddedBus
from assay.catalogue import CASCADE
from assay.errors import AssayError
from assay.health import Check
from assay.telemetry import Trouble

_SERIES = ("app", "metric", "subject", "engine")
INTERVAL = 5.0
"""Seconds between readings of the stream."""


class Status:
    """Reads the stream's state every few seconds, and answers what the process is doing."""

    def __init__(
        self,
        bus: Bus,
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
        """Plain values: facts, then tables: `stages`, `topics`, `judge`, `rates`, `cascades`,
        `ledger`."""
        topics = await self._bus.topic_stats()
        samples = collect(self._registry)
        stages = {name: check() for name, check in self._checks.items()}
        return {
            "version": __version__,
            "pid": os.getpid(),
            "up_seconds": round(time.time() - self._started),
            "healthy": all(stage.ok for stage in stages.values()),
            **self._facts,
            "open_traces": total(samples, series.OPEN_TRACES),
            "late_spans": total(samples, series.LATE_SPANS),
            "spanless_traces": total(samples, series.SPANLESS_TRACES),
            "orphan_turns": total(samples, series.ORPHAN_TURNS),
            **await self._disk(),
            "stages": [{"stage": n, **msgspec.to_builtins(s)} for n, s in stages.items()],
            "topics": [
                {"topic": name, "records": topic.records, "oldest_seconds": _age(topic.oldest)}
                for name, topic in topics.items()
            ],
            "judge": judge(samples),
            "rates": rates(samples),
            "cascades": cascades(samples),
            "ledger": ledger(samples),
        }

    async def _watch(self) -> None:
        while True:
            try:
                self._expose(await self._bus.topic_stats())
                await self._disk()
                self._trouble.worked()
            except AssayError as error:
                self._trouble.failed(error)
            await asyncio.sleep(INTERVAL)

    async def _disk(self) -> dict[str, Any]:
        """What the stream takes where its log is this process's own."""
        if not isinstance(self._bus, EmbeddedBus):
            return {}
        stats = await self._bus.stats()
        for kind, count in (("used", stats.used), ("file", stats.file), ("max", stats.max_size)):
            self._bytes.labels(kind).set(count)
        return {"stream_bytes": stats.used, "stream_bytes_allowed": stats.max_size}

    def _expose(self, topics: Mapping[str, TopicStats]) -> None:
        for name, topic in topics.items():
            self._age.labels(name).set(_age(topic.oldest))
            for group, lag in topic.lag.items():
                self._lag.labels(name, group).set(lag)
            for group, lost in topic.lost.items():
                self._lost.labels(name, group).set(lost)


Samples = Mapping[str, Sequence[Sample]]
"""Samples by name."""


def collect(registry: CollectorRegistry) -> Samples:
    """What the registry exposes at this moment."""
    found: dict[str, list[Sample]] = {}
    for family in registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def total(samples: Samples, row: series.Row[Any]) -> int:
    """The sum over all labels."""
    return int(sum(sample.value for sample in samples.get(row.name, ())))


def judge(samples: Samples) -> list[dict[str, Any]]:
    """One row: the judge's calls by how they ended, what they cost, and the share of turns that its
    budget pays for; none where there is no judge."""
    calls = {
        sample.labels["result"]: int(sample.value)
        for sample in samples.get(series.JUDGE_REQUESTS.name, ())
        if sample.value
    }
    budget = [sample.value for sample in samples.get(series.JUDGE_RATIO.name, ())]
    if not calls and not budget:
        return []
    tokens = samples.get(series.JUDGE_TOKENS.name, ())
    cost = sum(sample.value for sample in samples.get(series.JUDGE_COST.name, ()))
    return [
        {
            "calls": calls,
            "in_flight": total(samples, series.JUDGE_IN_FLIGHT),
            **{f"{t.labels['kind']}_tokens": int(t.value) for t in tokens},
            "cost_usd": round(cost, 6),
            "budget_share": round(min(budget), 4) if budget else None,
        }
    ]


def rates(samples: Samples) -> list[dict[str, Any]]:
    """A row per series that was scored in the last hour: turns, mean, defect rate with interval."""
    shown: dict[tuple[str, ...], dict[str, Any]] = {}
    columns = {
        "turns": series.WINDOW_TURNS,
        "mean": series.SCORE_MEAN,
        "defect_rate": series.DEFECT_RATE,
        "lower": series.DEFECT_RATE_LOWER,
        "upper": series.DEFECT_RATE_UPPER,
    }
    for column, row in columns.items():
        for sample in samples.get(row.name, ()):
            if sample.labels["window"] == "1h":
                key = tuple(sample.labels[name] for name in series.SERIES_LABELS)
                if column == "turns" and sample.value:
                    shown[key] = {name: sample.labels[name] for name in _SERIES} | dict.fromkeys(
                        columns
                    )
                if key in shown:
                    shown[key][column] = round(sample.value, 4)
    return list(shown.values())


def cascades(samples: Samples) -> list[dict[str, Any]]:
    """A row per cascade of the last day: turns, how many of them went to the judge, the defect
    rate and half the width of its interval, and how many calls an even sample of the judge's would
    have needed for the same width, with the share of them that was saved; none for these two where
    the rate is not between 0 and 1."""
    day: dict[tuple[str, ...], dict[str, float]] = {}
    columns = {
        "turns": series.WINDOW_TURNS,
        "judged": series.CASCADE_JUDGED,
        "defect_rate": series.DEFECT_RATE,
        "upper": series.DEFECT_RATE_UPPER,
        "saved": series.JUDGE_CALLS_SAVED,
    }
    for column, row in columns.items():
        for sample in samples.get(row.name, ()):
            if sample.labels["window"] == "24h" and sample.labels["engine"] == CASCADE:
                key = tuple(sample.labels[name] for name in series.SERIES_LABELS)
                day.setdefault(key, {})[column] = sample.value
    rows = []
    for key, found in day.items():
        if not found.get("turns") or "upper" not in found:
            continue
        labels = dict(zip(series.SERIES_LABELS, key, strict=True))
        saved = found.get("saved")
        rows.append(
            {
                **{name: labels[name] for name in ("app", "metric", "subject")},
                "turns": int(found["turns"]),
                "judged": int(found["judged"]),
                "defect_rate": round(found["defect_rate"], 4),
                "half_width": round(found["upper"] - found["defect_rate"], 4),
                "even_sample": round(found["judged"] / (1 - saved)) if saved is not None else None,
                "saved": round(saved, 4) if saved is not None else None,
            }
        )
    return rows


def ledger(samples: Samples) -> list[dict[str, Any]]:
    """A row per app, metric, subject and engine: how its eligible turns ended, and the `missing`
    ones that are in no outcome yet. Turns that are still being scored are missing too."""
    eligible: Counter[str] = Counter()
    for sample in samples.get(series.TURNS.name, ()):
        eligible[sample.labels["app"]] += int(sample.value)
    outcomes: dict[tuple[str, ...], Counter[str]] = {}
    for sample in samples.get(series.EVALUATIONS.name, ()):
        key = tuple(sample.labels[name] for name in _SERIES)
        outcomes.setdefault(key, Counter())[sample.labels["outcome"]] += int(sample.value)
    return [
        dict(zip(_SERIES, key, strict=True))
        | {
            "turns": eligible[key[0]],
            "missing": eligible[key[0]] - found.total(),
            "outcomes": dict(sorted(found.items())),
        }
        for key, found in outcomes.items()
    ]


def _age(oldest_ms: int) -> float:
    return round(time.time() - oldest_ms / 1000, 1) if oldest_ms else 0.0
