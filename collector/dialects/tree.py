"""The steps of a trace as trees: what stands under one root, and which model calls count."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from collector.dialects.step import Step

_FILLED = (
    "said_in",
    "said_out",
    "system",
    "definitions",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cost",
    "model",
    "response_model",
    "provider",
    "response_id",
    "finish",
    "first_token",
    "response_format",
    "variables",
    "prompt",
    "prompt_version",
)


class Unit(msgspec.Struct):
    """What belongs to one root: usually the whole trace."""

    steps: list[Step]
    """By start, then span id."""
    root: Step
    """The true root; for an orphan the topmost earliest step."""
    orphan: bool
    depth: dict[str, int]
    parents: dict[str, Step]
    """Span id to the step above it, as far as it is here."""
    calls: list[Step] = []
    """The model calls, each counted once, by start."""

    def above(self, step: Step) -> Iterable[Step]:
        """The steps above `step`, nearest first."""
        seen = {step.span.span_id}
        parent = self.parents.get(step.span.span_id)
        while parent is not None and parent.span.span_id not in seen:
            seen.add(parent.span.span_id)
            yield parent
            parent = self.parents.get(parent.span.span_id)


def units(steps: list[Step]) -> list[Unit]:
    """Steps of one trace, one per span, grouped by root.

    Steps whose parent never came belong to the one true root; where there are several roots, to the
    latest that had begun; where there is none, all steps are one orphan unit. The next run of what
    is above it is a root of its own: see `_ran_again`.
    """
    by_id = {step.span.span_id: step for step in steps}
    parents = {
        step.span.span_id: by_id[step.span.parent_id]
        for step in steps
        if step.span.parent_id in by_id and step.span.parent_id != step.span.span_id
    }
    again = {name for name, parent in parents.items() if _ran_again(by_id[name], parent)}
    for name in again:
        del parents[name]
    _join_streamed(steps, parents)
    tops: dict[str, Step] = {}
    depth: dict[str, int] = {}
    for step in steps:
        path = [step]
        passed = {step.span.span_id}
        while (last := path[-1].span.span_id) not in tops:
            parent = parents.get(last)
            if parent is None or parent.span.span_id in passed:
                parents.pop(last, None)  # the end of the path, or a ring of parents: cut it here
                tops[last], depth[last] = path[-1], 0
                break
            passed.add(parent.span.span_id)
            path.append(parent)
        top, level = tops[path[-1].span.span_id], depth[path[-1].span.span_id]
        for below in reversed(path[:-1]):
            level += 1
            tops[below.span.span_id], depth[below.span.span_id] = top, level
    roots = [
        step
        for step in steps
        if (not step.span.parent_id or step.span.span_id in again)
        and step.span.span_id not in parents
    ]
    if len(roots) < 2:
        highest = roots[0] if roots else min(steps, key=lambda s: depth[s.span.span_id])
        return [_counted(Unit(steps, highest, not roots, depth, parents))]
    groups: dict[str, list[Step]] = {root.span.span_id: [] for root in roots}
    for step in steps:
        top = tops[step.span.span_id]
        if top.span.span_id not in groups:
            begun = [root for root in roots if root.span.start <= top.span.start]
            top = begun[-1] if begun else roots[0]
        groups[top.span.span_id].append(step)
    return [
        _counted(Unit(groups[root.span.span_id], root, False, depth, parents)) for root in roots
    ]


def _ran_again(step: Step, parent: Step) -> bool:
    """Whether a step is the next run of its parent, asked anew after the parent had ended: what
    comes of an instrumentation that does not leave the context of a span that it ended."""
    mine, above = step.span, parent.span
    if mine.name != above.name or mine.scope != above.scope or not 0 < above.end <= mine.start:
        return False
    return step.kind != "model" and step.question() is not None and parent.question() is not None


def _join_streamed(steps: list[Step], parents: dict[str, Step]) -> None:
    """Put the answer of a streamed call beneath the call: Logfire writes it as a span of its own,
    beside the call's, once the stream has ended."""
    for step in steps:
        if step.kind != "model" or step.span.attributes.get("logfire.span_type") != "log":
            continue
        for call in steps:
            beside = call.kind == "model" and call.span.parent_id == step.span.parent_id
            if beside and not call.said_out and call is not step and call.said_in == step.said_in:
                parents[step.span.span_id] = call
                break


def _counted(unit: Unit) -> Unit:
    """Find the model calls that count.

    A model span over another is the wrapper of the same call: one of them counts, the innermost
    that has content, and takes from the other what it lacks; the rest become `other`. A model span
    over several calls is no call: it becomes a chain. Spans with one response id are one call.
    """
    models = [step for step in unit.steps if step.kind == "model"]
    if len(models) < 2:
        unit.calls = models
        return unit
    wrappers = {id(step): [s for s in unit.above(step) if s.kind == "model"] for step in models}
    covered = {id(wrapper) for chain in wrappers.values() for wrapper in chain}
    leaves = [step for step in models if id(step) not in covered]
    below: dict[int, int] = {}
    for leaf in leaves:
        for wrapper in wrappers[id(leaf)]:
            below[id(wrapper)] = below.get(id(wrapper), 0) + 1
    by_response: dict[str, Step] = {}
    for leaf in leaves:
        call = leaf
        for wrapper in wrappers[id(leaf)]:
            if below[id(wrapper)] == 1:
                call = _merged(call, wrapper)
            else:
                wrapper.kind = "chain"
        if call.response_id and call.response_id in by_response:
            _merged(by_response[call.response_id], call)
            continue
        if call.response_id:
            by_response[call.response_id] = call
        unit.calls.append(call)
    unit.calls.sort(key=lambda step: (step.span.start, step.span.span_id))
    return unit


def _merged(inner: Step, outer: Step) -> Step:
    """Two readings of one call in one: the inner, unless it alone has no content."""
    bare = not (inner.said_in or inner.said_out)
    kept, other = (outer, inner) if bare and (outer.said_in or outer.said_out) else (inner, outer)
    if kept is outer:
        for name in ("input_tokens", "output_tokens", "cached_tokens"):
            if getattr(inner, name) is not None:
                setattr(outer, name, getattr(inner, name))
    for name in _FILLED:
        held = getattr(kept, name)
        if held is None or held == [] or held == {}:
            setattr(kept, name, getattr(other, name))
    if kept.error is None and not kept.said_out:
        kept.error = other.error
    other.kind = "other"
    return kept
