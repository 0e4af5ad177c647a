"""The one rule of precedence: where the query, the response and the documents of a turn stand.

The query is, in this order:
1. the last user message, or the named question, of the topmost agent, chain or app span that has
   one and stands above the first model call;
2. a variable of the prompt template that is named like a question;
3. the query that a retriever was given, where the first model call's prompt contains it;
4. the last user message of the first model call.
A text of 1 or 4 that is a prompt stuffed with context gives what follows its `Question:` line. An
empty text counts only where no later source has one. Without any of these: what a retriever was
asked, else what a tool that returned documents was.

The response is the last assistant message, or the named answer, of the topmost such span above the
last model call, else of that call, else of a tool by which agents say their final answer.

The documents are those of retrievers (of the last reranker, where there is one), else those that a
tool returned or a chain was given, else those in the first model call's prompt.
"""

from __future__ import annotations

from assay.records import Document
from collector.dialects.documents import documents, joined, looks_retrieved
from collector.dialects.segment import Segment
from collector.dialects.speech import unmarked
from collector.dialects.step import Step
from collector.dialects.stuffed import context_in, documents_in, question_in
from collector.dialects.toolcalls import FINAL
from collector.dialects.values import dumped

_ASKED = ("question", "query", "user_query", "user_input", "user_question", "input", "q")
_CONTEXT = ("context", "contexts", "documents", "docs", "context_str", "sources", "passages")


def query(segment: Segment) -> tuple[Step | None, str | None]:
    """The step that tells the question, and the question."""
    empty: tuple[Step | None, str | None] = (None, None)
    for top in _above(segment, first=True):
        if (said := top.question()) is not None:
            if text := said.shown():
                return top, _bare(text)
            empty = (top, "")
    for call in segment.calls:
        said = call.question()
        if said is None:
            continue
        text = said.shown()
        if not text:
            empty = (call, "")
            continue
        heard = "\n".join(one.text for one in call.said_in if one.text)
        for name in _ASKED:
            value = call.variables.get(name)
            if value and value in heard:
                return call, value
        for step in segment.steps:
            sought = step.sought if step.kind == "retriever" else None
            if sought and len(sought) < len(text) and sought in text:
                return call, sought
        return call, _bare(text)
    if empty[0] is not None:
        return empty
    for step in segment.steps:
        if step.kind == "retriever" and step.sought:
            return step, step.sought
    for step in segment.steps:
        if step.kind == "tool" and type(step.arguments) is dict and looks_retrieved(step.result):
            for name in _ASKED:
                if type(value := step.arguments.get(name)) is str:
                    return step, value
    return None, None


def _above(segment: Segment, *, first: bool) -> list[Step]:
    """The spans that may speak for the turn, topmost first: those above its first model call, who
    were asked, or above its last one, who answer. Without calls: the earliest, or the latest."""
    tops = segment.tops
    if len(tops) < 2:
        return tops
    unit = segment.unit
    if not segment.calls:
        if first:
            return tops
        return sorted(tops, key=lambda s: (unit.depth[s.span.span_id], -s.span.start))
    holders = {id(step) for step in unit.above(segment.calls[0 if first else -1])}
    return [top for top in tops if id(top) in holders or top is unit.root]


def _bare(text: str) -> str:
    return question_in(text) or unmarked(text, asked=True)


def response(segment: Segment) -> tuple[Step | None, str | None]:
    """The step that gives the answer, and the answer."""
    empty: tuple[Step | None, str | None] = (None, None)
    for step in (*_above(segment, first=False), *segment.calls[-1:]):
        said = step.answer() if step.kind != "model" or step.error is None else None
        if said is not None:
            text = said.shown()
            if step.error is not None and any(text == one.error for one in segment.steps):
                continue  # an agent that gives the failure for its answer
            if text:
                return step, unmarked(text, asked=False)
            empty = (step, "")
    for step in segment.steps:
        if step.kind == "tool" and step.tool in FINAL and step.error is None:
            value = step.arguments.get("answer") if type(step.arguments) is dict else None
            value = step.result if value is None else value
            if value is not None:
                return step, dumped(value)
    if empty[0] is None:
        for top in segment.tops[:1]:
            if top.rest is not None and top.said_in:
                return top, top.rest
    return empty


def context(segment: Segment) -> list[Document]:
    """What was retrieved, in rank order; without it, what a search tool returned, else what the
    first prompt holds."""
    retrieved = [s for s in segment.steps if s.kind == "retriever" and s.documents]
    reranked = [step for step in retrieved if step.reranked]
    found: dict[tuple[str | None, str], Document] = {}
    for step in reranked[-1:] or retrieved:
        for document in step.documents:
            found.setdefault((document.id, document.content), document)
    ranked = list(found.values())
    if not ranked:
        for step in segment.steps:
            if step.kind == "tool" and looks_retrieved(step.result):
                ranked += documents(step.result)
    if not ranked:
        ranked = next((s.documents for s in segment.steps if s.kind == "chain" and s.documents), [])
    if not ranked or any(not document.content for document in ranked):
        told = _told_documents(segment)
        ranked = joined(ranked, told) if ranked else told
    return ranked


def _told_documents(segment: Segment) -> list[Document]:
    """Documents inside the first model call's prompt or the variables that filled it."""
    for call in segment.calls[:1]:
        said = call.question()
        if said is not None and said.text:
            stuffed = "[[ ## context" in said.text or question_in(said.text) is not None
            if stuffed and (found := documents_in(said.text)):
                return found
        for name in _CONTEXT:
            if context := call.variables.get(name):
                return documents_in(context) or [
                    Document(content=part) for part in context.split("\n") if part.strip()
                ]
        texts = [call.system] if call.system else []
        texts += [said.text for said in call.said_in if said.role == "system" and said.text]
        return next((found for text in texts if (found := context_in(text))), [])
    return []
