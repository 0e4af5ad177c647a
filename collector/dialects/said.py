"""What one party of a conversation said: the form that all shapes of messages are read into."""

from __future__ import annotations

from typing import Any

import msgspec

from assay.records import Message, ToolCall

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
    "chatbot": "assistant",
    "bot": "assistant",
    "agent": "assistant",
    "tool": "tool",
    "function": "tool",
    "ipython": "tool",
    "tool-call": "assistant",
    "tool-response": "tool",
    "tool_response": "tool",
}


class Said(msgspec.Struct):
    """One saying of a conversation."""

    role: str
    """system, user, assistant or tool."""
    text: str | None = None
    """None when no text was exported; empty when it was empty."""
    media: tuple[str, ...] = ()
    """Placeholders of what was said in images, audio or files."""
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    """Of a tool result: the id of its call."""
    name: str | None = None
    """Of a tool result: the tool."""
    result: Any = None
    """Of a tool result: the decoded value."""
    failed: bool = False
    """Of a tool result: the tool reported an error."""
    finish: str | None = None

    def shown(self) -> str | None:
        """The text; where there is none, the placeholders of the rest."""
        return self.text if self.text or not self.media else "\n".join(self.media)

    def message(self) -> Message:
        """As a record; content that was not exported is empty."""
        texts = [self.text] if self.text else []
        return Message(
            role=self.role,
            content="\n".join((*texts, *self.media)),
            tool_calls=self.calls,
            tool_call_id=self.answers,
        )
