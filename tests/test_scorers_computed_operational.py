"""Metrics that are read from the spans."""

import pytest

from assay.catalogue import METRICS
from assay.records import Feedback, Turn, Usage
from scorers.computed import operational
from scorers.computed.operational import CostOptions
from scorers.plan import Entry
from scorers.prices import Price, price_of
from scorers.scoring import score_turn

SECOND = 10**9


def turn(**fields):
    return Turn(turn_id="t", trace_id="0" * 32, **fields)


def score(name, options=None, **fields):
    scorer = getattr(operational, name)
    entry = Entry(scorer, METRICS[name], options=options)
    return score_turn(turn(**fields), [entry], group="local", scored_at=1).scores[0]


def test_zero_missing_and_nonsense_are_three_things():
    """0 tokens is the value 0, none is skipped, a negative count is an error without a value."""
    for name in ("input_tokens", "output_tokens"):
        assert score(name, usage=Usage(**{name: 0})).value == 0.0
        assert score(name).outcome_reason == f"{name} absent"
        negative = score(name, usage=Usage(**{name: -1}))
        assert (negative.outcome, negative.outcome_reason) == ("error", "out_of_range")
        assert negative.value is None


def test_times():
    """Latency is in seconds; a turn that ended before it began is an error."""
    assert score("latency_seconds", started_at=SECOND, ended_at=3 * SECOND).value == 2.0
    assert score("latency_seconds", ended_at=SECOND).outcome == "skipped"
    assert score("latency_seconds", started_at=2 * SECOND, ended_at=SECOND).outcome == "error"
    assert score("time_to_first_token_seconds", time_to_first_token=0.0).value == 0.0
    assert score("time_to_first_token_seconds").outcome == "skipped"


def test_cost():
    """The price table first, cached tokens apart; else what the app exported; else skipped."""
    prices = CostOptions(prices={"m": Price(input=1.0, output=2.0, cached=0.5)})
    usage = Usage(input_tokens=3_000_000, output_tokens=1_000_000, cached_tokens=1_000_000)
    assert score("cost_usd", prices, model="m", usage=usage).value == 2 + 0.5 + 2
    assert score("cost_usd", prices, model="m-2025-01-01", usage=usage).value == 4.5
    assert score("cost_usd", prices, model="x", usage=Usage(cost=0.25)).value == 0.25
    assert score("cost_usd", prices, model="x", usage=usage).outcome_reason == "price absent"
    unknown = score("cost_usd", prices, model="m")
    assert unknown.outcome_reason == "input_tokens or output_tokens absent"


def test_price_of_the_closest_name():
    """A dated release has the price of its model, and no look-alike."""
    prices = {"gpt-4o": Price(1, 1), "gpt-4o-mini": Price(2, 2)}
    assert price_of("gpt-4o-mini-2024-07-18", prices).input == 2
    assert price_of("gpt-4o-2024-08-06", prices).input == 1
    assert price_of("gpt-4omni", prices) is None


@pytest.mark.parametrize(
    ("name", "fields", "value"),
    [
        ("turn_error", {"error": "timeout"}, 1.0),
        ("turn_error", {}, 0.0),
        ("empty_response", {"response": " \n"}, 1.0),
        ("empty_response", {"response": "yes"}, 0.0),
        ("empty_response", {}, None),
        ("truncated", {"finish_reason": "length"}, 1.0),
        ("truncated", {"finish_reason": "MAX_TOKENS"}, 1.0),
        ("truncated", {"finish_reason": "stop"}, 0.0),
        ("truncated", {}, None),
        ("json_valid", {"response": "{}", "response_format": {"type": "json_object"}}, 1.0),
        ("json_valid", {"response": "{", "response_format": "json"}, 0.0),
        ("json_valid", {"response": "{}", "response_format": {"type": "text"}}, None),
        ("json_valid", {"response": "hello"}, None),
    ],
)
def test_faults(name, fields, value):
    """Each fault is seen, its absence too, and what is not there is skipped."""
    found = score(name, **fields)
    assert found.value == value
    assert found.outcome == ("skipped" if value is None else "scored")
    if value is not None:
        assert found.passed == (value == 1.0 if name == "json_valid" else value == 0.0)


def test_json_is_checked_against_its_schema():
    """Where a schema was declared the answer must satisfy it."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    declared = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert score("json_valid", response='{"n": 1}', response_format=declared).value == 1.0
    wrong = score("json_valid", response='{"n": "secret"}', response_format=declared)
    assert (wrong.value, wrong.reason) == (0.0, "n breaks type integer")


def test_language():
    """An answer in another language than the question's is a fault; an unclear one is skipped."""
    english = "Do you deliver on Sundays to my house?"
    german = "Ja, wir liefern auch am Sonntag und das ist nicht teuer."
    assert score("response_language_mismatch", query=english, response=german).value == 1.0
    assert score("response_language_mismatch", query=english, response=english).value == 0.0
    assert score("response_language_mismatch", query=english, response="ok").outcome == "skipped"


def test_feedback():
    """The user's latest judgement counts, a thumb as 1 or 0, another evaluator's not at all."""
    thumb = Feedback(name="user_feedback", label="thumbs_down")
    other = Feedback(name="faithfulness", value=0.9)
    assert score("user_feedback", feedback=(thumb, other)).value == 0.0
    assert score("user_feedback", feedback=(other,)).outcome == "skipped"
    assert score("user_feedback", feedback=(Feedback(name="user_rating", value=4.0),)).value == 4.0
