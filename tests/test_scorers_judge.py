"""Every judge metric by its contract, and the ways to ask several at once or one in parts."""

import gzip
import json

import msgspec
import pytest
from judge_drive import (
    CASES,
    LIBRARY,
    TURN,
    StandInProcess,
    config_of,
    open_judge,
    own_prompt,
    verdict,
    verdicts,
)

from assay.catalogue import HARMS, METRICS, SETS, forms
from assay.config import Config
from assay.errors import ConfigError
from assay.records import Document, Message, Turn
from scorers.judge import judge_of
from scorers.registry import resolve
from scorers.scoring import to_score

JUDGED = [
    name
    for name, metric in METRICS.items()
    if (set(metric.categories) & {"quality", "safety"} and name != "content_safety")
] + [
    "tool_call_accuracy",
    "intent_resolution",
    "task_adherence",
    "task_completion",
    "tool_selection",
    "tool_input_accuracy",
    "tool_output_utilization",
]
ANSWERED = {  # what the judge answers for: pass, fail
    "retrieval_score": ({"answered": True}, {"answered": False}),
    "summarization_verbosity": ({"score": 0}, {"score": 2}),
    "hate_unfairness": ({"score": 3}, {"score": 4}),
}
NEVER_FAIL = {"refusal", "pairwise_summarization_quality", "pairwise_question_answering_quality"}


@pytest.fixture(scope="module")
def stand_in():
    process = StandInProcess()
    yield process
    process.stop()


def _answers(name):
    metric = METRICS[name]
    if name in ANSWERED:
        return ANSWERED[name]
    if name in HARMS:
        return ANSWERED["hate_unfairness"]
    if metric.direction == "true_is_bad":
        return {"score": False, "applicable": True}, {"score": True, "applicable": True}
    if name == "groundedness_pro":
        return {"score": True}, {"score": False}
    if metric.low == 0.0:
        return {"score": 1}, {"score": 0}
    return {"score": 3}, {"score": 2}


async def _scores(stand_in, name, turn=TURN, **settings):
    named = f"builtin.{name}" if name in SETS else name
    judge, entries = open_judge(config_of(stand_in.base_url, named, **settings))
    found = await judge.verdicts(turn, entries)
    await judge.stop()
    return [to_score(turn, e, v, run="live") for e, v in zip(entries, found, strict=True)]


def test_every_judge_metric_is_held_to_its_contract():
    """A prompt's metric is among those tested here, or asked of whole conversations alone."""
    asked = {prompt.metric for prompt in LIBRARY if prompt.file.family != "part"}
    assert asked == {*JUDGED, "customer_satisfaction"}


@pytest.mark.parametrize("name", JUDGED)
async def test_metric_passes_and_fails_at_its_threshold(stand_in, name):
    """The least passing answer passes, the next one fails, by the catalogue's contract."""
    for answer, good in zip(_answers(name), (True, False), strict=True):
        stand_in.script(overrides=answer)
        for score in await _scores(stand_in, name):
            metric = METRICS[name]
            assert (score.outcome, score.metric) == ("scored", name)
            assert (score.direction, score.threshold) == (metric.direction, metric.threshold)
            assert score.prompt_digest
            assert score.judge_usage.input_tokens >= 1000
            if name in NEVER_FAIL:
                assert score.passed is None
            else:
                assert score.passed is good


@pytest.mark.parametrize("name", JUDGED)
async def test_metric_is_skipped_without_its_inputs(stand_in, name):
    """Each required input that is absent or blank skips the metric, names it, and sends nothing."""
    stand_in.script()
    for metric in forms(name):
        for need in metric.needs:
            fields = need.split("|")
            blank = msgspec.structs.replace(TURN, **{f: _blank(f) for f in fields})
            scores = await _scores(stand_in, name, turn=blank)
            (score,) = [s for s in scores if s.subject == metric.subject]
            assert score.outcome == "skipped"
            assert any(field in score.outcome_reason for field in fields)
            assert score.judge_usage is None


def _blank(field):
    return () if isinstance(getattr(TURN, field), tuple) else None


@pytest.mark.parametrize("name", JUDGED)
async def test_metric_errs_on_an_odd_answer(stand_in, name):
    """An answer off the scale is an error after one more try, and never a value."""
    stand_in.script(replies=[{"content": '{"reason": "r", "score": 99, "label": "both"}'}])
    for score in await _scores(stand_in, name):
        assert (score.outcome, score.value, score.label) == ("error", None, None)
        assert score.outcome_reason in ("out_of_range", "unparsable")


@pytest.mark.parametrize("name", HARMS)
@pytest.mark.parametrize("level", range(8))
async def test_every_severity_of_every_harm(stand_in, name, level):
    """Severities 0 to 3 pass, 4 to 7 fail, for response and query, with the level's name."""
    stand_in.script(overrides={"score": level})
    names = ["very low", "very low", "low", "low", "medium", "medium", "high", "high"]
    for score in await _scores(stand_in, name):
        assert (score.value, score.passed, score.label) == (level, level <= 3, names[level])
        assert score.kind == ("attempt" if score.subject == "query" else "defect")


async def test_query_harm_shows_the_query_alone(stand_in):
    """The harm of a query is judged without the response, by a prompt that says so."""
    stand_in.script(overrides={"score": 0})
    scores = await _scores(stand_in, "violence")
    bodies = {b["messages"][1]["content"]: b for b in stand_in.received()["requests"]}
    (query_only,) = [text for text in bodies if TURN.response not in text]
    assert TURN.query in query_only
    assert "in the user's query" in bodies[query_only]["messages"][0]["content"]
    assert len({score.prompt_digest for score in scores}) == 2


async def test_content_safety_adds_the_worst_without_a_call(stand_in):
    """The composite expands into the harms and takes the worst of the response's."""
    stand_in.script(overrides={"score": 5})
    found = await verdicts(stand_in.base_url, "content_safety")
    assert found["content_safety"].value == 5.0
    assert found["content_safety"].judge_usage is None
    assert stand_in.received()["calls"] == 8


async def test_score_carries_the_models_name(stand_in):
    """The engine of a Score is the model that judged, chosen per metric where the settings do."""
    stand_in.script()
    other = {"fluency": {"engine": "judge", "options": {"model": "gpt-5-nano"}}}
    judge, entries = open_judge(config_of(stand_in.base_url, "coherence", other))
    await judge.verdicts(TURN, entries)
    await judge.stop()
    asked = {body["model"] for body in stand_in.received()["requests"]}
    assert [judge.model_of(entry) for entry in entries] == ["gpt-4o-mini", "gpt-5-nano"]
    assert asked == {"gpt-4o-mini", "gpt-5-nano"}


async def test_older_edition_is_selectable(stand_in):
    """Another prompt of the same metric may be chosen; one of another metric may not."""
    stand_in.script(overrides={"score": 5})
    chosen = {"groundedness": {"engine": "judge", "options": {"prompt": "groundedness_entailment"}}}
    assert (await verdict(stand_in.base_url, chosen)).label == "entailed"
    wrong = {"groundedness": {"engine": "judge", "options": {"prompt": "fluency"}}}
    with pytest.raises(ConfigError):
        open_judge(config_of(stand_in.base_url, wrong))


async def test_groundedness_without_a_query_judges_a_summary(stand_in):
    """Without a query the levels are those of a text that restates its context."""
    stand_in.script(overrides={"score": 2})
    turn = msgspec.structs.replace(TURN, query=None)
    assert (
        await verdict(stand_in.base_url, "groundedness", turn=turn)
    ).label == "contradicts the context"
    assert (await verdict(stand_in.base_url, "groundedness")).label == "on topic, does not answer"


async def test_samples_give_a_consensus(stand_in):
    """Three answers come from one request where the endpoint can, and their spread is shown."""
    stand_in.script(overrides={"score": 4})
    found = await verdict(stand_in.base_url, "fluency", samples=3)
    (body,) = stand_in.received()["requests"]
    assert (body["n"], body["temperature"]) == (3, 0.7)
    assert (found.value, found.confidence) == (4.0, 1.0)
    assert found.details["samples"] == [4.0, 4.0, 4.0]


async def test_samples_are_topped_up_one_by_one(stand_in):
    """An endpoint that gives one choice, or refuses several, is asked as often as needed."""
    stand_in.script(overrides={"score": 4}, choices=False)
    found = await verdict(stand_in.base_url, "fluency", samples=3)
    assert (found.confidence, stand_in.received()["calls"]) == (1.0, 3)
    stand_in.script(overrides={"score": 4}, refuse=["n"])
    found = await verdict(stand_in.base_url, "fluency", samples=3)
    assert (found.confidence, stand_in.received()["calls"]) == (1.0, 4)


async def test_minority_of_samples_is_no_verdict(stand_in):
    """When most answers cannot be read there is no consensus of the rest."""
    bad = {"content": "no"}
    stand_in.script(choices=False, replies=[{"content": '{"score": 4}'}, bad, bad])
    found = await verdict(stand_in.base_url, "fluency", samples=3)
    assert (found.outcome, found.outcome_reason) == ("error", "unparsable")


async def test_pair_is_asked_in_both_orders(stand_in):
    """Each response stands once as A and once as B, under neutral names."""
    stand_in.script(replies=[{"content": '{"label": "A"}'}, {"content": '{"label": "B"}'}])
    found = await verdict(stand_in.base_url, "pairwise_question_answering_quality")
    assert (found.label, found.confidence) == ("CANDIDATE", 1.0)
    first, second = (b["messages"][1]["content"] for b in stand_in.received()["requests"])
    assert first.index(TURN.response) < first.index(TURN.baseline_response)
    assert second.index(TURN.baseline_response) < second.index(TURN.response)
    assert "baseline" not in first.replace(TURN.baseline_response, "").lower()
    stand_in.script(replies=[{"content": '{"label": "A"}'}])
    assert (await verdict(stand_in.base_url, "pairwise_question_answering_quality")).label == "TIE"


BUNDLED = ("groundedness", "relevance", "coherence", "fluency", "similarity")


async def test_bundle_is_one_call_with_a_score_each(stand_in):
    """Quality metrics share one call, the harms of the response another; costs add up."""
    stand_in.script(overrides={"score": 4})
    found = await verdicts(stand_in.base_url, *BUNDLED, *HARMS, bundle=True)
    bodies = stand_in.received()["requests"]
    assert len(bodies) == 3
    assert [found[name].value for name in BUNDLED] == [4.0] * 5
    assert len({found[name].prompt_digest for name in BUNDLED}) == 1
    assert sum(found[name].judge_usage.input_tokens for name in BUNDLED) == 1000
    assert sum(found[name].judge_usage.calls for name in BUNDLED) == 1
    quality = next(b for b in bodies if "fluency" in json.dumps(b))
    text = quality["messages"][1]["content"]
    assert text.count(TURN.response) == 1
    assert quality["max_tokens"] > 1024


async def test_bundle_says_what_it_lacks_and_what_it_could_not_read(stand_in):
    """One section's fault is that metric's alone, and a missing input skips only its metric."""
    content = json.dumps(
        {
            "relevance": {"reason": "r", "score": 9},
            "coherence": {"reason": "r", "score": "4"},
            "Fluency": {"reason": "r", "score": 2},
        }
    )
    stand_in.script(replies=[{"content": content}])
    turn = msgspec.structs.replace(TURN, ground_truth=None, documents=())
    found = await verdicts(stand_in.base_url, *BUNDLED, turn=turn, bundle=True)
    assert {name: (v.outcome, v.value) for name, v in found.items()} == {
        "groundedness": ("skipped", None),
        "relevance": ("error", None),
        "coherence": ("scored", 4.0),
        "fluency": ("scored", 2.0),
        "similarity": ("skipped", None),
    }


async def test_context_that_cannot_fit_is_judged_in_parts(stand_in):
    """Claims are listed once, checked against every part, and supported when any part does."""
    stand_in.script(
        truth=True,
        overrides={
            "claims": [
                {"item": "The warranty is two years.", "reason": "r", "checkable": True},
                {"item": "It covers kettles.", "reason": "r", "checkable": True},
            ]
        },
    )
    documents = tuple(Document(content=f"Fact {n}. " + "words " * 1500) for n in range(12))
    turn = msgspec.structs.replace(TURN, documents=documents)
    found = await verdict(stand_in.base_url, "groundedness", turn=turn, context_tokens=8000)
    bodies = stand_in.received()["requests"]
    assert (found.value, found.details["claims"], found.details["unsupported"]) == (5.0, 2, [])
    assert len(bodies) >= 4
    everything = json.dumps(bodies)
    assert all(f"Fact {n}." in everything for n in range(12))
    assert found.judge_usage.calls == len(bodies)


async def test_part_with_a_wrong_count_of_verdicts_is_an_error(stand_in):
    """A part that judges fewer claims than there are ends the score as an error, not as a share."""
    claims = {
        "claims": [{"item": f"claim {n}", "reason": "r", "checkable": True} for n in range(3)]
    }
    short = {"verdicts": [{"n": 1, "reason": "r", "supported": True}]}
    stand_in.script(overrides=claims | short)
    turn = msgspec.structs.replace(TURN, documents=(Document(content="words " * 30_000),))
    found = await verdict(stand_in.base_url, "groundedness_pro", turn=turn, context_tokens=8000)
    assert (found.outcome, found.outcome_reason) == ("error", "unparsable")
    stand_in.script(overrides={"claims": []})
    found = await verdict(stand_in.base_url, "groundedness_pro", turn=turn, context_tokens=8000)
    assert found.outcome == "not_applicable"


async def test_long_text_is_shortened_and_said(stand_in):
    """Other metrics shorten what is too long, say what was cut, and score as usual."""
    stand_in.script(overrides={"score": 4})
    turn = msgspec.structs.replace(
        TURN, messages=tuple(Message(role="user", content="chat " * 500) for _ in range(60))
    )
    found = await verdict(stand_in.base_url, "relevance", turn=turn, context_tokens=8000)
    assert (found.value, list(found.details["cut"])) == (4.0, ["history"])
    assert "messages left out" in json.dumps(stand_in.received()["requests"])


async def test_own_metric_from_a_file_alone(stand_in, tmp_path):
    """A prompt file in the user's folder is a metric with its scale, direction and threshold."""
    stand_in.script(overrides={"score": 0.4})
    scores = await _scores(stand_in, "warranty", prompts=str(own_prompt(tmp_path)))
    assert [(s.metric, s.value, s.passed, s.threshold) for s in scores] == [
        ("warranty", 0.4, False, 0.5)
    ]


async def test_rubric_metric_from_a_file_alone(stand_in, tmp_path):
    """Criteria in a file that extends `rubric` give the weighted share that is met."""
    (tmp_path / "tone.yaml").write_text(
        "extends: rubric\nname: tone\nversion: '1'\nfamily: quality\nquestion: Is the tone ours?\n"
        "criteria:\n- {text: It is polite., weight: 3}\n- {text: It names the product.}\n"
    )
    verdicts_ = [{"n": 1, "reason": "r", "met": True}, {"n": 2, "reason": "r", "met": False}]
    stand_in.script(overrides={"verdicts": verdicts_})
    (score,) = await _scores(stand_in, "tone", prompts=str(tmp_path))
    assert (score.value, score.passed) == (0.75, True)
    text = stand_in.received()["requests"][0]["messages"][1]["content"]
    assert text.index("It is polite.") < text.index("It names the product.")


async def test_cached_answer_costs_nothing(stand_in, tmp_path):
    """A turn judged before is answered from the data folder, without a call and without cost."""
    stand_in.script()
    config = config_of(stand_in.base_url, "fluency").model_copy(update={"data_dir": tmp_path})
    costs = []
    for _ in range(2):
        judge = judge_of(config)
        entries = resolve(config, judge.scorers()).entries("app")
        (found,) = await judge.verdicts(TURN, entries)
        costs.append((found.value, found.judge_usage.cost))
        await judge.stop()
    assert stand_in.received()["calls"] == 1
    assert costs == [(5.0, pytest.approx(0.00021)), (5.0, 0.0)]


async def test_unreadable_answer_is_not_cached(stand_in, tmp_path):
    """What could not be read is asked again the next time."""
    stand_in.script(replies=[{"content": "no"}, {"content": "no"}, {"content": '{"score": 4}'}])
    config = config_of(stand_in.base_url, "fluency").model_copy(update={"data_dir": tmp_path})
    judge = judge_of(config)
    entries = resolve(config, judge.scorers()).entries("app")
    outcomes = [(await judge.verdicts(TURN, entries))[0].outcome for _ in range(2)]
    await judge.stop()
    assert outcomes == ["error", "scored"]


async def test_images_reach_the_judge_as_their_size(stand_in):
    """Binary data in a turn's text is replaced before it is sent."""
    body = json.loads(gzip.decompress((CASES / "B16.otlp.json.gz").read_bytes()))
    blob = max(_strings(body), key=len)
    turn = Turn(turn_id="a", trace_id="a", query=f"What is this? {blob}", response="A kettle.")
    stand_in.script()
    assert (await verdict(stand_in.base_url, "relevance", turn=turn)).outcome == "scored"
    (request,) = stand_in.received()["requests"]
    assert len(json.dumps(request)) < 8_000 < len(blob)
    assert "[binary data" in request["messages"][1]["content"]


def _strings(value):
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inner for text in _strings(part)]


async def test_weird_turn_is_an_outcome(stand_in):
    """Half characters, control characters and deep objects in a turn raise nothing."""
    deep: object = "x"
    for _ in range(200):
        deep = [deep]
    turn = msgspec.structs.replace(
        TURN,
        query="half \ud83d",
        response="\x00\x1b[2J",
        tool_calls=(msgspec.structs.replace(TURN.tool_calls[0], arguments={"\ud83d": deep}),),
    )
    stand_in.script()
    found = await verdicts(stand_in.base_url, "relevance", "tool_call_accuracy", turn=turn)
    assert {v.outcome for v in found.values()} <= {"scored", "error", "skipped"}


def test_judge_metric_without_a_judge_is_a_fault():
    """Naming the judge's engine without a `judge:` block stops the start."""
    config = Config.model_validate({"metrics": [{"fluency": {"engine": "judge"}}]})
    with pytest.raises(ConfigError):
        resolve(config, {})
