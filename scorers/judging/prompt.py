"""A judge metric's prompt: the file's shape, its checks, and the request that it gives.

A file is YAML. Its messages are Jinja templates, rendered once in a sandbox. They may use the
prompt's inputs (in user messages only: judged text never stands where instructions do), and

- `rules`: how evidence is marked and judged, the same in every prompt;
- `scale`: the scale, level by level;
- `answer`: the form of the answer;
- `subject`: `response` or `query`, for prompts that judge either.

An input's placeholder is its fenced text, or empty when the input is absent.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec
from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from assay.records import Direction, Subject
from scorers.judging import answer
from scorers.judging.fence import fenced, mark_for
from scorers.judging.scale import Note, Scale, scale_faults
from scorers.judging.tokens import count_tokens

INPUTS = (
    "query",
    "response",
    "context",
    "ground_truth",
    "history",
    "system",
    "tool_definitions",
    "tool_calls",
    "baseline",
    "conversation",
    "criteria",
    "claims",
    "first",
    "second",
)
"""What a prompt may ask for; see `scorers.judging.evidence` for what each holds."""
FRAME = ("rules", "scale", "answer", "subject")
_PROBE = "probe {{ 7 * 7 }} {% if %} %s {0} }}"


class Inputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which inputs a prompt needs, and which it uses where they are there."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


class MessageTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of the request."""

    role: Literal["system", "user"]
    content: str


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One point of a rubric metric, and how much it counts."""

    text: str
    weight: float = 1.0


class PromptFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands in a prompt file."""

    name: str
    """The file's name without `.yaml`."""
    version: str
    """Raised by whoever changes the words; the digest tells versions apart all the same."""
    metric: str = ""
    """The metric that this answers; empty: the prompt's own name."""
    family: str
    """quality, safety, tools, conversation, or part: a step of another metric."""
    question: str
    """One line: what is asked about the evidence."""
    subjects: tuple[Subject, ...] = ("response",)
    """With `query` in it the same rubric also judges the query alone."""
    inputs: Inputs
    absent: dict[str, str] = {}
    """Optional input to the prompt that is used instead when that input is absent."""
    scale: Scale
    direction: Direction = "higher"
    threshold: float | None = None
    not_applicable: str = ""
    """When the judge may say that the metric does not apply; empty: it always applies."""
    notes: dict[str, Note] = {}
    """Findings that are asked for before the value and go to the score's details."""
    criteria: tuple[Criterion, ...] = ()
    """Of a rubric metric: what the input `criteria` holds."""
    messages: tuple[MessageTemplate, ...]


class Prompt:
    """A checked prompt for one subject, ready to be rendered."""

    def __init__(self, file: PromptFile, subject: Subject, source: str) -> None:
        self.file = file
        self.name = file.name
        self.metric = file.metric or file.name
        self.subject = subject
        self.source = source
        """The file's text, as it is archived."""
        self.scale = file.scale
        self.schema = answer.schema_of(file)
        alone = subject == "query" and len(file.subjects) > 1
        self.required = ("query",) if alone else file.inputs.required
        """Each an input, or alternatives `a|b` of which one must be there."""
        self.optional = () if alone else file.inputs.optional
        self.inputs = tuple("|".join((*self.required, *self.optional)).split("|"))
        """Every input that may stand in the request."""
        self._frame = {
            "rules": answer.RULES,
            "scale": answer.scale_words(file),
            "answer": answer.answer_words(file),
            "subject": "user's query" if subject == "query" else "assistant's response",
        }
        self._templates = [(m.role, _compiled(m.content)) for m in file.messages]
        nothing = dict.fromkeys(INPUTS, "")
        self._system = [
            template.render(nothing | self._frame) if role == "system" else ""
            for role, template in self._templates
        ]
        self.digest = hashlib.blake2b(
            msgspec.json.encode(
                [self.messages({}), file.messages, self.schema, subject, file.criteria]
            ),
            digest_size=6,
        ).hexdigest()
        """Identifies the words and the answer's form: what an endpoint is sent, evidence aside."""

    def messages(self, blocks: Mapping[str, str]) -> list[dict[str, str]]:
        """The request's messages, `blocks` being the fenced text of each input that is there."""
        values = dict.fromkeys(INPUTS, "") | self._frame
        values.update((name, blocks[name]) for name in self.inputs if name in blocks)
        return [
            {"role": role, "content": ready or template.render(values).strip()}
            for ready, (role, template) in zip(self._system, self._templates, strict=True)
        ]

    @functools.cached_property
    def fixed_tokens(self) -> int:
        """Tokens of a request without evidence."""
        return sum(count_tokens(message["content"]) for message in self.messages({}))

    def rubric(self) -> str:
        """The system text without rules and answer form: a part of a shared call."""
        values = dict.fromkeys(INPUTS, "") | self._frame | {"rules": "", "answer": ""}
        return "\n\n".join(
            template.render(values).strip()
            for role, template in self._templates
            if role == "system"
        )


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox without loaders: a template reaches nothing but the values it is given."""

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        return False


_ENVIRONMENT = _Environment(
    undefined=StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
)


@functools.lru_cache(maxsize=1024)
def _compiled(content: str) -> Template:
    return _ENVIRONMENT.from_string(content)


def prompt_faults(file: PromptFile) -> list[str]:
    """What is wrong with a file, one line each; empty when it can be used."""
    faults = scale_faults(file.scale, file.threshold, file.direction)
    named = tuple("|".join((*file.inputs.required, *file.inputs.optional)).split("|"))
    faults += [
        f"inputs: {name}: allowed: {', '.join(INPUTS)}" for name in named if name not in INPUTS
    ]
    faults += [f"inputs: {name}: named twice" for name in set(named) if named.count(name) > 1]
    faults += [
        f"absent.{name}: allowed: an optional input of the prompt"
        for name in file.absent
        if name not in file.inputs.optional
    ]
    for name, note in file.notes.items():
        if note.over and note.over not in named:
            faults.append(f"notes.{name}.over: allowed: an input of the prompt")
    if file.scale.over and file.scale.over not in named:
        faults.append("scale.over: allowed: an input of the prompt")
    if file.criteria and "criteria" not in named:
        faults.append("criteria: the input `criteria` is needed to show them")
    faults += [
        f"criteria.{number}: needs a text and a weight above 0"
        for number, criterion in enumerate(file.criteria)
        if not criterion.text.strip() or not 0 < criterion.weight < float("inf")
    ]
    roles = [message.role for message in file.messages]
    if not roles or roles[0] != "system" or roles[-1] != "user":
        faults.append("messages: allowed: a system message first and a user message last")
    used: set[str] = set()
    for index, message in enumerate(file.messages):
        key = f"messages.{index}"
        try:
            names = meta.find_undeclared_variables(_ENVIRONMENT.parse(message.content))
        except TemplateError as error:
            faults.append(f"{key}: not a template: {error}")
            continue
        allowed = set(FRAME) | (set(named) if message.role == "user" else set())
        faults += [
            f"{key}: placeholder {name}: allowed: {', '.join(sorted(allowed))}"
            for name in sorted(names - allowed)
        ]
        used |= names
    faults += [f"messages: input {name} is used nowhere" for name in named if name not in used]
    faults += [f"messages: {{{{ {n} }}}} is missing" for n in ("rules", "answer") if n not in used]
    return faults or _render_faults(file)


def _render_faults(file: PromptFile) -> list[str]:
    """Faults that show only in a rendered request: a cut, repeated or altered block."""
    named = tuple("|".join((*file.inputs.required, *file.inputs.optional)).split("|"))
    try:
        prompts = [Prompt(file, subject, "") for subject in file.subjects]
        for given in (named, named[: len(file.inputs.required)]):
            mark = mark_for([_PROBE])
            blocks = {name: fenced(name, mark, _PROBE) for name in given}
            for prompt in prompts:
                sent = "\n".join(m["content"] for m in prompt.messages(blocks))
                for name, block in blocks.items():
                    if name in prompt.inputs and sent.count(block) != 1:
                        return [f"messages: {name} must stand in the request whole, exactly once"]
    except Exception as error:  # noqa: BLE001 - a template can raise whatever it calls for
        return [f"messages: cannot be rendered: {type(error).__name__}: {error}"]
    return []
