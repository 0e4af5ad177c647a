"""Scores and turns that the exporters' tests are made of."""

from __future__ import annotations

import time
from typing import Any

from assay.bus import topics
from assay.bus.contract import Outgoing
from assay.records import Score, Turn, TurnScores, encode

SECOND = 10**9
NOON = 1796040000 // 3600 * 3600
"""An hour's beginning, Unix seconds."""


def score(metric: str = "groundedness", engine: str = "local", **fields: Any) -> Score:
    return Score(metric=metric, engine=engine, **fields)


def turn_scores(index: int, *scores: Score, at: float | None = None, **fields: Any) -> TurnScores:
    """The scores of turn `index`, scored at `at` (Unix seconds; none: now)."""
    trace = f"{index:032x}"
    when = int((time.time() if at is None else at) * SECOND)
    base: dict[str, Any] = {
        "subject_id": f"{trace}-0",
        "turn_id": f"{trace}-0",
        "trace_id": trace,
        "app": "shop",
        "environment": "test",
        "event_time": when - 5 * SECOND,
        "arrived_at": when - 2 * SECOND,
        "scored_at": when,
        "scores": scores or (score(value=1.0, passed=True),),
    }
    return TurnScores(**(base | fields))


def turn(index: int, **fields: Any) -> Turn:
    trace = f"{index:032x}"
    now = time.time_ns()
    base: dict[str, Any] = {
        "turn_id": f"{trace}-0",
        "trace_id": trace,
        "app": "shop",
        "query": f"question {index}",
        "response": "answer",
        "started_at": now - 2 * SECOND,
        "ended_at": now - SECOND,
        "arrived_at": now,
    }
    return Turn(**(base | fields))


def message(record: Turn | TurnScores) -> Outgoing:
    topic = topics.TURNS if isinstance(record, Turn) else topics.SCORES
    return Outgoing(topic, encode(record), key=record.trace_id.encode(), headers={"schema": "1"})
