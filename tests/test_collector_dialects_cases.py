"""Traces made after faults that people met: what each must give."""

import gzip
import json
from pathlib import Path

import pytest

from collector import decode, dialects
from collector.otlp_json import parse_traces

CASES = Path(__file__).parent / "data" / "cases"
QUESTION = "Do you deliver on Sundays?"
ANSWER = "Yes, in most cities we deliver on Sundays."


def _spans(name):
    path = CASES / f"{name}.otlp.json"
    body = (
        path.read_bytes()
        if path.exists()
        else gzip.decompress(path.with_suffix(".json.gz").read_bytes())
    )
    return decode.spans(parse_traces(body))


def _read(name):
    return dialects.read(_spans(name))


def _by_trace(name):
    """Turns in the order in which their traces stand in the file."""
    order = list(dict.fromkeys(span.trace_id for span in _spans(name)))
    return sorted(_read(name).turns, key=lambda turn: (order.index(turn.trace_id), turn.ordinal))


def test_odd_attribute_values_harm_nothing():
    """Maps, mixed lists, bytes, empty keys and NaN beside the content; content as native lists."""
    turns = _by_trace("B12")
    assert [(turn.query, turn.response) for turn in turns] == [(QUESTION, ANSWER)] * 2
    assert [turn.usage.input_tokens for turn in turns] == [41, 41]


def test_nine_layouts_give_one_exchange():
    """Eight generations of conventions read alike; a misspelt key leaves the question out."""
    expected = json.loads((CASES / "B14.expect.json").read_text())
    turns = _by_trace("B14")
    assert len(turns) == 9
    for turn in turns[:8]:
        assert (turn.query, turn.response) == (expected["question"], expected["answer"])
    for turn in (*turns[:6], turns[7]):
        assert turn.usage.input_tokens == expected["input_tokens"]
        assert turn.usage.output_tokens == expected["output_tokens"]
    assert turns[6].usage.input_tokens is None
    assert (turns[8].query, turns[8].response) == (None, expected["answer"])
    assert _read("B14").unreadable == {"indexed": 1}


def test_absent_and_empty_content_differ():
    """Without capture there is no text; an empty text is an empty text. Both have tokens."""
    absent, empty = _by_trace("B15")
    assert (absent.query, absent.response) == (None, None)
    assert (empty.query, empty.response) == ("", "")
    assert {turn.usage.output_tokens for turn in (absent, empty)} == {17}
    assert _read("B15").unreadable == {"genai": 1}


def test_binary_content_leaves_a_placeholder():
    """The question is its text; no base64 stays anywhere in the turn."""
    (turn,) = _by_trace("B16")
    assert turn.query == "What colour is the mug in the photo?"
    assert len(repr(turn)) < 2000
    assert turn.usage.input_tokens == 41


def test_roots_are_found_without_an_empty_parent():
    """A parent that never came makes an orphan; zero and empty parents are plain roots; of two
    roots each is a turn."""
    turns = _by_trace("B23")
    assert [(turn.query, turn.orphan) for turn in turns] == [
        (QUESTION, True),
        (QUESTION, False),
        (QUESTION, False),
        (QUESTION, False),
        ("And on holidays?", False),
    ]
    assert [turn.ordinal for turn in turns] == [0, 0, 0, 0, 1]
    assert turns[4].response == "No."


def test_a_bare_root_takes_the_first_question_and_the_last_answer():
    """An HTTP root over a rewrite and an answer is one turn; one without a model call is none."""
    (turn,) = _by_trace("B24")
    assert turn.query == "Rewrite: do you deliver sundays"
    assert turn.response == ANSWER
    assert turn.operation == "POST /chat"


def test_spans_of_one_name_stand_in_order_of_time():
    """All tool calls with their results, by start, however the spans arrived."""
    (turn,) = _by_trace("B29")
    assert (turn.query, turn.response) == ("Where is order 1182?", "It arrives on Tuesday.")
    assert [(call.name, call.arguments, call.result) for call in turn.tool_calls] == [
        ("search_orders", {"id": "1182"}, {"status": "shipped", "carrier": "P-12"}),
        ("search_orders", {"id": "1182", "full": True}, {"eta": "Tuesday"}),
        ("format_reply", {"eta": "Tuesday"}, "It arrives on Tuesday."),
    ]


def test_an_agents_own_sum_is_not_counted_again():
    """Tokens of the calls alone: 60 + 70 and 8 + 11."""
    (turn,) = _by_trace("B30")
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (130, 19)


@pytest.mark.parametrize(
    ("index", "names", "schema"),
    [
        (0, [], None),
        (1, ["weather"], {"type": "object", "properties": {"city": {"type": "string"}}}),
        (2, ["weather"], None),
        (3, ["weather"], {}),
        (4, ["other"], None),
        (5, [], None),
        (6, [], None),
    ],
)
def test_tool_definitions_may_be_missing_or_odd(index, names, schema):
    """No definitions, JSON text, lists of texts, no type, no JSON: the call is there in each."""
    turn = _by_trace("B81")[index]
    assert [(call.name, call.arguments) for call in turn.tool_calls] == [
        ("weather", {"city": "Lyon"})
    ]
    assert [tool.name for tool in turn.tool_definitions] == names
    if names:
        found = turn.tool_definitions[0].parameters
        assert found == ({**schema, "required": ["city"]} if schema else schema)
