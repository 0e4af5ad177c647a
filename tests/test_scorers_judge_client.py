"""The road to an endpoint: forms are learned, what may pass later is tried again, keys stay."""

import asyncio
import json
import logging
import time

import msgspec
import pytest
from judge_drive import (
    CASES,
    MODEL,
    TURN,
    StandInProcess,
    config_of,
    open_judge,
    own_prompt,
    verdict,
)

from assay.config import Config
from assay.errors import ConfigError
from assay.records import ERROR_REASONS, encode
from scorers.judge import judge_of
from scorers.judging import client as client_module
from scorers.judging.faults import rest_of, spent_until
from scorers.scoring import to_score


@pytest.fixture(scope="module")
def stand_in():
    process = StandInProcess()
    yield process
    process.stop()


def _bodies(stand_in):
    return stand_in.received()["requests"]


async def test_nothing_is_sent_without_a_judge_block(stand_in, monkeypatch):
    """A key in the environment alone makes no judge."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    assert judge_of(Config()) is None


async def test_environment_adds_nothing_to_a_request(stand_in, monkeypatch):
    """Key, organisation and address of the environment are not used."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "from-environment")
    stand_in.script()
    assert (await verdict(stand_in.base_url, "fluency")).outcome == "scored"
    assert "from-environment" not in json.dumps(stand_in.received()["headers"])


async def test_requests_say_nothing_of_the_machine(stand_in):
    """No header names the system, the language or the client's retries."""
    stand_in.script()
    await verdict(stand_in.base_url, "fluency", headers={"X-Team": "quality"})
    (headers,) = stand_in.received()["headers"]
    assert not [name for name in headers if name.startswith("x-stainless")]
    assert headers["x-team"] == "quality"


async def test_first_request_asks_for_the_strict_schema(stand_in):
    """The schema is strict, its keys in order, temperature 0, and room for the answer is named."""
    stand_in.script()
    await verdict(stand_in.base_url, "fluency")
    (body,) = _bodies(stand_in)
    form = body["response_format"]["json_schema"]
    assert form["strict"] is True
    assert list(form["schema"]["properties"]) == ["reason", "score"]
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0.0, 1024, MODEL)


@pytest.mark.parametrize(
    ("refuse", "left"),
    [
        (["json_schema", "object_schema"], {"response_format": {"type": "json_object"}}),
        (["response_format"], {"response_format": None}),
        (["temperature"], {"temperature": None}),
        (["max_tokens"], {"max_tokens": None, "max_completion_tokens": 1024}),
        (["max_tokens", "max_completion_tokens"], {"max_completion_tokens": None}),
        (["temperature", "max_tokens", "json_schema"], {"temperature": None}),
        (["json_schema", "object_schema", "json_object"], {"response_format": None}),
        (["seed"], {"seed": None}),
    ],
)
async def test_refused_parameter_is_left_out_from_then_on(stand_in, refuse, left):
    """A refusal is paid for once: later requests come in the form that was taken."""
    stand_in.script(refuse=refuse, overrides={"score": 4})
    judge, entries = open_judge(config_of(stand_in.base_url, "fluency", parameters={"seed": 7}))
    first = await judge.verdicts(TURN, entries)
    refused = len(_bodies(stand_in)) - 1
    second = await judge.verdicts(TURN, entries)
    bodies = _bodies(stand_in)
    await judge.stop()
    assert [v[0].value for v in (first, second)] == [4.0, 4.0]
    assert refused == len(bodies) - 2 >= len(refuse)
    for name, value in left.items():
        assert bodies[-1].get(name) == value


async def test_server_that_falls_over_the_form_is_asked_in_a_lesser_one(stand_in):
    """A status 500 that names the schema is a refusal of the form, not a fault to wait out."""
    error = {"message": "failed to parse grammar from json_schema"}
    ok = {"content": '{"reason": "r", "score": 4}'}
    stand_in.script(replies=[{"status": 500, "body": {"error": error}}, ok])
    assert (await verdict(stand_in.base_url, "fluency")).value == 4.0
    first, second = (body["response_format"] for body in _bodies(stand_in))
    assert second == {"type": "json_object", "schema": first["json_schema"]["schema"]}


async def test_many_calls_learn_together(stand_in):
    """Calls in flight while a refusal is learned all come through."""
    stand_in.script(refuse=["temperature", "max_tokens"], latency=0.01)
    judge, entries = open_judge(config_of(stand_in.base_url, "fluency"))
    found = await asyncio.gather(*(judge.verdicts(TURN, entries) for _ in range(20)))
    await judge.stop()
    assert {verdicts[0].outcome for verdicts in found} == {"scored"}


async def test_refused_system_role_opens_the_users_message(stand_in):
    """An endpoint without a system role gets the instructions before the evidence."""
    error = {"message": "System role not supported for this model", "param": "messages"}
    ok = {"content": '{"reason": "r", "score": 4}'}
    stand_in.script(replies=[{"status": 400, "body": {"error": error}}, ok])
    assert (await verdict(stand_in.base_url, "fluency")).value == 4.0
    first, second = _bodies(stand_in)
    assert [m["role"] for m in second["messages"]] == ["user"]
    assert second["messages"][0]["content"].startswith(first["messages"][0]["content"])


async def test_reasoning_model_gets_more_room_and_keeps_it(stand_in):
    """An answer cut at its limit is asked for once more with four times the room, remembered."""
    cut = {"content": "", "finish_reason": "length"}
    ok = {"content": '{"reason": "r", "score": 4}'}
    stand_in.script(replies=[cut, ok])
    judge, entries = open_judge(config_of(stand_in.base_url, "fluency"))
    assert (await judge.verdicts(TURN, entries))[0].value == 4.0
    assert (await judge.verdicts(TURN, entries))[0].value == 4.0
    await judge.stop()
    assert [body["max_tokens"] for body in _bodies(stand_in)] == [1024, 4096, 4096]


def _cases(name):
    for case in json.loads((CASES / f"{name}.judge.json").read_text())["cases"]:
        yield pytest.param(case, id=f"{name}-{case['name']}")


@pytest.mark.parametrize("case", [*_cases("B42"), *_cases("B44"), *_cases("B45")])
async def test_replies_that_people_met(stand_in, tmp_path, case):
    """Cut, mistyped and off-scale replies end as their cases say, over the wire."""
    stand_in.script(replies=case["replies"])
    found = await verdict(stand_in.base_url, "warranty", prompts=own_prompt(tmp_path))
    options = case["expect"].get("either", [case["expect"]])
    allowed = [(o.get("status"), o.get("score", o.get("score_if_ok"))) for o in options]
    allowed += [(s, o.get("score_if_ok")) for o in options for s in o.get("status_in", ())]
    status = "ok" if found.outcome == "scored" else "error"
    assert (status, found.value) in allowed
    assert found.outcome_reason is None or found.outcome_reason in ERROR_REASONS
    if "truncated" in case["expect"].get("reason_in", ()):
        assert found.outcome_reason == "truncated"
    assert stand_in.received()["calls"] == case["expect"].get("calls", stand_in.received()["calls"])
    assert stand_in.received()["calls"] <= 2


@pytest.mark.parametrize(
    ("reply", "outcome", "reason", "calls"),
    [
        ({"status": 401}, "error", "auth", 1),
        ({"status": 403}, "error", "auth", 1),
        ({"status": 404, "body": {"error": {"message": "no such model"}}}, "error", "exception", 1),
        (
            {"status": 400, "body": {"error": {"code": "content_filter"}}},
            "error",
            "content_filter",
            1,
        ),
        ({"content": "", "finish_reason": "content_filter"}, "error", "content_filter", 1),
        ({"content": None, "refusal": "no"}, "error", "refused", 1),
        ({"content": "I'm sorry, I can't help with that."}, "error", "refused", 1),
        ({"content": "", "finish_reason": "length"}, "error", "truncated", 2),
        ({"body": {"choices": []}}, "error", "unparsable", 2),
        ({"body": {"choices": "none"}}, "error", "unparsable", 2),
        ({"body": ["odd"]}, "error", "unparsable", 2),
        (
            {"status": 400, "body": {"error": {"code": "context_length_exceeded"}}},
            "overflow",
            "context",
            1,
        ),
    ],
)
async def test_failures_end_in_their_outcome(stand_in, reply, outcome, reason, calls):
    """Each way to fail has its closed reason, and is retried only where that can help."""
    stand_in.script(replies=[reply])
    found = await verdict(stand_in.base_url, "fluency")
    assert (found.outcome, found.outcome_reason, found.value) == (outcome, reason, None)
    assert stand_in.received()["calls"] == calls


async def test_busy_and_broken_answers_are_tried_again(stand_in):
    """429 waits for its Retry-After, 500 and dropped connections are repeated, then it scores."""
    ok = {"content": '{"reason": "r", "score": 4}'}
    busy = {"status": 429, "headers": {"retry-after": "0.7"}, "body": {}}
    stand_in.script(replies=[busy, {"status": 500}, {"mode": "close"}, ok])
    began = time.monotonic()
    found = await verdict(stand_in.base_url, "fluency")
    assert (found.value, found.judge_usage.calls) == (4.0, 4)
    assert time.monotonic() - began >= 0.7


async def test_rate_limit_headers_are_obeyed(stand_in):
    """When an answer says that no calls are left, the next one waits for the stated time."""
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "600ms"}
    stand_in.script(replies=[{"content": '{"score": 4}', "headers": headers}])
    judge, entries = open_judge(config_of(stand_in.base_url, "fluency"))
    await judge.verdicts(TURN, entries)
    began = time.monotonic()
    await judge.verdicts(TURN, entries)
    await judge.stop()
    assert 0.55 <= time.monotonic() - began < 3.0


@pytest.mark.parametrize(
    ("headers", "rest", "spent"),
    [
        ({}, None, 0.0),
        ({"retry-after": "2"}, 2.0, 0.0),
        ({"retry-after-ms": "250", "retry-after": "2"}, 0.25, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None, 0.0),
        ({"retry-after": "99999"}, 300.0, 0.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2.5s"}, None, 62.5),
        ({"x-ratelimit-remaining-tokens": "1", "x-ratelimit-reset-tokens": "1m"}, None, 0.0),
        ({"x-ratelimit-remaining-requests": "0"}, None, 0.0),
    ],
)
def test_waiting_times_in_headers(headers, rest, spent):
    """Seconds are read from every usual form, bounded, and never guessed."""
    assert (rest_of(headers), spent_until(headers)) == (rest, spent)


async def test_hung_call_ends_at_its_deadline(stand_in, monkeypatch):
    """A call that hangs every time is a timeout after a bounded number of calls."""
    monkeypatch.setattr(client_module, "MAX_FAULTS", 2)
    stand_in.script(replies=[{"mode": "hang"}])
    began = time.monotonic()
    found = await verdict(stand_in.base_url, "fluency", timeout=0.3)
    assert (found.outcome, found.outcome_reason) == ("error", "timeout")
    assert 0.6 <= time.monotonic() - began < 3.0


async def test_dead_endpoint_ends_after_the_stated_time():
    """Nothing listening: a timeout once the waiting time is over, not before."""
    began = time.monotonic()
    found = await verdict("http://127.0.0.1:9/v1", "fluency", give_up_after=1.5)
    assert (found.outcome, found.outcome_reason) == ("error", "timeout")
    assert time.monotonic() - began < 4.0


async def test_next_endpoint_serves_while_the_first_is_away(stand_in):
    """With two endpoints a dead first one costs a few probes and no score."""
    stand_in.script()
    second = {"base_url": stand_in.base_url, "model": "second-name"}
    judge, entries = open_judge(config_of("http://127.0.0.1:9/v1", "fluency", endpoints=[second]))
    found = await asyncio.gather(*(judge.verdicts(TURN, entries) for _ in range(30)))
    await judge.stop()
    assert {verdicts[0].outcome for verdicts in found} == {"scored"}
    assert {body["model"] for body in _bodies(stand_in)} == {"second-name"}


async def test_next_endpoint_serves_when_the_key_is_refused(stand_in):
    """An endpoint that refuses its key is left alone while another one serves."""
    good = StandInProcess()
    try:
        stand_in.script(replies=[{"status": 401}])
        endpoints = [{"base_url": good.base_url, "model": MODEL}]
        judge, entries = open_judge(config_of(stand_in.base_url, "fluency", endpoints=endpoints))
        found = [(await judge.verdicts(TURN, entries))[0] for _ in range(5)]
        await judge.stop()
    finally:
        good.stop()
    assert {one.outcome for one in found} == {"scored"}
    assert stand_in.received()["calls"] == 1


async def test_context_limit_is_learned_from_the_refusal(stand_in):
    """A refusal that names the model's context makes the evidence shorter, once and for later."""
    error = {"message": "This model's maximum context length is 3000 tokens."}
    too_long = {"status": 400, "body": {"error": error | {"code": "context_length_exceeded"}}}
    ok = {"content": '{"reason": "r", "score": 4}'}
    stand_in.script(replies=[too_long, ok])
    turn = msgspec.structs.replace(TURN, response="A long answer. " * 2000)
    found = await verdict(stand_in.base_url, "fluency", turn=turn)
    first, second = _bodies(stand_in)
    assert found.value == 4.0
    assert found.details["cut"]["response"] > 20_000
    assert len(json.dumps(second)) < 15_000 < len(json.dumps(first))


async def test_dead_endpoint_is_logged_once_and_when_it_is_back(stand_in, caplog):
    """An endpoint that goes away and comes back is two lines, however many calls it cost."""
    caplog.set_level(logging.INFO, logger="scorers.judging.endpoint")
    stand_in.script(replies=[{"status": 503}] * 12 + [{"content": '{"score": 4}'}])
    judge, entries = open_judge(config_of(stand_in.base_url, "fluency"))
    found = await asyncio.gather(*(judge.verdicts(TURN, entries) for _ in range(12)))
    await judge.stop()
    assert {verdicts[0].outcome for verdicts in found} == {"scored"}
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["the judge at 127.0.0.1 fails", "the judge at 127.0.0.1 works again"]


KEY = "sk-test-1234567890abcdefCANARY"


@pytest.mark.parametrize("case", [*_cases("B58")])
async def test_key_stays_secret(stand_in, case, caplog, capsys, monkeypatch):
    """An endpoint that echoes the key cannot get it into a log, a record or an error's text."""
    monkeypatch.setattr(client_module, "MAX_FAULTS", 2)
    caplog.set_level(logging.DEBUG)
    stand_in.script(replies=case["replies"])
    config = config_of(
        stand_in.base_url, "fluency", api_key=KEY, headers={"x-extra": KEY}, give_up_after=2.0
    )
    judge, entries = open_judge(config)
    (found,) = await judge.verdicts(TURN, entries)
    record = encode(to_score(TURN, entries[0], found, run="live"))
    state = repr((found, judge.client.counts, config, vars(judge.client)))
    await judge.stop()
    assert found.outcome == "error"
    assert found.outcome_reason in {"auth": ("auth",), "http": ("exception",)}.get(
        case["expect"]["reason_in"][0], ("timeout", "exception")
    )
    assert stand_in.received()["calls"] <= case["expect"].get("calls_max", 2)
    shown = "".join((caplog.text, *capsys.readouterr(), record.decode(), state))
    assert "CANARY" not in shown
    assert TURN.response not in shown


def test_budget_in_money_needs_a_price():
    """A budget in dollars with a model that nobody has a price for stops the start."""
    with pytest.raises(ConfigError) as caught:
        open_judge(config_of("http://x/v1", "fluency", model="odd", budget={"usd_per_day": 1}))
    assert "prices.odd" in str(caught.value)
    prices = {"odd": {"input": 1, "output": 2}}
    open_judge(
        config_of("http://x/v1", "fluency", model="odd", budget={"usd_per_day": 1}, prices=prices)
    )


async def test_spent_budget_is_an_outcome_without_a_call(stand_in):
    """When the day's money does not hold a call, the outcome is `budget` and nothing is sent."""
    stand_in.script()
    judge, entries = open_judge(
        config_of(stand_in.base_url, "fluency", budget={"usd_per_day": 0.002})
    )
    found = [(await judge.verdicts(TURN, entries))[0].outcome for _ in range(12)]
    await judge.stop()
    scored = found.count("scored")
    assert found == ["scored"] * scored + ["budget"] * (12 - scored)
    assert 0 < scored < 12
    assert stand_in.received()["calls"] == scored
    assert scored * 0.00021 <= 0.002


async def test_each_score_carries_its_cost(stand_in):
    """Tokens and dollars follow the endpoint's own count and the price table, cached ones apart."""
    usage = {
        "prompt_tokens": 2_000_000,
        "completion_tokens": 1_000_000,
        "prompt_tokens_details": {"cached_tokens": 1_000_000},
    }
    stand_in.script(replies=[{"content": '{"score": 4}', "usage": usage}])
    prices = {MODEL: {"input": 1.0, "cached": 0.5, "output": 3.0}}
    found = await verdict(stand_in.base_url, "fluency", prices=prices)
    assert found.judge_usage.cost == pytest.approx(4.5)
    assert found.judge_usage.cached_tokens == 1_000_000
    stand_in.script()
    unknown = await verdict(stand_in.base_url, "fluency", model="odd")
    assert unknown.judge_usage.cost is None
