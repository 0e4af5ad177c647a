"""Labels by people: rows as users write them, and their way into the store."""

from __future__ import annotations

import datetime
import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from assay.catalogue import METRICS, canonical
from assay.errors import retrying
from assay.metric import Metric
from assay.records import Label
from assay.store import Source, Store
from assay.store_rows import EPOCH, MICROSECOND

_PASS = {"pass": True, "passed": True, "good": True, "true": True, "yes": True, "1": True}
_FAIL = {"fail": False, "failed": False, "bad": False, "false": False, "no": False, "0": False}
_WORDS = _PASS | _FAIL


def label_of(row: Mapping[str, Any], *, now: int | None = None) -> Label:
    """The label of a row {turn_id, metric, value or passed, who, comment, labelled_at}.

    `passed` is pass or fail in any of their words; without it the metric's threshold decides from
    `value`, which is a number or such a word. Raises ValueError for what is missing or wrong.
    """
    turn_id = _text(row, "turn_id")
    metric = _text(row, "metric")
    if not turn_id or not metric:
        raise ValueError("turn_id and metric are needed")
    known = METRICS.get(canonical(metric) or "")
    value, passed = row.get("value"), row.get("passed")
    verdict = _verdict(passed) if passed not in (None, "") else None
    number: float | None = None
    if value not in (None, ""):
        number = _number(value)
        if number is None and verdict is None:
            verdict = _verdict(value)
    if verdict is None and number is not None and known is not None:
        verdict = _by_threshold(number, known)
    if verdict is None and number is None:
        raise ValueError("value or passed is needed")
    who = _text(row, "who")
    name = known.name if known is not None else metric
    parts = (turn_id, name, who, repr(number), repr(verdict))
    return Label(
        label_id=hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest(),
        turn_id=turn_id,
        metric=name,
        subject=known.subject if known is not None else "response",
        value=number,
        passed=verdict,
        who=who,
        comment=_text(row, "comment") or None,
        labelled_at=_time(row.get("labelled_at")) or now or time.time_ns(),
    )


async def add_labels(store: Store, labels: Sequence[Label]) -> int:
    """Store the labels that are not there yet; how many those were. Raises Retryable when the store
    stays away."""
    wanted = {label.label_id: label for label in labels}

    async def append() -> int | None:
        known = await _known(store, {label.turn_id for label in labels})
        new = [label for label_id, label in wanted.items() if label_id not in known]
        position = await store.position("labels", _SOURCE)
        source = Source(_SOURCE, [position] * len(new), new, position + 1)
        # Another writer may take the position in between: ours are then taken for its.
        taken = new and (await store.append("labels", [source])).replayed
        return None if taken else len(new)

    while True:
        added = await retrying(append, deadline=_DEADLINE)
        if added is not None:
            return added


_SOURCE = "labels"
_DEADLINE = 60.0
"""Seconds for which a store that is away or busy is tried."""
_ASKED = 1000
"""Turns of one query."""


async def _known(store: Store, turn_ids: set[str]) -> set[str]:
    found: set[str] = set()
    wanted = sorted(turn_ids)
    for start in range(0, len(wanted), _ASKED):
        names = ", ".join(_quoted(name) for name in wanted[start : start + _ASKED])
        sql = f"SELECT label_id FROM labels WHERE turn_id IN ({names})"  # noqa: S608 - quoted
        async for rows in store.stream(sql):
            found.update(row["label_id"] for row in rows)
    return found


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value).strip()


def _verdict(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _WORDS:
        raise ValueError("passed: allowed: pass or fail, true or false, yes or no, 1 or 0")
    return _WORDS[word]


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _by_threshold(value: float, metric: Metric) -> bool | None:
    threshold = metric.threshold
    if metric.direction == "true_is_bad":
        return not value
    if threshold is None:
        return None
    match metric.direction:
        case "higher":
            return value >= threshold
        case "lower":
            return value <= threshold
        case _:
            return abs(value) <= threshold


def _time(value: Any) -> int:
    """Nanoseconds since the epoch of ISO text or a number of seconds; 0 for nothing."""
    if value in (None, ""):
        return 0
    number = _number(value)
    if number is not None:
        return int(number * 1e9)
    try:
        when = datetime.datetime.fromisoformat(str(value)).astimezone(datetime.UTC)
    except ValueError:
        raise ValueError("labelled_at: allowed: ISO 8601, or seconds since 1970") from None
    return (when - EPOCH) // MICROSECOND * 1000
