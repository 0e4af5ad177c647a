"""Rows of a data set as turns."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.records import Turn, encode
from scorers.rows import to_turns

CALL = {"name": "weather", "arguments": {"city": "Lyon"}}


def one(row, number=0):
    (turn,) = to_turns(row, number)
    return turn


def test_the_plain_form():
    """query, context, response and ground_truth; context is text, a list, citations or nothing."""
    turn = one({"query": "q", "context": "c", "response": "r", "ground_truth": "g"})
    assert (turn.query, turn.response, turn.ground_truth) == ("q", "r", "g")
    assert [d.content for d in turn.documents] == ["c"]
    assert one({"response": "r", "context": None}).documents == ()
    assert [d.content for d in one({"response": "r", "context": ["a", "b"]}).documents] == [
        "a",
        "b",
    ]
    cited = {"citations": [{"id": 1, "title": "t", "content": "c"}]}
    (document,) = one({"response": "r", "context": cited}).documents
    assert (document.id, document.title, document.content) == ("1", "t", "c")
    (document,) = one({"response": "r", "context": json.dumps(cited)}).documents
    assert document.title == "t"


def test_the_vertex_form():
    """instruction, context, prediction, reference and baseline_prediction mean the same things."""
    turn = one(
        {
            "instruction": "i",
            "context": "c",
            "prediction": "p",
            "reference": "r",
            "baseline_prediction": "b",
        }
    )
    assert (turn.query, turn.response, turn.ground_truth) == ("i", "p", "r")
    assert turn.baseline_response == "b"


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("arguments", [False, True])
def test_predictions_of_tool_calls(whole, listed, arguments):
    """The prediction, its calls and their arguments may each come as JSON text."""
    call = CALL | {"arguments": json.dumps(CALL["arguments"])} if arguments else CALL
    calls = json.dumps([call]) if listed else [call]
    prediction = {"content": "", "tool_calls": calls}
    given = json.dumps(prediction) if whole else prediction
    turn = one({"prediction": given, "reference": given})
    assert turn.response == ""
    assert turn.tool_calls[0].name == "weather"
    assert turn.reference_tool_calls == turn.tool_calls
    assert turn.ground_truth == ""


def test_other_spellings_of_calls():
    """OpenAI's `function` and Vertex's trajectories are calls too."""
    turn = one(
        {
            "response": "r",
            "tool_calls": [{"id": "1", "function": CALL}],
            "expected_tool_calls": [{"tool_name": "weather", "tool_input": {"city": "Lyon"}}],
            "tool_definitions": [{"type": "function", "function": {"name": "weather"}}, "{bad"],
        }
    )
    assert (
        turn.tool_calls[0].arguments == turn.reference_tool_calls[0].arguments == {"city": "Lyon"}
    )
    assert [tool.name for tool in turn.tool_definitions] == ["weather"]


MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": CALL}]},
    {"role": "tool", "tool_call_id": "1", "content": "12 C"},
    {"role": "assistant", "content": "12 C.", "context": {"citations": [{"content": "doc"}]}},
    {"role": "user", "content": [{"type": "text", "text": "And tomorrow?"}]},
    {"role": "assistant", "content": "14 C.", "context": None},
]


@pytest.mark.parametrize("row", [{"messages": MESSAGES}, {"conversation": {"messages": MESSAGES}}])
def test_messages(row):
    """Each user message begins a turn; calls, their results and citations belong to it."""
    first, second = to_turns(row | {"ground_truth": "14 C"})
    assert (first.query, first.response, first.system) == ("Weather?", "12 C.", "Be kind.")
    assert first.tool_calls[0].result == "12 C"
    assert [d.content for d in first.documents] == ["doc"]
    assert (second.query, second.response) == ("And tomorrow?", "14 C.")
    assert [m.role for m in second.messages] == ["user", "assistant", "tool", "assistant"]
    assert (first.ground_truth, second.ground_truth) == (None, "14 C")
    assert (first.ordinal, second.ordinal) == (0, 1)


def test_a_turn_record_is_a_row():
    """A record of the stream is read as it is."""
    turn = one({"query": "q", "response": "r", "app": "shop"}, number=3)
    assert one(json.loads(encode(turn))) == turn
    assert turn.app == "shop"


def test_ids_follow_from_the_row():
    """The same row at the same place has the same id; an own id counts wherever it stands."""
    assert one({"response": "r"}, 1).turn_id == one({"response": "x"}, 1).turn_id
    assert one({"response": "r"}, 1).turn_id != one({"response": "r"}, 2).turn_id
    assert one({"id": "a", "response": "r"}, 1).turn_id == one({"id": "a", "response": "r"}).turn_id


@pytest.mark.parametrize(
    "row",
    [
        5,
        [],
        {"messages": "text"},
        {"messages": [{"content": "no role"}]},
        {"response": "r", "tool_calls": [5]},
        {"response": "r", "usage": {"input_tokens": "many"}},
        {"response": "r", "context": [{"content": "c", "score": "high"}]},
    ],
)
def test_a_bad_row_is_said_so(row):
    """A row that holds no turn raises ValueError, and only that."""
    with pytest.raises(ValueError, match=r"."):
        to_turns(row)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["query", "response", "context", "ground_truth", "messages", "tool_calls", "conversation"]
)


@given(st.dictionaries(NAMES, JSON))
def test_any_object_is_turns_or_a_value_error(row):
    """Whatever stands in a row, it gives turns or a ValueError."""
    try:
        turns = to_turns(row)
    except ValueError:
        return
    assert turns and all(isinstance(turn, Turn) for turn in turns)
