"""From a segment of steps to its turn.

Query, response and documents follow `precedence`. All else comes from the topmost span that has it,
then from the model calls in order; but tokens are summed over the model calls alone, each counted
once, and only where none has any is a topmost span's own sum taken.
"""

from __future__ import annotations

from typing import Any

from assay.records import Message, Turn, Usage, turn_id_of
from collector.dialects import precedence
from collector.dialects.segment import Segment
from collector.dialects.span_reader import layout_of
from collector.dialects.step import Step
from collector.dialects.toolcalls import MAX_CALLS, tool_calls
from collector.dialects.torn import MARK


def compose(segment: Segment, ordinal: int) -> Turn | None:
    """The turn of a segment, or None where it holds none: see `is_turn`."""
    unit = segment.unit
    asked, query = precedence.query(segment)
    said, response = precedence.response(segment)
    if not is_turn(segment, query, response):
        return None
    steps = [*segment.tops, *segment.calls]
    if segment.whole and all(step is not unit.root for step in steps):
        steps.insert(0, unit.root)
    held = tool_calls(segment)
    system, history = _system(segment), _history(segment, asked)
    documents = tuple(precedence.context(segment))
    texts = [message.content for message in history] + [found.content for found in documents]
    last = segment.calls[-1] if segment.calls else None
    started, ended = _span_of_time(segment)
    resource = unit.root.span.resource
    model = said if said is not None and said.model else last
    first = segment.calls[0] if segment.calls else None
    return Turn(
        turn_id=turn_id_of(unit.root.span.trace_id, ordinal),
        trace_id=unit.root.span.trace_id,
        span_id=(said or last or steps[0]).span.span_id,
        response_id=(last.response_id if last else None) or _one(steps, "response_id"),
        conversation_id=_one([*steps, *segment.steps, *unit.steps], "conversation"),
        user_id=_one([*steps, *segment.steps, *unit.steps], "user"),
        ordinal=ordinal,
        app=_text(resource, "service.name") or "unknown",
        environment=(
            _text(resource, "deployment.environment.name")
            or _text(resource, "deployment.environment")
            or _text(unit.root.span.attributes, "langfuse.environment")
        ),
        version=_text(resource, "service.version"),
        operation=_one(steps, "agent") or _one(steps, "prompt") or unit.root.span.name,
        prompt_version=_one(steps, "prompt_version") or "",
        model=_model(model) or _model(first) or _one(steps, "model") or "",
        provider=_one([*segment.calls, *steps], "provider") or "",
        query=query,
        response=response,
        system=system,
        messages=history,
        documents=documents,
        tool_definitions=_definitions(steps, segment),
        tool_calls=held,
        response_format=_one([*segment.calls[::-1], *segment.tops], "response_format"),
        feedback=tuple(segment.feedback),
        usage=_usage(segment),
        started_at=started,
        ended_at=ended,
        time_to_first_token=last.first_token if last else None,
        finish_reason=(last.finish if last else None) or _one(segment.tops, "finish"),
        error=_error(segment, response),
        dialect=layout_of(said or asked or last or steps[0]),
        orphan=unit.orphan,
        truncated=len(held) == MAX_CALLS
        or any(text.endswith(MARK) for text in (query, response, system, *texts) if text),
    )


_SAY_STOP = ("google", "gemini", "gcp.", "vertex", "ollama")
"""What is found in the names of model services that say `stop` of a call that asks for tools."""


def is_turn(segment: Segment, query: str | None, response: str | None) -> bool:
    """Whether a segment holds a turn.

    It does with a model call or an agent's run, with a question and an answer, or with a tool that
    a model asked for. It does not
    - with embeddings, retrievals, decorated tools or other work alone;
    - when nothing but model calls is there and the last one ends asking for tools, whatever it says
      beside, or was streamed and its answer told elsewhere: the turn goes on in another trace,
      whose messages repeat this step;
    - when nothing but a provider SDK's own spans is there;
    - for an agent's run without content that a message bus delivered: other traces carry the
      messages.
    """
    calls = segment.calls
    if calls:
        alone = all(step.kind in ("model", "other") for step in segment.steps)
        if alone and all(step.by_sdk() for step in calls):
            return False
        goes_on = _asks_tools(calls[-1]) or streamed_elsewhere(calls[-1])
        return not (alone and goes_on and calls[-1].error is None and not segment.tops)
    if query is not None and response is not None:
        return True
    if any(step.kind == "agent" for step in segment.steps):
        delivered = any("messaging.operation" in step.span.attributes for step in segment.steps)
        return response is not None or not delivered
    return any(
        step.kind == "tool" and step.span.attributes.get("gen_ai.operation.name") == "execute_tool"
        for step in segment.steps
    )


def _asks_tools(call: Step) -> bool:
    """Whether a call ends asking for tools."""
    if call.finish == "tool_calls":
        return True
    says_stop = any(name in (call.provider or "") for name in _SAY_STOP)
    return says_stop and any(said.calls for said in call.said_out[-1:])


def streamed_elsewhere(call: Step) -> bool:
    """Whether Logfire tells of a call's answer in a span of its own, which then repeats the
    call."""
    attributes = call.span.attributes
    if attributes.get("logfire.span_type") != "span" or "gen_ai.response.id" in attributes:
        return False
    return bool(call.said_in) and not call.said_out and call.error is None


def _system(segment: Segment) -> str | None:
    """The system prompt, once, although it may stand in instructions and in messages."""
    for step in (*segment.tops, *segment.calls):
        if step.system:
            return step.system
        texts = [said.text for said in step.said_in if said.role == "system" and said.text]
        if texts:
            return "\n".join(dict.fromkeys(texts))
    return None


def _history(segment: Segment, asked: Step | None) -> tuple[Message, ...]:
    """What was said before the question, as the first model call saw it."""
    for step in (*segment.calls[:1], *([asked] if asked is not None else ())):
        said = step.said_in
        last = next((i for i in range(len(said) - 1, -1, -1) if _asks(said[i])), 0)
        if step.said_in:
            return tuple(one.message() for one in said[:last] if one.role != "system")
    return ()


def _asks(said: Any) -> bool:
    return said.role == "user" and (said.text is not None or bool(said.media))


def _definitions(steps: list[Step], segment: Segment) -> tuple[Any, ...]:
    found: dict[str, Any] = {}
    for step in (*segment.calls, *steps, *segment.steps):
        for tool in step.definitions:
            known = found.get(tool.name)
            if known is None or (known.parameters is None and tool.parameters is not None):
                found[tool.name] = tool
    return tuple(found.values())


def _usage(segment: Segment) -> Usage:
    """Each model call's tokens once."""
    counted = [step for step in segment.calls if _spent(step)]
    if not counted:
        counted = [step for step in segment.tops if _spent(step)][:1]
    costs = [step for step in segment.calls if step.cost is not None] or segment.tops[:1]
    return Usage(
        input_tokens=_sum(counted, "input_tokens"),
        output_tokens=_sum(counted, "output_tokens"),
        cached_tokens=_sum(counted, "cached_tokens"),
        embedding_tokens=_sum(_embeddings(segment), "input_tokens"),
        cost=_sum(costs, "cost"),
    )


def _embeddings(segment: Segment) -> list[Step]:
    """The embedding calls that tell their tokens, without what is wrapped around one."""
    told = [s for s in segment.steps if s.kind == "embedding" and s.input_tokens is not None]
    if len(told) < 2:
        return told
    around = {id(outer) for step in told for outer in segment.unit.above(step)}
    return [step for step in told if id(step) not in around]


def _spent(step: Step) -> bool:
    return step.input_tokens is not None or step.output_tokens is not None


def _sum(steps: list[Step], name: str) -> Any:
    values = [value for step in steps if (value := getattr(step, name)) is not None]
    return sum(values) if values else None


def _error(segment: Segment, response: str | None) -> str | None:
    """Why the turn failed: its root did, or something did and no answer came."""
    root = segment.unit.root
    if segment.whole and root.error is not None and (not segment.unit.orphan or response is None):
        return root.error
    if response is not None:
        return None
    failed = [s for s in (*segment.tops, *reversed(segment.calls)) if s.error is not None]
    return failed[0].error if failed else None


def _span_of_time(segment: Segment) -> tuple[int, int]:
    root = segment.unit.root
    if segment.whole and not segment.unit.orphan:
        return root.span.start, root.span.end
    return (
        min(step.span.start for step in segment.steps),
        max(step.span.end for step in segment.steps),
    )


def _model(step: Step | None) -> str | None:
    return (step.model or step.response_model) if step is not None else None


def _one(steps: list[Step], name: str) -> Any:
    for step in steps:
        if (value := getattr(step, name)) is not None:
            return value
    return None


def _text(attributes: dict[str, Any], key: str) -> str:
    value = attributes.get(key)
    return value if type(value) is str else ""
