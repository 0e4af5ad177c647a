"""The one intermediate form: what a span says, whatever wrote it.

Readers of key families fill a `Step`; a field that an earlier reader filled is left alone, so the
order of readers is the precedence among layouts on one span.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from assay.records import Document, Feedback, ToolDefinition
from collector.dialects.said import Said
from collector.spans import Span

Kind = Literal["", "model", "tool", "retriever", "agent", "chain", "embedding", "other"]


_SDK_SCOPES = frozenset(
    {"com.anthropic.sdk.python", "com.anthropic.sdk.typescript", "mistralai_sdk_tracer"}
)


class Told(msgspec.Struct):
    """A span event or a log record of a span: both carry content in the same shapes."""

    name: str
    time: int
    attributes: dict[str, Any]
    body: Any = None


class Step(msgspec.Struct):
    """One span, read."""

    span: Span
    kind: Kind = ""
    """Empty until a reader knows."""
    layouts: list[str] = []
    """The readers that found content, in order of precedence."""
    said_in: list[Said] = []
    """Input: the conversation, oldest first. Of a tool: unused."""
    said_out: list[Said] = []
    """Output: of a model its answer, of an agent all it said, the answer last."""
    history: int = 0
    """How many sayings of `said_in` belong to earlier turns by the library's own word."""
    system: str | None = None
    definitions: list[ToolDefinition] = []
    tool: str | None = None
    """Name of the tool that ran."""
    tool_id: str | None = None
    arguments: Any = None
    result: Any = None
    rest: str | None = None
    """An output that names no answer, as text."""
    documents: list[Document] = []
    reranked: bool = False
    """The documents come from a reranker."""
    sought: str | None = None
    """The query that a retriever was given."""
    variables: dict[str, str] = {}
    """Variables that filled the prompt template."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None
    model: str | None = None
    response_model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    finish: str | None = None
    first_token: float | None = None
    """Seconds from the span's start."""
    response_format: Any = None
    agent: str | None = None
    prompt: str | None = None
    prompt_version: str | None = None
    conversation: str | None = None
    user: str | None = None
    error: str | None = None
    """Why it failed; None when it did not."""
    feedback: list[Feedback] = []
    invalid: frozenset[str] = frozenset()
    """Names of fields that stood there with a value that cannot be: a negative number of tokens, a
    NaN. Such values are left out."""

    def mark(self, layout: str) -> None:
        """Note that `layout` gave content."""
        if layout not in self.layouts:
            self.layouts.append(layout)

    def question(self) -> Said | None:
        """The last saying of the user in the input."""
        for said in reversed(self.said_in):
            if said.role == "user" and (said.text is not None or said.media):
                return said
        return None

    def answer(self) -> Said | None:
        """The last saying of the assistant in the output."""
        for said in reversed(self.said_out):
            if said.role == "assistant" and (said.text is not None or said.media):
                return said
        return None

    def by_sdk(self) -> bool:
        """Whether a provider's SDK made the span of its request, without content: whatever
        instrumentation records the call doubles it."""
        return self.span.scope in _SDK_SCOPES and not (self.said_in or self.said_out)

    def readable(self) -> bool:
        """Whether both what went in and, unless it failed, what came out could be read."""
        heard = any(said.text is not None or said.media for said in self.said_in)
        spoke = any(said.text is not None or said.media or said.calls for said in self.said_out)
        return heard and (spoke or self.error is not None)
