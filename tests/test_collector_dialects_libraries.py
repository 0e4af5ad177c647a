"""Spans recorded in memory from real libraries with stand-in models, beside the OTLP captures.

llama-index-core and smolagents through OpenInference, LangChain through OpenLLMetry 0.40 and
through Langfuse's callback, pydantic-ai 0.8.1 and semantic-kernel by themselves, the last with its
content on log records.
"""

import gzip
import json
import random
from pathlib import Path

import msgspec
import pytest

from collector import dialects
from collector.spans import Event, Log, Span

RECORDED = json.loads(
    gzip.decompress((Path(__file__).parent / "data/captures/libraries.json.gz").read_bytes())
)
ORDER = "Where is my order ORD-1042?"
SHIPPED = "It has shipped."
SHIP = "When do orders ship?"
ANSWER = "The answer is 42."


def _span(row):
    return Span(
        trace_id=row["trace"],
        span_id=row["id"],
        parent_id=row["parent"],
        name=row["name"],
        start=row["start"],
        end=row["end"],
        failed=row["failed"],
        status_message=row["msg"],
        attributes=row["attrs"],
        scope=row["scope"],
        events=tuple(Event(*event) for event in row["events"]),
    )


def _log(row):
    attributes = row["attrs"]
    return Log(
        trace_id=row["trace"],
        span_id=row["id"],
        time=row["time"],
        event_name=attributes.get("event.name", ""),
        body=row["body"],
        attributes=attributes,
    )


def _recorded(name):
    held = RECORDED[name]
    return [_span(row) for row in held["spans"]], [_log(row) for row in held["logs"]]


def _turn(name):
    (turn,) = dialects.read(*_recorded(name)).turns
    return turn


@pytest.mark.parametrize(
    ("name", "query", "response", "system"),
    [
        ("llama-index rag", SHIP, ANSWER, None),
        ("llama-index chat", SHIP, ANSWER, "Use the context"),
        ("llama-index model", SHIP, ANSWER, "Be brief"),
        ("pydantic-ai 0.8 tool", ORDER, SHIPPED, "Be brief."),
        ("pydantic-ai 0.8 history", "How bright?", "Yes.", "Be brief."),
        ("smolagents tool", ORDER, SHIPPED, None),
        ("semantic-kernel tool", ORDER, SHIPPED, "Be brief."),
        ("langchain openllmetry 0.40 rag", SHIP, "In two days.", "Be brief."),
        ("langchain openllmetry 0.40 tool", ORDER, SHIPPED, "Be brief."),
        ("langchain langfuse rag", SHIP, "In two days.", "Be brief."),
        ("langchain langfuse tool", ORDER, SHIPPED, "Be brief."),
    ],
)
def test_the_exchange_is_read(name, query, response, system):
    """One turn each: the bare question, the final answer, the system prompt."""
    turn = _turn(name)
    assert (turn.query, turn.response, turn.error) == (query, response, None)
    assert (turn.system or "").startswith(system or "")
    assert turn.system is None or system is not None


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("pydantic-ai 0.8 tool", "get_order_status"),
        ("smolagents tool", "get_order_status"),
        ("semantic-kernel tool", "Shop-get_order_status"),
        ("langchain openllmetry 0.40 tool", "get_order_status"),
        ("langchain langfuse tool", "get_order_status"),
    ],
)
def test_the_tool_call_is_read_once(name, tool):
    """Arguments and result decoded; the answer's own tool and the loop around are none."""
    (call,) = _turn(name).tool_calls
    assert (call.name, call.arguments) == (tool, {"order_id": "ORD-1042"})
    assert call.result == {"status": "shipped"}


def test_nested_retrievals_give_each_document_once():
    """The inner retriever only prints its nodes; the outer one has them in clean keys."""
    for name in ("llama-index rag", "llama-index chat"):
        (document,) = _turn(name).documents
        assert (document.title, document.content) == ("Orders", "Orders ship in two days.")
        assert document.score == 1.0


def test_documents_stand_in_a_retriever_or_in_what_a_chain_was_given():
    """Langfuse has a retriever; OpenLLMetry 0.40 only the step that joins the documents."""
    for name in ("langchain openllmetry 0.40 rag", "langchain langfuse rag"):
        (document,) = _turn(name).documents
        assert (document.id, document.title) == ("d1", "Orders")
        assert document.content == "Orders ship in two days."


def test_history_and_tokens():
    """Earlier messages are history; tokens are those of the model calls, not of the agent too."""
    turn = _turn("pydantic-ai 0.8 history")
    assert [(m.role, m.content) for m in turn.messages] == [
        ("user", "Do you sell lamps?"),
        ("assistant", "Yes."),
    ]
    for name in ("smolagents tool", "semantic-kernel tool"):
        usage = _turn(name).usage
        assert (usage.input_tokens, usage.output_tokens) == (20, 10)


@pytest.mark.parametrize("name", RECORDED)
def test_any_order_gives_the_same(name):
    """Shuffled spans and records give the same turn."""
    spans, logs = _recorded(name)
    once = msgspec.json.encode(dialects.read(spans, logs))
    random.Random(name).shuffle(spans)
    random.Random(name).shuffle(logs)
    assert msgspec.json.encode(dialects.read(spans, logs)) == once
