"""Content that an SDK cut at its limit for the length of an attribute."""

import json
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector import dialects
from collector.dialects.torn import MARK, completed
from collector.spans import Span

QUESTION = "How long is the warranty? I bought the kettle in May."
ANSWER = "Two years, from the day of purchase."
HEARD = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Do you sell kettles?"},
    {"role": "assistant", "content": "We do."},
    {"role": "user", "content": QUESTION},
]
SPOKEN = [{"role": "assistant", "content": ANSWER}]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, min_size=1) | st.dictionaries(st.text(), inner, min_size=1),
)


def _read(**attributes):
    said = {name.replace("__", "."): value for name, value in attributes.items()}
    span = Span(
        trace_id="a" * 32,
        span_id="b" * 16,
        start=1,
        end=2,
        attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **said},
    )
    reading = dialects.read([span])
    return reading.turns[0], reading.unreadable


def _until(value, text):
    """The JSON of `value` up to the end of `text`."""
    whole = json.dumps(value)
    return whole[: whole.index(text) + len(text)]


@settings(deadline=None, max_examples=100)
@given(VALUES, st.booleans(), st.data())
def test_a_cut_value_is_read_as_far_as_it_goes(value, ascii_only, draw):
    """The beginning of any JSON array or object gives a value, which is JSON again, or nothing."""
    text = json.dumps([value], ensure_ascii=ascii_only)
    cut = text[: draw.draw(st.integers(0, len(text) - 1))]
    found = completed(cut)
    json.dumps(found).encode()
    if cut.count('"') > 1:
        assert type(found) is list
    assert completed(text) is None


def test_numbers_that_json_has_not_are_read():
    """Python writes NaN and infinities, which stand before a cut as well."""
    assert completed('[{"score": NaN, "bound": -Infinity, "text": "on').pop()["bound"] == -math.inf


@pytest.mark.parametrize(
    "text", ["[1] Sources say", "[INST] Hello", "{name}, hi", '["a" "b"', "plain", '{"a": 1}}', ""]
)
def test_what_is_no_json_stays_a_text(text):
    """A text that only begins like JSON is none that was cut."""
    assert completed(text) is None


def test_a_question_that_was_cut_is_marked():
    """What is left of the last text is the question, and the turn says that it was cut."""
    turn, unreadable = _read(
        gen_ai__input__messages=_until(HEARD, "kettle in"),
        gen_ai__output__messages=_until(SPOKEN, "the day"),
    )
    assert turn.query == "How long is the warranty? I bought the kettle in" + MARK
    assert turn.response == "Two years, from the day" + MARK
    assert (turn.system, len(turn.messages)) == ("You help.", 2)
    assert turn.truncated
    assert not unreadable


@pytest.mark.parametrize("last", ["We", "We do.", 'We do."}', "assistant"])
def test_a_question_after_the_cut_is_not_replaced_by_an_older_one(last):
    """Where the newest messages were cut off, the call counts as unreadable and has no question."""
    turn, unreadable = _read(
        gen_ai__input__messages=_until(HEARD, last), gen_ai__output__messages=json.dumps(SPOKEN)
    )
    assert (turn.query, turn.response) == (None, ANSWER)
    assert unreadable == {"genai": 1}


def test_a_cut_within_the_work_on_a_question_keeps_it():
    """What follows the last question may be cut: calls of tools and their results."""
    called = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "look_up"}}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "shipped on Monday"}
    turn, _ = _read(
        gen_ai__input__messages=_until([*HEARD, called, result], "shipped"),
        gen_ai__output__messages=json.dumps(SPOKEN),
    )
    assert turn.query == QUESTION
    assert [call.name for call in turn.tool_calls] == ["look_up"]


@pytest.mark.parametrize(
    "text",
    [
        '["' + "word \\n" * 100_000,
        "[" * 500_000 + '"',
        '[{"a":1,"b":2},' * 40_000,
        '["' + "\\" * 500_001,
    ],
)
def test_long_cuts_take_time_in_proportion(text):
    """Half a megabyte of any nesting is read within a second."""
    began = time.process_time()
    completed(text)
    assert time.process_time() - began < 1
