"""pydantic-ai: what a run adds to the GenAI conventions, in its versions 0.x to 2."""

from __future__ import annotations

from typing import Any

from collector.dialects.families import genai
from collector.dialects.messages import conversation
from collector.dialects.said import Said
from collector.dialects.step import Step, Told
from collector.dialects.values import count, decoded, dumped

_RUNS = ("pydantic_ai.all_messages", "all_messages")
KEYS = frozenset({*_RUNS, "events", "all_messages_events", "final_result"})
"""A span without any of these needs no `read`."""


def read(step: Step) -> None:
    """Read the messages of an agent run, its final result, and the old lists of events."""
    attributes = step.span.attributes
    run = next((attributes[key] for key in _RUNS if key in attributes), None)
    if run is not None and not step.said_in:
        step.said_in = conversation(run)
        step.history = count(attributes.get("pydantic_ai.new_message_index")) or 0
        step.mark("pydantic-ai")
    for key in ("events", "all_messages_events"):
        listed = decoded(attributes.get(key))
        if type(listed) is list and listed and not step.said_in:
            genai.events(step, [told for item in listed if (told := _event(item))])
    final = attributes.get("final_result")
    if final is not None and final != "":
        step.said_out = [Said("assistant", dumped(final))]
        step.kind = step.kind or "agent"
        step.mark("pydantic-ai")


def _event(item: Any) -> Told | None:
    if type(item) is not dict:
        return None
    name = item.get("event.name")
    if type(name) is not str:
        name = f"gen_ai.{item.get('role')}.message"
    if name == "gen_ai.choice":
        return Told(name, 0, {}, item)
    return Told(name, 0, {}, {key: value for key, value in item.items() if key != "event.name"})
