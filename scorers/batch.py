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
from scorers.scoring import score_turn, to_score, turn_scores

NICENESS = 10
"""Of processes that work on the past: live scoring on the same machine goes first."""


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


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def ready() -> bool:
    """Answers once the process is ready."""
    return _job is not None


Known = list[frozenset[Key]] | None
"""Per value of a batch the entries that it is not asked for; none: it is asked for all."""


def score(values: list[bytes], known: Known = None) -> list[Result]:
    """The results of a batch, in order, in a process that has begun."""
    if _job is None:
        raise RuntimeError("begin was not called in this process")
    if known is None:
        return [score_value(value, _job) for value in values]
    return [score_value(value, _job, own) for value, own in zip(values, known, strict=True)]


def score_value(value: bytes, job: Job, known: frozenset[Key] = frozenset()) -> Result:
    """One encoded turn, scored by the entries that are not `known`."""
    turn = read(value)
    if turn is None:
        return Refused("unreadable")
    entries = job.plan.entries(turn.app)
    if known:
        entries = tuple(entry for entry in entries if entry.key not in known)
    try:
        found = score_turn(turn, entries, group=job.group, scored_at=time.time_ns(), run=job.run)
    except deadline.OutOfTime:
        # The alarm came in the few instructions between a scorer's end and its being noted.
        return give_up(value, job, known)
    return encoded(found)


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
