"""Tool calls: valid, allowed, equal, successful, repeated."""

import pytest

from assay.records import ToolCall, ToolDefinition, Turn
from scorers.computed import tool_calls
from scorers.computed.calls import arguments_of, comparable

CITY = {"city": "Lyon"}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}


def call(arguments=CITY, name="weather", **more):
    return ToolCall(name=name, arguments=arguments, **more)


def turn(actual=(), expected=None, tools=(), **more):
    return Turn(
        turn_id="t",
        trace_id="0" * 32,
        query="Weather?",
        tool_calls=tuple(actual),
        reference_tool_calls=None if expected is None else tuple(expected),
        tool_definitions=tuple(tools),
        **more,
    )


def score(name, *args, **more):
    return getattr(tool_calls, name).bind()(turn(*args, **more))


@pytest.mark.parametrize(
    "arguments",
    [
        CITY,
        '{"city":"Lyon"}',
        '"{\\"city\\":\\"Lyon\\"}"',
        '"\\"{\\\\\\"city\\\\\\":\\\\\\"Lyon\\\\\\"}\\""',
    ],
)
def test_arguments_that_are_json_text(arguments):
    """Arguments encoded once, twice or three times equal the object."""
    assert arguments_of(call(arguments)) == CITY
    assert score("tool_parameter_kv_match", [call(arguments)], [call()]).value == 1.0
    assert score("tool_call_valid", [call(arguments)]).value == 1.0


def test_text_inside_the_arguments_stays_text():
    """A parameter that is meant to be JSON text is compared as text."""
    expected = call({"payload": '{"a": 1}'})
    assert (
        score("tool_parameter_kv_match", [call('{"payload":"{\\"a\\": 1}"}')], [expected]).value
        == 1
    )
    assert score("tool_parameter_kv_match", [call({"payload": {"a": 1}})], [expected]).value == 0


@pytest.mark.parametrize(
    ("actual", "keys", "values"),
    [
        ("{}", 1.0, 1.0),
        ("", 1.0, 1.0),
        (None, 1.0, 1.0),
        ('{"x":1}', 0.0, 0.0),
    ],
)
def test_a_tool_without_parameters(actual, keys, values):
    """Nothing equals nothing; an extra parameter is none of the reference's."""
    case = [call(actual)], [call({})]
    assert score("tool_parameter_key_match", *case).value == keys
    assert score("tool_parameter_kv_match", *case).value == values
    assert score("tool_name_match", *case).value == 1.0


def test_shares_are_over_the_larger_side():
    """Missing and extra parameters both cost; numbers are equal as numbers, booleans are not."""
    expected = call({"a": 1, "b": "x", "c": [1, {"d": 2}], "e": True})
    actual = call({"a": 1.0, "b": "X", "c": [1, {"d": 2.0}], "e": 1, "f": 0})
    assert score("tool_parameter_key_match", [actual], [expected]).value == 4 / 5
    assert score("tool_parameter_kv_match", [actual], [expected]).value == 2 / 5
    assert comparable(1) == comparable(1.0) != comparable(True)
    assert comparable("1") != comparable(1)


def test_no_call():
    """No call is skipped where none is expected, and 0 where one is."""
    for name in (
        "tool_name_match",
        "tool_parameter_key_match",
        "tool_calls_ordered_match",
        "tool_calls_unordered_match",
        "tool_call_valid",
    ):
        assert score(name, [], []).outcome == "skipped"
        assert score(name, [], [call()]).value == 0.0
    assert score("tool_calls_ordered_match", [call()], []).value == 0.0


def test_all_calls_in_order_and_as_a_multiset():
    """Order counts for one metric and not for the other; how often counts for both."""
    one, two = call(), call({"city": "Nice"})
    assert score("tool_calls_ordered_match", [two, one], [one, two]).value == 0.0
    assert score("tool_calls_unordered_match", [two, one], [one, two]).value == 1.0
    assert score("tool_calls_unordered_match", [one, one], [one]).value == 0.0


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (call(), 1.0),
        (call("not json"), 0.0),
        (call([1]), 0.0),
        (call(None), 0.0),
        (call(name=""), 0.0),
    ],
)
def test_valid(made, value):
    """A valid call has a name and an object of arguments."""
    assert score("tool_call_valid", [made]).value == value


def test_arguments_that_were_not_exported():
    """Where no text of the turn was exported, missing arguments are skipped and never a fault."""
    bare = Turn(turn_id="t", trace_id="0" * 32, tool_calls=(call(None),))
    assert tool_calls.tool_call_valid.bind()(bare).outcome_reason == "arguments absent"
    assert tool_calls.tool_call_schema_valid.bind()(bare).outcome_reason == "arguments absent"


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (call(), None),
        (call({"city": 5}), "weather: city breaks type string"),
        (call({}), "weather: value lacks city"),
        (call({"city": "Lyon", "x": 1}), "weather: value breaks additionalProperties"),
        (call(name="delete"), "delete: not a defined tool"),
        (call("text"), "weather: arguments are not an object"),
    ],
)
@pytest.mark.parametrize("schema", [SCHEMA, __import__("json").dumps(SCHEMA)])
def test_schema(made, problem, schema):
    """Each call's tool is defined and its arguments satisfy the schema; problems name no value."""
    tools = [ToolDefinition(name="weather", parameters=schema)]
    verdict = score("tool_call_schema_valid", [made], tools=tools)
    assert verdict.value == float(problem is None)
    assert verdict.details.get("problems", []) == ([problem] if problem else [])


@pytest.mark.parametrize("schema", [None, {}, "no json", {"type": "object"}, True])
def test_schemas_that_demand_nothing(schema):
    """A definition without a usable schema allows any object."""
    tools = [ToolDefinition(name="weather", parameters=schema)]
    assert score("tool_call_schema_valid", [call()], tools=tools).value == 1.0


def test_a_schema_that_cannot_be_used():
    """A broken definition says nothing about the call: skipped."""
    tools = [ToolDefinition(name="weather", parameters={"type": "str"})]
    verdict = score("tool_call_schema_valid", [call()], tools=tools)
    assert verdict.outcome_reason == "tool_definitions unusable"


def test_success_and_repetition():
    """Success is the share of recorded results; a call made three times is repeated."""
    calls = [
        call(result="12 C"),
        call(result="ERROR timeout"),
        call(result={"isError": True}),
        call(error="timeout"),
        call(),
    ]
    verdict = score("tool_call_success", calls)
    assert (verdict.value, verdict.reason) == (1 / 4, "failed: weather")
    assert verdict.details == {"calls": 4, "failed_tools": ["weather"]}
    assert score("tool_call_success", [call()]).outcome_reason == "result absent"
    assert score("tool_call_success", [call(result="error free")]).value == 1.0
    assert score("repeated_tool_call", [call(), call(), call('{"city": "Lyon"}')]).value == 1.0
    assert score("repeated_tool_call", [call(), call(), call({"city": "Nice"})]).value == 0.0
