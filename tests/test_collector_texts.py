from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from assay.records import Document, Message, ToolCall, Turn, decode_turn
from collector.texts import MAX_ITEMS, cut, fit, map_texts, mend


def turn(**fields) -> Turn:
    return Turn(turn_id="a-0", trace_id="a", **fields)


def test_a_short_text_stays() -> None:
    """Up to the limit nothing is cut."""
    assert cut("abc", 3) == "abc"


@given(st.text(min_size=1, max_size=300), st.integers(2, 100))
def test_a_cut_text_keeps_its_ends_and_says_how_much_is_gone(text: str, limit: int) -> None:
    """Start and end are the text's own, and the mark counts the characters between them."""
    short = cut(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    half = limit // 2
    gone = len(text) - 2 * half
    assert short == f"{text[:half]}\n[... {gone} characters cut ...]\n{text[-half:]}"


def test_a_turn_within_the_bounds_is_the_same_object() -> None:
    """Nothing is copied or marked where nothing is cut."""
    one = turn(query="hello", documents=(Document(content="x"),))
    same, value = fit(one, 1000)
    assert same is one
    assert decode_turn(value) == one
    assert not same.truncated


def test_a_long_text_is_cut_wherever_it_is() -> None:
    """Also inside documents, messages, arguments and results; the rest of the turn stays."""
    long = "x" * 5000
    one = turn(
        query="short",
        documents=(Document(content=long),),
        messages=(Message(role="user", content=long),),
        tool_calls=(ToolCall(name="f", arguments={"deep": [long]}, result=long),),
    )
    same, value = fit(one, 3000)
    assert same.truncated
    assert decode_turn(value).truncated
    assert same.query == "short"
    assert "x" * 3001 not in value.decode()
    assert same.tool_calls[0].arguments["deep"][0].startswith("x" * 500)


def test_a_turn_of_many_texts_is_cut_until_it_fits() -> None:
    """Each text within its limit is not enough: the whole is bounded to about four of them."""
    one = turn(documents=tuple(Document(content="x" * 9000) for _ in range(30)))
    same, value = fit(one, 10_000)
    assert len(value) <= 40_000
    assert same.truncated
    assert len(same.documents) == 30


def test_a_turn_of_very_many_items_keeps_some() -> None:
    """When shorter texts do not help, only the latest messages and first documents stay."""
    one = turn(
        query="Q?",
        messages=tuple(Message(role="user", content=f"message {n}") for n in range(5000)),
    )
    same, value = fit(one, 2000)
    assert same.query == "Q?"
    assert [m.content for m in same.messages][-1] == "message 4999"
    assert len(same.messages) == MAX_ITEMS
    assert len(value) < 8000


def test_half_characters_do_not_stop_a_turn() -> None:
    """Lone surrogates, which no encoding holds, become U+FFFD; pairs become their character."""
    _, value = fit(turn(query="a\ud83d", tool_calls=(ToolCall(arguments={"\udc00": 1}),)), 1000)
    decoded = decode_turn(value)
    assert decoded.query == "a\ufffd"
    assert decoded.tool_calls[0].arguments == {"\ufffd": 1}
    assert mend("\ud83d\ude00 x") == "\U0001f600 x"


@given(st.text(st.characters(), max_size=50))
def test_any_text_can_be_encoded(text: str) -> None:
    """Whatever a reader made of a payload, its turn has a JSON form."""
    _, value = fit(turn(query=text, labels={"k": text}), 20)
    json.loads(value)
    assert decode_turn(value).turn_id == "a-0"


def test_every_text_is_shown_to_the_function_but_names() -> None:
    """Texts at any depth and keys of mappings are; ids and the app's own names are not."""
    seen: list[str] = []

    def note(text: str) -> str:
        seen.append(text)
        return text

    one = turn(
        app="app",
        model="model",
        query="query",
        ground_truth=("a", "b"),
        tool_calls=(ToolCall(name="tool", arguments={"key": [{"inner": "value"}, 7, None, True]}),),
    )
    assert map_texts(one, note) is one
    assert set(seen) == {"", "query", "a", "b", "tool", "key", "inner", "value", "7"}
    assert map_texts(one, lambda text: text.upper()).tool_calls[0].arguments == {
        "KEY": [{"INNER": "VALUE"}, 7, None, True]
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_the_structure_stays(value) -> None:
    """The identity returns the very object, and a function that marks texts changes only them."""
    assert map_texts(value, lambda text: text) is value
    marked = map_texts(value, lambda text: text if text.lstrip("-").isdecimal() else f"<{text}>")
    back = map_texts(marked, lambda text: text[1:-1] if text.startswith("<") else text)
    assert back == value
