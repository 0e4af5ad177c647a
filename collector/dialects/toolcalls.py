"""The tool calls of a turn: what the model asked for, joined with what ran and what came back."""

from __future__ import annotations

from typing import Any

import msgspec

from assay.records import ToolCall
from collector.dialects.said import Said
from collector.dialects.segment import Segment
from collector.dialects.step import Step
from collector.dialects.values import decoded

_MERGED = "(merged tools)"
"""Name of a span over tools that ran side by side."""
FINAL = frozenset({"final_answer", "finish"})
"""Tools by which an agent says its answer: no calls of the turn."""
_NONE = {*FINAL, ""}


MAX_CALLS = 1000
"""A turn that has so many calls is cut there."""


class _Call(msgspec.Struct):
    name: str
    """Empty while only a result is known."""
    id: str | None
    arguments: Any
    at: int
    """When it was asked for or ran."""
    result: Any = None
    error: str | None = None
    ran: bool = False
    answered: bool = False


def tool_calls(segment: Segment) -> tuple[ToolCall, ...]:
    """The calls of a turn in the order of their start, each once.

    A call is known from a model's output, from the messages after the question, or from a tool
    span. They meet by call id; where a side has none, by name and arguments, else by name. A tool
    span's result goes before one from messages, a value before a text. A result whose call was not
    exported is a call of the tool that it names, or of the only one that was offered.
    """
    asked: list[_Call] = []
    for call in segment.calls:
        _from_messages(_after_question(call), call.span.start, asked)
        for said in call.said_out:
            for new in said.calls:
                if new.id is None or all(known.id != new.id for known in asked):
                    _new(new, call.span.end, asked)
            if said.role == "tool":
                _answer(said, call.span.end, asked)
    for top in segment.tops:
        _from_messages(_after_question(top), top.span.start, asked)
        _from_messages(top.said_out, top.span.end, asked)
    for step in segment.steps:
        if step.kind == "tool" and step.tool != _MERGED:
            _run(step, asked)
        elif step.kind == "chain" and any(said.role == "tool" for said in step.said_out):
            _from_messages(step.said_out, step.span.start, asked)
    offered = {tool.name for call in segment.calls for tool in call.definitions}
    only = offered.pop() if len(offered) == 1 else ""
    asked.sort(key=lambda call: call.at)
    return tuple(
        ToolCall(
            name=call.name or only,
            id=call.id,
            arguments=call.arguments,
            result=call.result,
            error=call.error,
        )
        for call in asked
        if (call.name or only) not in _NONE
    )


def _after_question(step: Step) -> list[Said]:
    """The sayings of the input that belong to the turn: those after the last question."""
    for index in range(len(step.said_in) - 1, -1, -1):
        said = step.said_in[index]
        if said.role == "user" and (said.text is not None or said.media):
            return step.said_in[index + 1 :]
    return step.said_in[step.history :]


def _from_messages(said: list[Said], at: int, asked: list[_Call]) -> None:
    """Calls and results as a conversation repeats them: a call that is known is no new one."""
    taken: set[int] = set()
    for one in said:
        for call in one.calls:
            free = [c for c in asked if id(c) not in taken]
            known = next((c for c in free if call.id is not None and c.id == call.id), None)
            if known is None:
                same = (c for c in free if c.name == call.name and c.arguments == call.arguments)
                known = next(same, None)
            if known is None:
                known = _new(call, at, asked)
            taken.add(id(known))
        if one.role == "tool":
            _answer(one, at, asked)


def _new(call: ToolCall, at: int, asked: list[_Call]) -> _Call:
    made = _Call(call.name, call.id, call.arguments, at)
    _keep(made, asked)
    return made


def _keep(made: _Call, asked: list[_Call]) -> None:
    if len(asked) < MAX_CALLS:
        asked.append(made)


def _answer(said: Said, at: int, asked: list[_Call]) -> None:
    """Give a result to its call; a result whose call was not exported makes one."""
    call = None
    if said.answers is not None:
        call = next((other for other in asked if other.id == said.answers), None)
    if call is None:
        waiting = [c for c in asked if not c.answered and said.name in (None, "", c.name)]
        call = waiting[0] if waiting else None
    if call is None:
        if any(c.result == said.result and said.name in (None, c.name) for c in asked):
            return
        call = _Call(said.name or "", said.answers, None, at)
        _keep(call, asked)
    if call.answered or (said.result is None and said.text is None and not said.failed):
        return
    call.answered = True
    call.result = said.result
    if said.failed:
        call.error = said.text or "error"


def _poorer(told: Any, known: Any) -> bool:
    """Whether a tool span tells less of a result than is known: a text, which may be an object's
    repr, beside a value; or the same in a wrapper (MCP's `{"result": ...}`)."""
    if type(told) is dict and known is not None:
        return len(told) == 1 and decoded(next(iter(told.values()))) == known
    return type(told) is str and type(known) in (dict, list)


def _run(step: Step, asked: list[_Call]) -> None:
    name = step.tool or step.span.name
    free = [call for call in asked if not call.ran]
    call = next((c for c in free if step.tool_id is not None and c.id == step.tool_id), None)
    if call is None:
        named = [c for c in free if c.name in (name, "")]
        same = [c for c in named if c.arguments == step.arguments]
        call = next(iter(same or named), None)
    if call is None:
        if any(c.ran and c.id == step.tool_id and step.tool_id is not None for c in asked):
            return  # a second span of the same run
        call = _Call(name, step.tool_id, step.arguments, step.span.start)
        _keep(call, asked)
    call.ran = True
    call.name = call.name or name
    call.at = step.span.start
    if type(call.arguments) is not dict and step.arguments is not None:
        call.arguments = step.arguments
    if step.result is not None and not _poorer(step.result, call.result):
        call.result = step.result
    if step.error is not None:
        call.error = step.error
