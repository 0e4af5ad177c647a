"""Trajectories: all calls of a turn against a list of reference calls.

Each reference call is matched at most once, so that neither extra nor repeated calls help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

import msgspec

from assay.records import ToolCall, Turn
from scorers.computed.calls import failed, identities, identity
from scorers.scorer import Function, Verdict, scored, scorer, skipped

Calls = list[Hashable]


class TrajectoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    parameters: bool = True
    """Compare names and parameters; false: names only."""
    forgive_retries: bool = False
    """Leave out a failed call that was made again with the same arguments."""


def _without_retries(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    later = Counter(map(identity, calls))
    kept = []
    for call in calls:
        key = identity(call)
        later[key] -= 1
        if not (failed(call) and later[key]):
            kept.append(call)
    return tuple(kept)


def _compare(options: TrajectoryOptions, measure: Callable[[Calls, Calls], float]) -> Function:
    def score(turn: Turn) -> Verdict:
        calls = turn.tool_calls
        if options.forgive_retries:
            calls = _without_retries(calls)
        made = identities(calls, parameters=options.parameters)
        expected = identities(turn.reference_tool_calls or (), parameters=options.parameters)
        if not made and not expected:
            return skipped("reference_tool_calls empty")
        return scored(measure(made, expected), calls=len(made), expected=len(expected))

    return score


def in_order(made: Calls, expected: Calls) -> bool:
    """Whether the expected calls occur among those made, in their order."""
    remaining = iter(made)
    return all(call in remaining for call in expected)


def shared(made: Calls, expected: Calls) -> int:
    """How many calls both have, each counted as often as both have it."""
    return (Counter(made) & Counter(expected)).total()


def precision(made: Calls, expected: Calls) -> float:
    return shared(made, expected) / len(made) if made else 0.0


def recall(made: Calls, expected: Calls) -> float:
    return shared(made, expected) / len(expected) if expected else 0.0


def f1(made: Calls, expected: Calls) -> float:
    return 2 * shared(made, expected) / (len(made) + len(expected))


@scorer("trajectory_exact_match", version="1", options=TrajectoryOptions)
def trajectory_exact_match(options: TrajectoryOptions) -> Function:
    return _compare(options, lambda made, expected: made == expected)


@scorer("trajectory_in_order_match", version="1", options=TrajectoryOptions)
def trajectory_in_order_match(options: TrajectoryOptions) -> Function:
    return _compare(options, in_order)


@scorer("trajectory_any_order_match", version="1", options=TrajectoryOptions)
def trajectory_any_order_match(options: TrajectoryOptions) -> Function:
    return _compare(options, lambda made, expected: shared(made, expected) == len(expected))


@scorer("trajectory_precision", version="1", options=TrajectoryOptions)
def trajectory_precision(options: TrajectoryOptions) -> Function:
    return _compare(options, precision)


@scorer("trajectory_recall", version="1", options=TrajectoryOptions)
def trajectory_recall(options: TrajectoryOptions) -> Function:
    return _compare(options, recall)


@scorer("trajectory_f1", version="1", options=TrajectoryOptions)
def trajectory_f1(options: TrajectoryOptions) -> Function:
    return _compare(options, f1)
