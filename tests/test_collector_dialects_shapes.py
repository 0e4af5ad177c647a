"""Shapes of values, whatever layout they came in; and that nothing raises on any of them."""

import json
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.records import Turn
from collector import dialects
from collector.dialects import documents as docs
from collector.dialects import finish, messages, parts, speech, stuffed, tools, values
from collector.dialects.spellings import CONVERSATION, KIND_KEYS, KINDS
from collector.spans import Event, Log, Span

CALL = ("look_up", "c-1", {"id": 7})
CALLS = [
    {"type": "tool_call", "id": "c-1", "name": "look_up", "arguments": {"id": 7}},
    {"type": "tool_call", "id": "c-1", "name": "look_up", "arguments": '{"id": 7}'},
    {"id": "c-1", "type": "function", "function": {"name": "look_up", "arguments": '{"id": 7}'}},
    {
        "type": "function_call",
        "id": "fc",
        "call_id": "c-1",
        "name": "look_up",
        "arguments": '{"id": 7}',
    },
    {"type": "tool_use", "id": "c-1", "name": "look_up", "input": {"id": 7}},
    {"type": "tool-call", "toolCallId": "c-1", "toolName": "look_up", "input": {"id": 7}},
    {"type": "tool-call", "toolCallId": "c-1", "toolName": "look_up", "args": {"id": 7}},
    {"toolUse": {"toolUseId": "c-1", "name": "look_up", "input": {"id": 7}}},
    {"functionCall": {"id": "c-1", "name": "look_up", "args": {"id": 7}}},
    {"toolRequest": {"ref": "c-1", "name": "look_up", "input": {"id": 7}}},
    {"function_call": {"id": "c-1", "name": "look_up", "args": {"id": 7}}},
    {"tool_call": {"tool_name": "look_up", "arguments": {"id": 7}, "id": "c-1"}},
]
RESULTS = [
    {"type": "tool_call_response", "id": "c-1", "response": {"ok": True}},
    {"type": "tool_call_response", "id": "c-1", "response": '{"ok": true}'},
    {"type": "tool_call_response", "id": "c-1", "name": "look_up", "result": {"ok": True}},
    {
        "type": "tool_result",
        "tool_use_id": "c-1",
        "content": [{"type": "text", "text": '{"ok": true}'}],
    },
    {
        "type": "tool-result",
        "toolCallId": "c-1",
        "toolName": "look_up",
        "output": {"type": "json", "value": {"ok": True}},
    },
    {"type": "function_call_output", "call_id": "c-1", "output": '{"ok": true}'},
    {"toolResult": {"toolUseId": "c-1", "status": "success", "content": [{"json": {"ok": True}}]}},
    {"functionResponse": {"id": "c-1", "name": "look_up", "response": {"ok": True}}},
    {"toolResponse": {"ref": "c-1", "name": "look_up", "output": {"ok": True}}},
    {
        "tool_call_result": {
            "result": '{"ok": true}',
            "origin": {"tool_name": "look_up", "id": "c-1"},
            "error": False,
        }
    },
]


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_every_provider_are_one(call):
    """As a part of a message and, where they stand there, beside its content."""
    (said,) = messages.conversation([{"role": "assistant", "content": [call]}])
    (found,) = said.calls
    assert (found.name, found.id, found.arguments) == CALL
    (said,) = messages.conversation([call])
    assert (said.role, said.calls[0].name) == ("assistant", "look_up")


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("role", ["tool", "user", "assistant"])
def test_results_of_every_provider_are_one(result, role):
    """A saying of its own, whoever's message it travelled in."""
    (said,) = messages.conversation([{"role": role, "content": [result]}])
    assert (said.role, said.answers, said.result) == ("tool", "c-1", {"ok": True})
    assert not said.failed


@pytest.mark.parametrize(
    "result",
    [
        {"type": "tool_result", "tool_use_id": "c-1", "content": "no", "is_error": True},
        {"toolResult": {"toolUseId": "c-1", "status": "error", "content": [{"text": "no"}]}},
        {"type": "tool-error", "toolCallId": "c-1", "toolName": "look_up", "error": "no"},
    ],
)
def test_a_result_may_say_that_it_failed(result):
    """By any library's mark."""
    (said,) = messages.conversation([{"role": "user", "content": [result]}])
    assert (said.failed, said.text) == (True, "no")


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}],
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]},
        [
            {"role": "user", "parts": [{"type": "text", "content": "Hi"}]},
            {"role": "assistant", "parts": [{"type": "text", "content": "Yes?"}]},
        ],
        [
            {"role": "user", "content": [{"text": "Hi"}]},
            {"role": "assistant", "content": [{"text": "Yes?"}]},
        ],
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Hi"}]},
                {"role": "model", "parts": [{"text": "Yes?"}]},
            ]
        },
        [["human", "Hi"], ["ai", "Yes?"]],
        [
            [
                {
                    "lc": 1,
                    "type": "constructor",
                    "id": ["x", "HumanMessage"],
                    "kwargs": {"content": "Hi", "type": "human"},
                },
                {
                    "lc": 1,
                    "type": "constructor",
                    "id": ["x", "AIMessageChunk"],
                    "kwargs": {"content": "Yes?"},
                },
            ]
        ],
        [{"type": "human", "data": {"content": "Hi"}}, {"type": "ai", "data": {"content": "Yes?"}}],
        {"messages": [{"type": "human", "content": "Hi"}, {"type": "ai", "content": "Yes?"}]},
        {
            "items": [
                {"type": "message", "role": "user", "content": ["Hi"]},
                {"type": "message", "role": "assistant", "content": ["Yes?"]},
            ]
        },
        [
            "ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Hi')])",
            "ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, "
            "_content=[TextContent(text='Yes?')], _name=None)",
        ],
        [{"role": {"label": "USER"}, "content": "Hi"}, {"author": "model", "content": "Yes?"}],
    ],
)
def test_conversations_of_every_library_are_one(value):
    """Native values, JSON text and JSON text inside JSON text alike."""
    for given_as in (value, json.dumps(value), json.dumps(json.dumps(value))):
        said = messages.conversation(given_as)
        assert [(one.role, one.text) for one in said] == [("user", "Hi"), ("assistant", "Yes?")]


@pytest.mark.parametrize(
    "value",
    [
        {
            "id": "r",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Yes"},
                    "finish_reason": "stop",
                }
            ],
        },
        {
            "object": "response",
            "output": [
                {"type": "reasoning", "summary": []},
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Yes"}],
                },
            ],
        },
        {
            "candidates": [
                {"content": {"parts": [{"text": "Yes"}], "role": "model"}, "finishReason": "STOP"}
            ]
        },
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes"}],
            "stop_reason": "end_turn",
        },
        {
            "generations": [
                [
                    {
                        "text": "Yes",
                        "generation_info": {"finish_reason": "stop"},
                        "message": {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": "Yes"}},
                    }
                ]
            ]
        },
        {"replies": [{"role": "assistant", "content": [{"text": "Yes"}]}]},
        {"message": {"role": "assistant", "content": "Yes"}},
        "Yes",
    ],
)
def test_responses_of_every_provider_are_one(value):
    """The answer alone, without what the model thought."""
    said = messages.conversation(value, "assistant")
    assert [(one.role, one.text) for one in said] == [("assistant", "Yes")]


def test_content_that_was_not_captured_is_none_and_not_empty():
    """A skeleton of parts, a redaction mark, an empty text."""
    texts = [
        messages.conversation([message])[0].text
        for message in (
            {"role": "user", "parts": [{"type": "text"}]},
            {"role": "user", "content": None},
            {"role": "user", "content": ""},
            {"role": "user", "parts": [{"type": "text", "content": ""}]},
        )
    ]
    assert texts == [None, None, "", ""]
    assert messages.conversation("__REDACTED__") == []


def test_a_run_in_one_message_keeps_its_order():
    """Call, result and answer of one assistant message are three sayings."""
    content = [CALLS[0], RESULTS[0], {"type": "text", "content": "Done."}]
    said = messages.conversation([{"role": "assistant", "parts": content}])
    assert [(one.role, one.text) for one in said] == [
        ("assistant", None),
        ("tool", '{"ok":true}'),
        ("assistant", "Done."),
    ]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("FinishReason.STOP", "stop"),
        (["tool-calls"], "tool_calls"),
        ('["tool_use"]', "tool_calls"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("error", "error"),
        ("", None),
        (None, None),
        ([None, "stop"], "stop"),
    ],
)
def test_finish_reasons(word, reason):
    """Words, enums, arrays and JSON arrays."""
    assert finish.finish_reason(word) == reason


def test_flattened_lists_are_ordered_by_number():
    """Ten comes after two; a gap closes; a name that is no number makes a dict."""
    flat = {f"{index}.message.content": str(index) for index in (10, 2, 0)}
    assert [item["message"]["content"] for item in values.nested(flat)] == ["0", "2", "10"]
    assert values.nested({"a.b": 1}) == []
    assert values.nested({"0": "x", "0.y": "z"}) == [{"y": "z"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": NaN}', None),
        ("{'a': None, 'b': 'it''s'}", {"a": None, "b": "its"}),
        ('"quoted"', "quoted"),
        ("plain", "plain"),
        ("[1, 2", "[1, 2"),
        (' {"a": 1}', {"a": 1}),
        ("[" * 500 + "]" * 500, "[" * 500 + "]" * 500),
    ],
)
def test_texts_are_decoded_as_far_as_they_hold_values(text, value):
    """JSON, lenient JSON, Python reprs; all else stays text."""
    found = values.decoded(text)
    assert found == value if value is not None else set(found) == {"a"}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0),
        (41, 41),
        ("41", 41),
        (41.0, 41),
        (-1, None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        ("x", None),
        (None, None),
    ],
)
def test_counts_are_counts(value, number):
    """Zero is a count; negative, boolean and NaN are none."""
    assert values.count(value) == number


DOCUMENT = ("d-1", "Orders", "Two days.", 0.5)


@pytest.mark.parametrize(
    "value",
    [
        [{"id": "d-1", "title": "Orders", "content": "Two days.", "score": 0.5}],
        {
            "documents": [
                {
                    "id": "d-1",
                    "metadata": {"title": "Orders", "score": 0.5},
                    "page_content": "Two days.",
                    "type": "Document",
                }
            ]
        },
        [
            {
                "document": {
                    "id": "d-1",
                    "content": "Two days.",
                    "score": 0.5,
                    "metadata": '{"title": "Orders"}',
                }
            }
        ],
        [
            {
                "lc": 1,
                "id": ["Document"],
                "kwargs": {
                    "id": "d-1",
                    "metadata": {"title": "Orders", "score": 0.5},
                    "page_content": "Two days.",
                },
            }
        ],
        {
            "nodes": [
                {
                    "node": {"id_": "d-1", "text": "Two days.", "metadata": {"title": "Orders"}},
                    "score": 0.5,
                }
            ]
        },
        {
            "matches": [
                {"id": "d-1", "score": 0.5, "metadata": {"title": "Orders", "text": "Two days."}}
            ]
        },
        {
            "outputs": {
                "documents": [
                    {"id": "d-1", "title": "Orders", "text": "Two days.", "similarity": 0.5}
                ]
            }
        },
        [[{"page_content": "Two days.", "metadata": {"source": "d-1", "title": "Orders"}}, 0.5]],
        {
            "ids": [["d-1"]],
            "documents": [["Two days."]],
            "metadatas": [[{"title": "Orders"}]],
            "distances": [[0.5]],
        },
        {
            "points": [
                {"id": "d-1", "score": 0.5, "payload": {"text": "Two days.", "title": "Orders"}}
            ]
        },
        [[{"id": "d-1", "distance": 0.5, "entity": {"text": "Two days.", "title": "Orders"}}]],
        [
            {
                "content": [{"text": "Two days."}],
                "metadata": {"id": "d-1", "title": "Orders", "score": 0.5},
            }
        ],
    ],
)
def test_documents_of_every_library_are_one(value):
    """Id, title, text and score, wherever a library keeps them."""
    for given_as in (value, json.dumps(value)):
        (found,) = docs.documents(given_as)
        assert (found.id, found.title, found.content, found.score) == DOCUMENT


def test_lists_that_are_no_documents_do_not_look_retrieved():
    """Messages, orders, numbers and plain texts are a tool's own results."""
    for value in (
        [{"role": "user", "content": "x", "id": "1"}],
        [{"order": 7}],
        [1, 2],
        ["a"],
        {"status": "shipped"},
        [],
        "text",
        None,
        [{"text": "x"}],
    ):
        assert not docs.looks_retrieved(value)
    assert docs.looks_retrieved([{"id": "d", "text": "x"}])


@pytest.mark.parametrize(
    "value",
    [
        [
            {
                "type": "function",
                "function": {"name": "t", "description": "d", "parameters": {"type": "object"}},
            }
        ],
        [{"type": "function", "name": "t", "description": "d", "parameters": {"type": "object"}}],
        [{"name": "t", "description": "d", "input_schema": {"type": "object"}}],
        ['{"name": "t", "description": "d", "inputSchema": {"type": "object"}}'],
        [
            {
                "function_declarations": [
                    {"name": "t", "description": "d", "parameters": {"type": "object"}}
                ]
            }
        ],
        {
            "tools": [
                {
                    "toolSpec": {
                        "name": "t",
                        "description": "d",
                        "inputSchema": {"json": {"type": "object"}},
                    }
                }
            ]
        },
        [
            {
                "tool": {
                    "json_schema": json.dumps(
                        {
                            "type": "function",
                            "function": {
                                "name": "t",
                                "description": "d",
                                "parameters": {"type": "object"},
                            },
                        }
                    )
                }
            }
        ],
        [{"name": "t", "description": "d", "parameters": '{"type": "object"}'}],
    ],
)
def test_tool_definitions_of_every_provider_are_one(value):
    """Name, description and schema, as values or JSON text; each name once."""
    for given_as in (value, json.dumps(value)):
        (found,) = tools.definitions([given_as, value])
        assert (found.name, found.description) == ("t", "d")
        assert found.parameters == {"type": "object"}


def test_sections_of_a_marked_prompt():
    """DSPy's fields: the question alone, the answer alone."""
    prompt = "[[ ## context ## ]]\n[1] «A.»\n\n[[ ## question ## ]]\nWhy?\n\nRespond with x"
    reply = "[[ ## reasoning ## ]]\nSo.\n\n[[ ## answer ## ]]\nThus.\n\n[[ ## completed ## ]]"
    assert speech.unmarked(prompt, asked=True) == "Why?"
    assert speech.unmarked(reply, asked=False) == "Thus."
    assert [found.content for found in stuffed.documents_in(prompt)] == ["A."]


def test_decorated_arguments_are_unwrapped():
    """args and kwargs of a decorator; the input text and the call's id of a callback."""
    assert parts.tool_arguments({"args": [], "kwargs": {"id": 7}}) == ({"id": 7}, None)
    assert parts.tool_arguments({"args": [7], "kwargs": {}}) == ({"args": [7]}, None)
    wrapped = {"input_str": "{'id': 7}", "kwargs": {"tool_call_id": "c-1"}}
    assert parts.tool_arguments(wrapped) == ({"id": 7}, "c-1")


def test_no_spelling_stands_in_two_tables():
    """One key tells one fact: a second table would silently win."""
    from collector.dialects import facts

    keys = [key for _, _, table in facts._TABLES for key in table]
    assert len(keys) == len(set(keys))


WORDS = st.sampled_from(
    [
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.definitions",
        "input.value",
        "output.value",
        "llm.input_messages.0.message.content",
        "llm.input_messages.x",
        "gen_ai.prompt.0.content",
        "gen_ai.completion.0.tool_calls.0.name",
        "ai.prompt",
        "ai.response.toolCalls",
        "retrieval.documents.0.document.score",
        "mlflow.spanInputs",
        "langfuse.observation.output",
        "traceloop.entity.output",
        "pydantic_ai.all_messages",
        "events",
        "final_result",
        "metadata",
        "gen_ai.usage.input_tokens",
        "gen_ai.response.finish_reasons",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.name",
        "error.type",
        "message",
        "messaging.operation",
        "gen_ai.system_instructions",
        "haystack.component.type",
        "evaluations.0.evaluation.score",
        *KIND_KEYS,
        *CONVERSATION[:4],
    ]
)
TEXTS = st.text(max_size=20) | st.sampled_from([*KINDS, "user", "assistant", "text", "tool_call"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=4) | TEXTS
NAMES = st.sampled_from(
    [
        "role",
        "content",
        "parts",
        "type",
        "text",
        "messages",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "data",
        "kwargs",
        "lc",
        "message",
        "choices",
        "documents",
        "args",
        "output",
    ]
)
TREES = st.recursive(
    LEAVES, lambda x: st.lists(x, max_size=3) | st.dictionaries(NAMES, x, max_size=4), max_leaves=12
)


def _dump(value):
    return json.dumps(value, default=str)


CONTENT = TREES | TREES.map(_dump)
ATTRIBUTES = st.dictionaries(WORDS | st.text(max_size=8), CONTENT, max_size=8)
IDS = st.sampled_from(["a" * 16, "b" * 16, "c" * 16])
EVENTS = st.builds(
    Event,
    st.sampled_from(
        [
            "gen_ai.user.message",
            "gen_ai.choice",
            "exception",
            "gen_ai.tool.message",
            "gen_ai.client.inference.operation.details",
            "gen_ai.evaluation.result",
        ]
    ),
    st.integers(0, 2**63),
    ATTRIBUTES,
)
SPANS = st.lists(
    st.builds(
        Span,
        trace_id=st.just("d" * 32),
        span_id=IDS,
        parent_id=IDS | st.just(""),
        start=st.integers(0, 9),
        end=st.integers(0, 9),
        failed=st.booleans(),
        attributes=ATTRIBUTES,
        events=st.lists(EVENTS, max_size=2).map(tuple),
    ),
    max_size=4,
)
LOGS = st.lists(
    st.builds(
        Log,
        trace_id=st.just("d" * 32),
        span_id=IDS,
        event_name=st.sampled_from(["gen_ai.user.message", "gen_ai.choice", ""]),
        body=CONTENT,
        attributes=ATTRIBUTES,
    ),
    max_size=2,
)


@settings(deadline=None, max_examples=150)
@given(SPANS, LOGS)
def test_nothing_raises_on_data(spans, logs):
    """Any attributes, ids in rings, times backwards: turns that encode, and known layouts."""
    reading = dialects.read(spans, logs)
    assert set(reading.unreadable) <= set(dialects.LAYOUTS)
    assert len(dialects.explain(spans, logs)) <= len({span.span_id for span in spans})
    for ordinal, turn in enumerate(reading.turns):
        assert turn.ordinal == ordinal
        assert turn.dialect in dialects.LAYOUTS
        for name in ("query", "response", "system", "error", "conversation_id", "user_id"):
            assert type(getattr(turn, name)) in (str, type(None))
        msgspec.json.decode(msgspec.json.encode(turn), type=Turn)


@settings(deadline=None, max_examples=100)
@given(SPANS, LOGS, st.randoms())
def test_order_never_matters(spans, logs, draw):
    """Any spans and records in another order give the same turns."""
    once = msgspec.json.encode(dialects.read(spans, logs))
    draw.shuffle(spans)
    draw.shuffle(logs)
    assert msgspec.json.encode(dialects.read(spans, logs)) == once


@given(CONTENT)
def test_no_shape_raises(value):
    """Every reader of shapes takes every value."""
    messages.conversation(value)
    speech.asked(value)
    speech.answered(value)
    docs.documents(value)
    docs.looks_retrieved(value)
    tools.definitions(value)
    finish.finish_reason(value)
    parts.result_value(value)
    parts.tool_arguments(value)


@given(st.text())
def test_no_prompt_raises(text):
    """Whatever a prompt holds, a question in it is a part of it."""
    found = stuffed.question_in(text)
    assert found is None or found in text
    stuffed.documents_in(text)


def test_numbers_that_cannot_be_are_left_out_and_told():
    """Negative and non-finite tokens, times and costs leave the field empty, once a span."""
    wrong = {
        "gen_ai.usage.input_tokens": -5,
        "gen_ai.usage.output_tokens": float("nan"),
        "gen_ai.usage.cost": "-1",
        "gen_ai.server.time_to_first_token": float("inf"),
    }
    call = Span(
        trace_id="1" * 32,
        span_id="2" * 16,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": '[{"role": "user", "content": "Hi?"}]',
            "gen_ai.output.messages": '[{"role": "assistant", "content": "Hi."}]',
            **wrong,
        },
    )
    reading = dialects.read([call])
    (turn,) = reading.turns
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.cost) == (None,) * 3
    assert turn.time_to_first_token is None
    fields = ("input_tokens", "output_tokens", "cost", "first_token")
    assert reading.invalid == dict.fromkeys(fields, 1)


@pytest.mark.parametrize(
    "text",
    [
        "Message(text='" * 20_000,
        "Answer(text='" + "' " * 150_000,
        "Message(ToolCallResult(result='" * 10_000,
        "Message(" + "ToolCallResult(result='" * 15 + "'" * 100_000,
        "id='1' content='" + "\\'" * 100_000,
        "<document>" * 40_000 + "Question: x",
        "[[ ## answer ## ]]\n" * 20_000,
        "data:image/png;base64," * 20_000,
        "{'a': " * 50_000,
        "[" * 300_000,
    ],
)
def test_hostile_texts_take_no_more_time_than_long_ones(text):
    """Marks that open and never close, as a message, a question and a tool's result."""
    spans = [
        Span(
            trace_id="a" * 32,
            span_id=f"{number:016x}",
            start=1,
            end=2,
            attributes={"openinference.span.kind": kind, "input.value": text, "output.value": text},
        )
        for number, kind in enumerate(("CHAIN", "LLM", "TOOL", "RETRIEVER"), 1)
    ]
    began = time.process_time()
    dialects.read(spans)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "tool_calls": [{"id": "c-{}", "function": {"name": "look_up"}}]},
        {"role": "tool", "name": "look_up", "content": "found {}"},
    ],
    ids=["calls", "results"],
)
def test_a_turn_keeps_its_first_thousand_calls(message):
    """Ten thousand calls or results are read within seconds, and the turn says that it was cut."""
    text = json.dumps(message)
    said = [{"role": "user", "content": "Where is it?"}]
    said += [json.loads(text.replace("{}", str(number))) for number in range(10_000)]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(said),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "Here."}]),
    }
    span = Span(trace_id="a" * 32, span_id="b" * 16, start=1, end=2, attributes=attributes)
    began = time.process_time()
    (turn,) = dialects.read([span]).turns
    assert time.process_time() - began < 5
    assert (len(turn.tool_calls), turn.truncated, turn.query) == (1000, True, "Where is it?")
