"""What a worker process does: encoded turns in, encoded scores out.

The plan is set once per process; after that only bytes go to and fro.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.connection import wait
from typing import NamedTuple

import msgspec

from assay.records import Score, Turn, TurnScores, decode_turn, encode
from scorers import deadline
from scorers.plan import Key, Plan
from scorers.scorer import Verdict
from scorers.scoring import judge_ahead, score_turn, to_score, turn_scores

NICENESS = 10
"""Of processes that work on the past: live scoring on the same machine goes first."""


YOUNG = 50_000
"""Objects of which so many more were made than ended before cycles are looked for: those of a batch
end with it, and looking at them again and again takes longer than making them."""


class Refused(NamedTuple):
    """A record that holds no turn."""

    reason: str
    """Closed: `unreadable`."""


Result = bytes | Refused
"""The encoded TurnScores of a record, or why there is none."""


class Job(NamedTuple):
    """What the scores of a batch say of where they come from."""

    plan: Plan
    group: str
    run: str
    niceness: int = 0
    """How far the processes stand back behind others of the machine, as of `nice`."""


_job: Job | None = None


def begin(job: Job) -> None:
    """Make this process ready for `score`. Interrupts are the parent's: it ends its processes, and
    when it is killed they end themselves."""
    global _job
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    deadline.install()
    os.nice(job.niceness)
    _job = job
    gc.freeze()
    gc.set_threshold(YOUNG)


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def ready() -> bool:
    """Answers once the process is ready."""
    return _job is not None


TOGETHER = 500_000
"""Bytes of turns that are scored together: what is read of their texts is remembered so long."""

Known = list[frozenset[Key]] | None
"""Per value of a batch the entries that it is not asked for; none: it is asked for all."""


def score(values: list[bytes], known: Known = None) -> list[Result]:
    """The results of a batch, in order, in a process that has begun."""
    if _job is None:
        raise RuntimeError("begin was not called in this process")
    return score_values(values, _job, known)


def score_values(values: list[bytes], job: Job, known: Known = None) -> list[Result]:
    """Encoded turns, in order, scored by the entries that are not `known` of them."""
    results: list[Result] = []
    part: list[_Asked] = []
    size = 0
    for value, own in zip(values, known or [frozenset()] * len(values), strict=True):
        if part and size + len(value) > TOGETHER:
            results += _scored(part, job)
            part, size = [], 0
        part.append((value, own))
        size += len(value)
    return results + _scored(part, job)


_Asked = tuple[bytes, frozenset[Key]]


def _scored(asked: list[_Asked], job: Job) -> list[Result]:
    turns = [read(value) for value, _ in asked]
    readable = [
        (turn, [entry for entry in job.plan.entries(turn.app) if entry.key not in own])
        for turn, (_, own) in zip(turns, asked, strict=True)
        if turn is not None
    ]
    ahead = zip(readable, judge_ahead(readable), strict=True)
    results: list[Result] = []
    for turn, (value, own) in zip(turns, asked, strict=True):
        if turn is None:
            results.append(Refused("unreadable"))
            continue
        (_, entries), found = next(ahead)
        now = time.time_ns()
        try:
            scores = score_turn(turn, entries, found, group=job.group, scored_at=now, run=job.run)
        except deadline.OutOfTime:
            # The alarm came in the few instructions between a scorer's end and its being noted.
            results.append(give_up(value, job, own))
        else:
            results.append(encoded(scores))
    return results


def give_up(value: bytes, job: Job, known: frozenset[Key] = frozenset()) -> Result:
    """The result of a turn that cannot be scored here: an error for every metric asked of it."""
    turn = read(value)
    if turn is None:
        return Refused("unreadable")
    lost = Verdict(outcome="error", outcome_reason="exception", reason="given up")
    entries = (entry for entry in job.plan.entries(turn.app) if entry.key not in known)
    scores = tuple(to_score(turn, entry, lost, run=job.run) for entry in entries)
    return encoded(
        turn_scores(turn, scores, group=job.group, scored_at=time.time_ns(), run=job.run)
    )


def read(value: bytes) -> Turn | None:
    """The turn that `value` encodes; none when it encodes none."""
    try:
        return decode_turn(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def encoded(found: TurnScores) -> bytes:
    """The record's JSON; without reasons and details where those cannot be written as such."""
    try:
        return encode(found)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        bare = tuple(_without_free_text(score) for score in found.scores)
        return encode(msgspec.structs.replace(found, scores=bare))


def _without_free_text(score: Score) -> Score:
    return msgspec.structs.replace(score, reason=None, details={})
