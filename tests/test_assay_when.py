from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError
from assay.records import Document, ToolCall, Turn, Usage
from assay.when import MAX_LENGTH, compile

TURN = Turn(
    turn_id="t-0",
    trace_id="t",
    app="shop",
    query="A refund, please",
    error="timeout",
    usage=Usage(input_tokens=0, output_tokens=1200),
    documents=(Document(content="a"), Document(content="b")),
    tool_calls=(ToolCall(name="search"),),
    started_at=1_000_000_000,
    ended_at=22_500_000_000,
    labels={"tier": "gold", "user.plan": "pro", "a-b": "1"},
    ground_truth=("x", "y"),
    orphan=True,
)
EMPTY = Turn(turn_id="e-0", trace_id="e")


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("error", True),
        ("not error", False),
        ("latency > 20", True),
        ("latency > 21.5", False),
        ("20 < latency <= 21.5", True),
        ("documents", True),
        ("len(documents) == 2", True),
        ("len(query) > 100", False),
        ("len(ground_truth) == 2", True),
        ("app in ['shop', 'support']", True),
        ("app not in ('shop', 'support')", False),
        ("'refund' in query", True),
        ("'Refund' in query", False),
        ("usage.output_tokens >= 1000 and usage.input_tokens == 0", True),
        ("usage.input_tokens", False),
        ("labels.tier == 'gold'", True),
        ("labels.user.plan == 'pro'", True),
        ("labels['a-b'] == '1'", True),
        ("'tier' in labels", True),
        ("labels.missing == 'x' or orphan", True),
        ("orphan == true", True),
        ("orphan != True", False),
        ("ordinal > -1", True),
        ("  app == 'shop'\n  and error  ", True),
        ("not (app == 'shop' and not error)", True),
        ("ground_truth < 3", False),
    ],
)
def test_an_expression_reads_the_turn(expression: str, holds: bool) -> None:
    """Fields, nested names, comparisons, logic, membership and len() mean what they say."""
    assert compile(expression)(TURN) is holds


@pytest.mark.parametrize(
    "expression",
    [
        "latency > 0",
        "latency <= 0",
        "usage.cost == 1",
        "usage.cost != 1",
        "error == 'x'",
        "error != 'x'",
        "labels.tier != 'gold'",
        "labels.tier not in ['gold']",
        "'x' in query",
        "'x' not in query",
        "len(response) == 0",
        "error",
        "documents",
        "finish_reason",
    ],
)
def test_what_is_not_there_compares_false(expression: str) -> None:
    """Every comparison with a missing value is false, negative ones included."""
    assert compile(expression)(EMPTY) is False


def test_latency_needs_both_ends_in_order() -> None:
    """A turn that ends before it starts, or has no times, has no latency."""
    slow = compile("latency >= 0")
    assert not slow(Turn(turn_id="", trace_id="", started_at=5, ended_at=4))
    assert not slow(Turn(turn_id="", trace_id="", ended_at=4))
    assert slow(Turn(turn_id="", trace_id="", started_at=5, ended_at=5))


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("latncy > 20", "column 1: unknown field 'latncy': did you mean 'latency'?"),
        ("  error and usage.tokens > 3", "column 13: unknown field 'usage.tokens'"),
        ("'é' == latncy", "column 8: unknown field"),
        ("latency > '20'", "column 11: a number > a text is never true"),
        ("documents > 3", "column 13: a list > a number is never true"),
        ("'a' in 3", "column 8: a text in a number is never true"),
        ("error == None", "column 10: None cannot be compared"),
        ("error is 3", "column 10: only ==, !="),
        ("len(latency) > 1", "column 5: len() wants a list or a text, not a number"),
        ("app in [model]", "column 9: a list holds texts and numbers only"),
        ("app ==", "column "),
        ("a b", "column 3: "),
        ("draw < 0.1", "column 1: unknown field 'draw'"),
        ("app.__class__", "column 1: unknown field 'app.__class__'"),
        ("tool_calls[0]", "column 1: a field is"),
        ("__import__('os')", "column 1: only fields"),
        ("(lambda: 1)()", "column 1: only fields"),
        ("[x for x in documents]", "column 1: only fields"),
        ("f'{app}'", "column 1: only fields"),
        ("1 + 1", "column 1: only fields"),
        ("", "the expression is empty"),
        (" \n ", "the expression is empty"),
        ("a" * (MAX_LENGTH + 1), "the expression is longer"),
        ("app == '\0'", "column 1: "),
        ("app == '\ud800'", "column 1: not readable"),
    ],
)
def test_a_fault_names_its_position(expression: str, fault: str) -> None:
    """What is wrong is said with its column when the settings are read."""
    with pytest.raises(ConfigError) as raised:
        compile(expression)
    assert raised.value.faults[0].startswith(fault)


@given(st.text(max_size=60))
def test_any_text_compiles_or_is_a_config_error(text: str) -> None:
    """No text does anything but compile or raise ConfigError."""
    try:
        test = compile(text)
    except ConfigError:
        return
    assert test(TURN) in (True, False)


NAMES = ["error", "latency", "labels.x", "usage.cost", "documents", "query", "ground_truth"]
SYMBOLS = ["(", ")", "and", "or", "not", "in", "<", "==", "len(", "[", "]", ",", "-", "."]
FRAGMENTS = st.sampled_from([*NAMES, *SYMBOLS, "3", "'a'", "True"])


@given(st.lists(FRAGMENTS, max_size=12))
def test_any_sequence_of_words_of_the_language_is_safe(words: list[str]) -> None:
    """What compiles never raises, whatever the turn holds."""
    try:
        test = compile(" ".join(words))
    except ConfigError:
        return
    for turn in (TURN, EMPTY):
        assert test(turn) in (True, False)


ATOMS = st.sampled_from(["error", "documents", "orphan", "latency > 20", "app == 'x'"])
TREES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        inner.map(lambda a: f"not ({a})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]}) and ({p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]}) or ({p[1]})"),
    ),
    max_leaves=8,
)


@given(TREES)
def test_logic_composes(expression: str) -> None:
    """and, or and not combine the truth of their parts."""
    known = {atom: compile(atom)(TURN) for atom in ("error", "documents", "orphan")}
    text = expression
    for source, value in [("latency > 20", True), ("app == 'x'", False), *known.items()]:
        text = text.replace(source, str(value))
    assert compile(expression)(TURN) == eval(text)


def test_a_compiled_expression_pickles() -> None:
    """Scorer processes get the same test."""
    assert pickle.loads(pickle.dumps(compile("error")))(TURN)
