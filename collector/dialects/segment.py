"""Where one turn ends and the next begins inside a unit."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import msgspec

from assay.records import Feedback
from collector.dialects.step import Step
from collector.dialects.tree import Unit


class Segment(msgspec.Struct):
    """One turn's part of a unit."""

    unit: Unit
    steps: list[Step]
    """All steps of the turn, by start."""
    calls: list[Step]
    """Its model calls, each once, by start."""
    tops: list[Step]
    """Agents, chains and apps above the calls, topmost first: whose input and output are the
    turn's own."""
    whole: bool
    """The turn is the whole unit."""
    feedback: list[Feedback]
    """What was judged of its steps; of the steps above several turns, what was judged goes to the
    last turn."""


def segments(unit: Unit) -> list[Segment]:
    """The turns of a unit, by start.

    A unit is one turn, unless nothing above its branches says what was asked and
    - a branch's first model call looks back on the previous answer and on a later question, or
    - its branches are runs of one agent, one after the other, that carry no content.
    A branch is what hangs beneath the lowest step that holds all model calls and agents.
    """
    counted = unit.calls
    root = unit.root
    if len(counted) < 2 or (root.kind in ("agent", "chain") and root.question() is not None):
        agents = sum(1 for step in unit.steps if step.kind == "agent")
        if counted or agents < 2:
            return [_whole(unit)]
    working = counted + [step for step in unit.steps if step.kind == "agent"]
    paths = {id(step): [step, *unit.above(step)] for step in working}
    branches = _branches(unit, working, paths)
    starts = [0]
    if len(branches) > 1:
        shared = _shared(unit, working, paths)
        if not any(step.question() for step in shared):
            starts = _starts(branches, counted, paths)
    if len(starts) == 1:
        return [_whole(unit)]
    edges = [branches[index].span.start for index in starts]
    parts: list[list[Step]] = [[] for _ in edges]
    common = {id(step) for step in _shared(unit, working, paths)}
    place = _placer(unit, branches, starts)
    for step in unit.steps:
        if id(step) not in common:
            parts[place(step, edges)].append(step)
    found = []
    for part in parts:
        inside = {id(step) for step in part}
        own = [call for call in counted if id(call) in inside]
        found.append(Segment(unit, part, own, _tops(unit, own, part), False, _judged(part)))
    found[-1].feedback += [
        judged for step in unit.steps if id(step) in common for judged in step.feedback
    ]
    return found


def _whole(unit: Unit) -> Segment:
    tops = _tops(unit, unit.calls, unit.steps)
    return Segment(unit, unit.steps, unit.calls, tops, True, _judged(unit.steps))


def _judged(steps: list[Step]) -> list[Feedback]:
    return [judged for step in steps for judged in step.feedback]


def _shared(unit: Unit, working: list[Step], paths: dict[int, list[Step]]) -> list[Step]:
    """The steps above every call and agent that is not above another."""
    ends = _ends(working, paths)
    if not ends:
        return []
    common = set.intersection(*({id(step) for step in paths[id(end)][1:]} for end in ends))
    return [step for step in unit.steps if id(step) in common]


def _ends(working: list[Step], paths: dict[int, list[Step]]) -> list[Step]:
    above = {id(step) for path in paths.values() for step in path[1:]}
    return [step for step in working if id(step) not in above]


def _branches(unit: Unit, working: list[Step], paths: dict[int, list[Step]]) -> list[Step]:
    """The topmost steps below the shared ones that hold a call or an agent, by start."""
    common = {id(step) for step in _shared(unit, working, paths)}
    found: dict[int, Step] = {}
    for end in _ends(working, paths):
        top = end
        for step in paths[id(end)]:
            if id(step) in common:
                break
            top = step
        found[id(top)] = top
    return sorted(found.values(), key=lambda step: (step.span.start, step.span.span_id))


def _starts(branches: list[Step], counted: list[Step], paths: dict[int, list[Step]]) -> list[int]:
    """Indexes of the branches that begin a turn."""
    of_branch = {
        id(branch): [call for call in counted if any(s is branch for s in paths[id(call)])]
        for branch in branches
    }
    if _bare_runs(branches, of_branch):
        return list(range(len(branches)))
    starts = [0]
    answer: str | None = None
    question: str | None = None
    spoke = False
    for index, branch in enumerate(branches):
        own = of_branch[id(branch)]
        comparable = answer is not None or not spoke
        if index and own and comparable and _looks_back(own[0], answer, question):
            starts.append(index)
        if own and (heard := own[0].question()) is not None:
            question = heard.text
        for step in (*own, branch):
            spoke = spoke or bool(step.said_out)
            said = step.answer()
            if said is not None and said.text:
                answer = said.text
    return starts


_REMARK = re.compile(
    r"\s*(?:<\w*(?:tool|observation|result)|(?:observation|tool|function|result|output|error|"
    r"validation|invalid|correct|try again|please (?:fix|correct|retry|try)|"
    r"(?:the|your) (?:previous|last|answer|response))\b|[{\[])",
    re.IGNORECASE,
)
"""How an app's own loop, not a person, speaks as the user: tool results and complaints."""


def _looks_back(call: Step, answer: str | None, question: str | None) -> bool:
    """Whether a call's input holds the previous answer, or question, as said earlier, and a
    person's question after it. Where no answer was exported, any after the question is it."""
    told = asked = False
    for said in call.said_in:
        if not said.text:
            continue
        if said.role == "assistant":
            told = told or (asked if answer is None else said.text.strip() == answer.strip())
        elif said.role == "user":
            if told and not _REMARK.match(said.text):
                return True
            asked = asked or said.text == question
            told = told or (asked and answer is not None)
    return False


def _bare_runs(branches: list[Step], of_branch: dict[int, list[Step]]) -> bool:
    """Runs of one agent in sequence, of which no content was exported."""
    names = {branch.agent for branch in branches}
    if len(names) != 1 or None in names or any(b.kind != "agent" for b in branches):
        return False
    if any(b.said_in or b.said_out for b in branches):
        return False
    if any(call.said_in or call.said_out for own in of_branch.values() for call in own):
        return False
    pairs = pairwise(branches)
    return all(before.span.end <= after.span.start for before, after in pairs)


def _placer(
    unit: Unit, branches: list[Step], starts: list[int]
) -> Callable[[Step, list[int]], int]:
    """A function from a step to the index of its segment: by branch, else by time."""
    segment_of = {}
    for index, branch in enumerate(branches):
        segment_of[id(branch)] = sum(1 for start in starts if start <= index) - 1

    def place(step: Step, edges: list[int]) -> int:
        for holder in (step, *unit.above(step)):
            if id(holder) in segment_of:
                return segment_of[id(holder)]
        return max(0, sum(1 for edge in edges if edge <= step.span.start) - 1)

    return place


def _tops(unit: Unit, counted: list[Step], steps: list[Step]) -> list[Step]:
    """The steps whose own input and output may speak for the turn, topmost first.

    With model calls: those above one of them, and the root. Without: every agent and chain.
    """
    inside = {id(step) for step in steps}
    if counted:
        held = {id(step): step for call in counted for step in unit.above(call)}
        if id(unit.root) in inside:
            held[id(unit.root)] = unit.root
        candidates = [step for step in held.values() if id(step) in inside]
    else:
        candidates = steps
    spoken = {id(call) for call in counted}
    return sorted(
        (step for step in candidates if step.kind in ("agent", "chain") and id(step) not in spoken),
        key=lambda s: (unit.depth[s.span.span_id], s.span.start, s.span.span_id),
    )
