"""Recordings of further real libraries, older and newer than the captures, by the same truth.

The same help-desk app ran against stand-in providers (OpenAI, Anthropic, Gemini, Bedrock, Mistral,
Groq, Azure, Ollama, Cohere and Together) on loopback. Which of the truth each library exported
stands in `expected.json.gz`; it was found by a plain search for the text, not by the code under
test.
"""

import gzip
import json
import random
from pathlib import Path

import msgspec
import pytest

from collector import decode, dialects
from collector.otlp_json import parse_logs, parse_traces

DATA = Path(__file__).parent / "data"


def _json(path):
    return json.loads(gzip.decompress((DATA / path).read_bytes()))


def _recordings():
    found = {}
    for path in sorted((DATA / "recordings").glob("*.jsonl.gz")):
        library = path.name.removesuffix(".jsonl.gz")
        for line in gzip.decompress(path.read_bytes()).splitlines():
            row = json.loads(line)
            spans, logs = found.setdefault((library, row["scenario"]), ([], []))
            body = json.dumps(row["body"]).encode()
            if row["signal"] == "traces":
                spans += decode.spans(parse_traces(body))
            else:
                logs += decode.logs(parse_logs(body))
    return found


TRUTH = _json("captures/truth.json.gz")
DOCUMENTS = {document["id"]: document["text"] for document in TRUTH["documents"]}
EXPECTED = {
    name.replace(" ", "-"): held for name, held in _json("recordings/expected.json.gz").items()
}
ALL = _recordings()
EACH = [pytest.param(*names, id="/".join(names)) for names in sorted(ALL)]

NOT_WHOLE = {
    # Failed while it wrote the second call, of which nothing was exported.
    ("openlit-1.34.0", "tool"): {"tool"},
    # The second call's prompt has the tool's result, but of its call nothing but the role.
    ("opentelemetry-instrumentation-cohere-0.62.4", "tool"): {"tool"},
}


def _fields(turn, want, wanted):
    """(field, got, wanted) for all that was exported of a turn."""
    yield "query", turn.query, want["query"]
    response = turn.response.strip() if turn.response else turn.response
    yield "response", response, want["response"]
    yield "error", bool(turn.error), wanted.get("error", False)
    for name in ("conversation_id", "user_id"):
        if name in wanted:
            yield name, getattr(turn, name), wanted[name]
    if wanted.get("system"):
        yield "system", (turn.system or "").count(TRUTH["system"]), 1
    if "documents" in wanted:
        texts = {document.content for document in turn.documents}
        yield "documents", {DOCUMENTS[name] for name in wanted["documents"]} - texts, set()
    if want.get("tool"):
        truth = TRUTH["tool"]
        result = truth["result"] if want["result"] else None
        told = [(call.name, call.arguments, call.result) for call in turn.tool_calls]
        yield "tool", told, [(truth["call"]["name"], truth["call"]["arguments"], result)]
    else:
        yield "tool", turn.tool_calls, ()


@pytest.mark.parametrize(("library", "scenario"), EACH)
def test_every_exported_field_is_right(library, scenario):
    """Turns, texts, documents, tool calls, ids, errors and tokens equal what the app did."""
    wanted = EXPECTED[library][scenario]
    turns = sorted(dialects.read(*ALL[library, scenario]).turns, key=lambda turn: turn.started_at)
    assert len(turns) == len(wanted["turns"])
    left_out = NOT_WHOLE.get((library, scenario), set())
    for turn, want in zip(turns, wanted["turns"], strict=True):
        for field, got, right in _fields(turn, want, wanted):
            assert got == right or field in left_out, field
        if wanted["model"]:
            assert wanted["model"] in turn.model


@pytest.mark.parametrize(("library", "scenario"), EACH)
def test_order_and_resends_do_not_matter(library, scenario):
    """Spans and records one by one in any order, each up to twice, give the same turns."""
    spans, logs = ALL[library, scenario]
    once = dialects.read(spans, logs)
    draw = random.Random(f"{library}/{scenario}")
    shuffled = [span for span in spans for _ in range(draw.choice((1, 2)))]
    records = [log for log in logs for _ in range(draw.choice((1, 2)))]
    draw.shuffle(shuffled)
    draw.shuffle(records)
    again = dialects.read(shuffled, records)
    assert _by_id(again) == _by_id(once)


def test_a_result_without_its_call_is_of_the_only_tool():
    """Where a library left the call out of the history, the one tool that was offered is named."""
    recorded = ALL["opentelemetry-instrumentation-cohere-0.62.4", "tool"]
    (turn,) = dialects.read(*recorded).turns
    (call,) = turn.tool_calls
    assert (call.name, call.arguments, call.result) == (
        "get_order_status",
        None,
        TRUTH["tool"]["result"],
    )


def _by_id(reading):
    turns = sorted(reading.turns, key=lambda turn: turn.turn_id)
    return msgspec.json.encode(turns), reading.unreadable, reading.invalid
