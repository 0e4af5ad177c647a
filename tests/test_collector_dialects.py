"""Every capture of a real library: each field that it exported is read right."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from collector import decode, dialects
from collector.otlp_json import parse_logs, parse_traces

CAPTURES = Path(__file__).parent / "data" / "captures"


def _json(name):
    return json.loads(gzip.decompress((CAPTURES / f"{name}.json.gz").read_bytes()))


def _captures():
    found = {}
    for path in sorted(CAPTURES.glob("*.jsonl.gz")):
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


TRUTH = _json("truth")
EXPECTED = _json("expected")
ALL = _captures()
EACH = [pytest.param(*names, id="/".join(names)) for names in sorted(ALL)]
DOCUMENTS = {document["id"]: document["text"] for document in TRUTH["documents"]}

BEYOND_A_TRACE = {
    # A team's question, its work and its answer are messages in traces of their own, joined by
    # links alone: each of the three answers is a turn of one conversation, with its tool call,
    # without the question.
    ("autogen", "tool_team"): {"turns", "query"},
    # The tool stands in the prompt's signature only; the model never called it.
    ("openinference-dspy", "tool"): {"tool"},
}


def _tokens(span):
    """Input and output tokens by whatever name, read without the code under test."""
    attributes = span.attributes
    for keys in (
        ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
        ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
        ("llm.token_count.prompt", "llm.token_count.completion"),
        ("ai.usage.inputTokens", "ai.usage.outputTokens"),
    ):
        if keys[0] in attributes:
            return attributes[keys[0]], attributes.get(keys[1], 0)
    for key in ("langfuse.observation.usage_details", "mlflow.chat.tokenUsage"):
        if key in attributes:
            held = json.loads(attributes[key])
            return (
                held.get("prompt_tokens", held.get("input_tokens")),
                held.get("completion_tokens", held.get("output_tokens")),
            )
    return None


def _leaf_tokens(spans):
    """The sum over spans with tokens that have no span with tokens beneath them; none if none."""
    spent = {span.span_id: _tokens(span) for span in spans if "embed" not in str(span.name).lower()}
    spent = {name: tokens for name, tokens in spent.items() if tokens is not None}
    parents = {span.span_id: span.parent_id for span in spans}
    above = set()
    for name in spent:
        while name := parents.get(name):
            above.add(name)
    once = {}
    for span in spans:
        if span.span_id in spent and span.span_id not in above:
            once[span.attributes.get("gen_ai.response.id", span.span_id)] = spent[span.span_id]
    if not once:
        return None
    return tuple(sum(tokens[i] for tokens in once.values()) for i in (0, 1))


def _checks(library, scenario, turns):
    """(field, got, wanted) for all that expected.json knows of a capture."""
    wanted = EXPECTED[library][scenario]
    turns = sorted(turns, key=lambda turn: turn.started_at)
    yield "turns", len(turns), len(wanted["turns"])
    for turn, want in zip(turns, wanted["turns"], strict=False):
        yield "query", turn.query, want.get("query")
        response = turn.response.strip() if turn.response else turn.response
        yield "response", response, want.get("response")
        if want.get("error"):
            yield "error", bool(turn.error), True
        if "tool_calls" in want:
            fields = [set(call) for call in want["tool_calls"]]
            got = [
                {name: getattr(call, name) for name in names}
                for call, names in zip(turn.tool_calls, fields, strict=False)
            ]
            yield "tool", (len(turn.tool_calls), got), (len(fields), want["tool_calls"])
        if "documents" in want:
            ids = {document.id for document in turn.documents} & set(DOCUMENTS)
            missing = set(want["documents"]["ids_present"]) - ids
            yield "document ids", missing, set()
            texts = {document.content for document in turn.documents}
            told = {DOCUMENTS[name] for name in want["documents"]["texts_present"]}
            yield "document texts", told - texts, set()
        for name in ("conversation_id", "user_id"):
            if name in wanted:
                yield name, getattr(turn, name), wanted[name]
        if wanted.get("system"):
            yield "system", (turn.system or "").count(TRUTH["system"]), 1
        if "model" in wanted:
            yield "model", turn.model.startswith(wanted["model"]), True


@pytest.fixture(scope="module")
def table():
    """Counts of right and wrong fields by library, printed when the module is done."""
    counts = {}
    yield counts
    columns = sorted({field for row in counts.values() for field, _ in row})
    print("\nlibrary".ljust(28), *columns)
    for library, row in counts.items():
        cells = [f"{row[field, True]}/{row[field, True] + row[field, False]}" for field in columns]
        widths = [len(field) for field in columns]
        shown = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        print(library.ljust(27), *shown)


@pytest.mark.parametrize(("library", "scenario"), EACH)
def test_every_exported_field_is_right(library, scenario, table):
    """Turns, texts, documents, tools, ids, model, error and tokens equal what the app did."""
    spans, logs = ALL[library, scenario]
    turns = dialects.read(spans, logs).turns
    checks = [] if "note" in EXPECTED[library][scenario] else _checks(library, scenario, turns)
    checks = list(checks)
    told = {turn.trace_id for turn in turns}
    if turns and (leaf := _leaf_tokens([s for s in spans if s.trace_id in told])) is not None:
        sums = [(turn.usage.input_tokens or 0, turn.usage.output_tokens or 0) for turn in turns]
        checks.append(("tokens", tuple(map(sum, zip(*sums, strict=True))), leaf))
    beyond = BEYOND_A_TRACE.get((library, scenario), set())
    row = table.setdefault(library, Counter())
    wrong = []
    for field, got, want in checks:
        row[field, got == want] += 1
        if got != want and field not in beyond:
            wrong.append(f"{field}: {got!r}, not {want!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("library", "scenario"), EACH)
def test_order_and_resends_do_not_matter(library, scenario):
    """Spans and records one by one in any order, each up to three times, give the same turns."""
    spans, logs = ALL[library, scenario]
    once = msgspec.to_builtins(dialects.read(spans, logs))
    draw = random.Random(f"{library}/{scenario}")
    for _ in range(2):
        shuffled = [span for span in spans for _ in range(draw.choice((1, 2, 3)))]
        records = [log for log in logs for _ in range(draw.choice((1, 2)))]
        draw.shuffle(shuffled)
        draw.shuffle(records)
        again = msgspec.to_builtins(dialects.read(shuffled, records))
        assert _by_id(again) == _by_id(once)


def _by_id(reading):
    return sorted(reading["turns"], key=lambda turn: turn["turn_id"]), reading["unreadable"]


@pytest.mark.parametrize(("library", "scenario"), EACH)
def test_a_torn_trace_never_raises(library, scenario):
    """Any part of a trace is read; without its root its turns are orphans or roots of their own."""
    spans, logs = ALL[library, scenario]
    draw = random.Random(scenario)
    for _ in range(5):
        part = [span for span in spans if draw.random() < 0.6]
        for turn in dialects.read(part, logs).turns:
            assert turn.trace_id in {span.trace_id for span in part}
            assert turn.started_at <= turn.ended_at or not turn.ended_at


def test_unreadable_calls_are_counted_by_layout():
    """A call whose content was not captured counts once under its layout, a readable one never."""
    for (library, scenario), (spans, logs) in ALL.items():
        reading = dialects.read(spans, logs)
        assert set(reading.unreadable) <= set(dialects.LAYOUTS)
        if scenario.startswith("no_content"):
            assert sum(reading.unreadable.values()) == 1, (library, scenario)
        elif scenario.startswith(("chat", "rag", "tool", "multi_turn")):
            bare = library == "traceloop-anthropic"
            assert not reading.unreadable or bare, (library, scenario, reading.unreadable)


def test_the_question_is_not_part_of_the_history():
    """In a conversation of three traces each turn's history is the turns before it, in order."""
    turns = _turns("openinference-openai", "multi_turn")
    for index, turn in enumerate(turns):
        said = [(message.role, message.content) for message in turn.messages]
        before = [
            line
            for earlier in turns[:index]
            for line in (("user", earlier.query), ("assistant", earlier.response))
        ]
        assert said == before


def test_feedback_in_the_stream_is_taken():
    """A `gen_ai.evaluation.result` record becomes feedback of the turn that holds its span."""
    (turn,) = _turns("otel-genai-openai", "rag_handler_eval")
    (judged,) = turn.feedback
    assert (judged.name, judged.value, judged.label) == ("groundedness", 0.9, "pass")
    assert judged.comment == "Answer follows the retrieved warranty text."


@pytest.mark.parametrize(
    ("library", "scenario", "reason"),
    [
        ("otel-openai-v2", "chat", "stop"),
        ("traceloop", "tool", "stop"),
        ("strands", "tool", "stop"),
        ("litellm-otel", "tool", "stop"),
        ("google-adk", "chat", "stop"),
        ("vercel-ai-sdk", "tool", "stop"),
        ("langsmith-otel", "chat", "stop"),
        ("mlflow", "chat", "stop"),
    ],
)
def test_finish_reasons_have_one_vocabulary(library, scenario, reason):
    """`end_turn`, `STOP`, JSON lists and choices all say the same."""
    assert _turns(library, scenario)[-1].finish_reason == reason


def test_first_tokens_are_timed():
    """Seconds from the call's start: attributes in seconds or milliseconds, or chunk events."""
    (turn,) = _turns("vercel-ai-sdk", "stream")
    assert turn.time_to_first_token == pytest.approx(0.0811, abs=1e-3)
    assert 0 < _turns("mlflow", "stream")[0].time_to_first_token < 1


def test_tools_offered_to_the_model_are_read_in_every_shape():
    """Name, description and JSON Schema of a tool, whatever the layout."""
    for library, scenario in ALL:
        if scenario in ("tool", "tool_latest") and library not in (
            "autogen",
            "google-adk",
            "openinference-dspy",
            "otel-openai-v2",
            "otel-genai-openai-agents",
            "openlit",
            "strands",
        ):
            tools = [tool for turn in _turns(library, scenario) for tool in turn.tool_definitions]
            assert tools, (library, scenario)
            assert tools[0].name == "get_order_status"
            assert "order_id" in tools[0].parameters["properties"], (library, scenario)


def _turns(library, scenario):
    turns = dialects.read(*ALL[library, scenario]).turns
    return sorted(turns, key=lambda turn: turn.started_at)


def test_only_retrieval_gives_documents():
    """Tool results, orders and plain prompts are no documents."""
    for library, scenario in ALL:
        if "rag" not in scenario and not scenario.startswith("error"):
            for turn in _turns(library, scenario):
                assert turn.documents == (), (library, scenario)


def test_the_traces_of_a_team_are_one_conversation():
    """autogen's runtime keeps the agents of a team by one key, which ends every destination."""
    turns = dialects.read(*ALL["autogen", "tool_team"]).turns
    assert len(turns) == 3
    assert len({turn.conversation_id for turn in turns}) == 1
    assert turns[0].conversation_id is not None
