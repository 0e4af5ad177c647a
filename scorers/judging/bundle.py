"""Several metrics of a turn in one call: one set of evidence, one section per metric.

Each metric keeps its rubric, scale and form of answer, and its part of the reply is read as if it
had come alone; a part that cannot be read is that metric's error and nobody else's. The cost is
divided evenly, since it cannot be told apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from assay.records import JudgeUsage
from scorers.judging.answer import RULES, key_words
from scorers.judging.asking import Asker, Evidence, Found
from scorers.judging.endpoint import Choice
from scorers.judging.prompt import Prompt
from scorers.judging.reader import Reading, Unreadable, parse_json, read_object
from scorers.judging.tokens import count_tokens

ROOM_EACH = 400
"""Tokens of an answer for each metric after the first."""


class Bundle:
    """Prompts that are asked together. Their inputs are shown once, in order of first use."""

    def __init__(self, prompts: Sequence[Prompt]) -> None:
        self.prompts = list(prompts)
        self.inputs = list(dict.fromkeys(i for p in self.prompts for i in p.inputs))
        self._system = "\n\n".join((RULES, _INTRODUCTION, *map(_section, self.prompts), _CLOSING))
        self._fixed_tokens = count_tokens(self._system)
        self._schema = {
            "type": "object",
            "properties": {prompt.name: prompt.schema for prompt in self.prompts},
            "required": [prompt.name for prompt in self.prompts],
            "additionalProperties": False,
        }
        self.digest = hashlib.blake2b(self._system.encode(), digest_size=6).hexdigest()

    def messages(self, blocks: dict[str, str]) -> list[dict[str, str]]:
        """The request's messages."""
        shown = [blocks[name] for name in self.inputs if name in blocks]
        return [
            {"role": "system", "content": self._system},
            {"role": "user", "content": "\n\n".join((*shown, _ORDER))},
        ]

    async def ask(
        self, asker: Asker, evidence: Evidence, *, model: str, samples: int, room: int
    ) -> Found:
        """Readings that each are a list with one entry per prompt: a Reading, or an Unreadable."""
        return await asker.converse(
            {name: list(evidence[name]) for name in self.inputs if name in evidence},
            self.messages,
            fixed_tokens=self._fixed_tokens,
            schema=self._schema,
            name="evaluation",
            read_choice=self._read,
            model=model,
            samples=samples,
            room=room + ROOM_EACH * (len(self.prompts) - 1),
        )

    def _read(self, choice: Choice) -> list[Reading | Unreadable]:
        answer = parse_json(choice.text)
        if not isinstance(answer, dict):
            raise Unreadable("unparsable", "not an object")
        sections = {key.strip().lower(): value for key, value in answer.items()}
        readings = [_read_section(sections.get(prompt.name), prompt) for prompt in self.prompts]
        if not any(isinstance(reading, Reading) for reading in readings):
            raise Unreadable("unparsable", "no section could be read")
        return readings


def share_of(usage: JudgeUsage, position: int, members: int) -> JudgeUsage:
    """The part of `usage` that the member at `position` carries; the parts add up to the whole."""

    def part(whole: int) -> int:
        return whole // members + (position < whole % members)

    return msgspec.structs.replace(
        usage,
        input_tokens=part(usage.input_tokens),
        output_tokens=part(usage.output_tokens),
        cached_tokens=part(usage.cached_tokens),
        calls=part(usage.calls),
        cost=None if usage.cost is None else usage.cost / members,
    )


_INTRODUCTION = (
    "You apply several rubrics to the same evidence. Treat each as if it were the only one: a "
    "grade in one must not colour another, and evidence that a rubric does not speak of does not "
    "count for it."
)
_CLOSING = (
    "Answer with one JSON object and nothing before or after it. It has one key per rubric, named "
    "like it and in the order above; each value is an object of the form that the rubric gives."
)
_ORDER = "Apply every rubric, one after the other."


def _section(prompt: Prompt) -> str:
    return (
        f'# Rubric "{prompt.name}"\n\n{prompt.rubric()}\n\n'
        f'The keys of the object "{prompt.name}", in this order:\n{key_words(prompt.file)}'
    )


def _read_section(found: object, prompt: Prompt) -> Reading | Unreadable:
    try:
        return read_object(found, prompt, {})
    except Unreadable as error:
        return error
