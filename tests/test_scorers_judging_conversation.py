"""Every judge metric that has a form for conversations, by its contract."""

import msgspec
import pytest
from judge_drive import LIBRARY, TURN, StandInProcess, config_of, open_judge

from assay.catalogue import HARMS, METRICS, SETS
from scorers.conversation_worker import conversation_part
from scorers.judge import TURNS_ONLY
from scorers.judging.conversation import Conversations
from scorers.plan import Plan

TURN_BY_TURN = sorted(
    {p.metric for p in LIBRARY if p.file.family != "part"} - {"customer_satisfaction", *TURNS_ONLY}
)
TURNS = [
    msgspec.structs.replace(TURN, turn_id=f"t{number}", conversation_id="c", started_at=number)
    for number in (1, 2, 3)
]
PAIRS = {"pairwise_summarization_quality", "pairwise_question_answering_quality"}
UNJUDGED = PAIRS | {"refusal"}
"""Metrics that pass no judgement: of kind info."""


@pytest.fixture(scope="module")
def stand_in():
    process = StandInProcess()
    yield process
    process.stop()


def _answers(name):
    """What the model says for the last value that passes and the first that fails."""
    metric = METRICS[name]
    if name == "retrieval_score":
        return {"answered": True}, {"answered": False}
    if metric.direction == "true_is_bad":
        return {"score": False, "applicable": True}, {"score": True, "applicable": True}
    if name == "groundedness_pro":
        return {"score": True}, {"score": False}
    good = int(metric.threshold) if metric.threshold is not None else 0
    return {"score": good}, {"score": good + (1 if metric.direction in ("lower", "within") else -1)}


async def _score(stand_in, name, turns=TURNS, **given):
    stand_in.script(**given)
    named = f"builtin.{name}" if name in SETS else name
    options = {} if name == "customer_satisfaction" else {"options": {"conversation": True}}
    config = config_of(stand_in.base_url, {named: {"engine": "judge", **options}})
    judge, entries = open_judge(config)
    plan = conversation_part(Plan(base=entries), judge, config)
    mine = [e for e in plan.base if name not in HARMS or e.metric.kind == "defect"]
    found = await Conversations(plan, judge, 1.0).scores(turns, mine, run="live")
    await judge.stop()
    (score,) = found.scores
    return score


@pytest.mark.parametrize("name", sorted(set(TURN_BY_TURN) - PAIRS))
async def test_value_is_that_of_the_turns(stand_in, name):
    """Turns that agree give the conversation their value, and pass or fail it as they would."""
    for answer, good in zip(_answers(name), (True, False), strict=True):
        score = await _score(stand_in, name, overrides=answer)
        metric = METRICS[name]
        assert (score.outcome, score.subject) == ("scored", "conversation")
        assert (score.direction, score.threshold) == (metric.direction, metric.threshold)
        assert score.details["turns"] == [score.value] * 3
        assert score.passed is (None if name in UNJUDGED else good)
        assert score.judge_usage.calls >= 3


@pytest.mark.parametrize("name", TURN_BY_TURN)
async def test_answers_off_the_scale_are_an_error(stand_in, name):
    """A conversation whose turns could not be judged has an error and no value."""
    odd = {"content": '{"reason": "r", "score": 99, "label": "both"}'}
    score = await _score(stand_in, name, replies=[odd])
    assert (score.outcome, score.value, score.passed) == ("error", None, None)
    assert score.outcome_reason in ("out_of_range", "unparsable")


@pytest.mark.parametrize("name", TURN_BY_TURN)
async def test_turns_without_inputs_skip_the_conversation(stand_in, name):
    """Where no turn has a required input the conversation is skipped, and nothing is sent."""
    for need in METRICS[name].needs:
        blank = {
            field: () if isinstance(getattr(TURN, field), tuple) else None
            for field in need.split("|")
        }
        turns = [msgspec.structs.replace(turn, **blank) for turn in TURNS]
        score = await _score(stand_in, name, turns=turns)
        assert (score.outcome, score.value) == ("skipped", None)
        assert stand_in.received()["requests"] == []


@pytest.mark.parametrize(("level", "good"), [(3, True), (2, False)])
async def test_satisfaction_is_asked_of_the_whole(stand_in, level, good):
    """One call for all turns, 1 to 5, and 3 passes."""
    score = await _score(stand_in, "customer_satisfaction", overrides={"score": level})
    assert (score.outcome, score.value, score.passed) == ("scored", level, good)
    assert (score.subject, score.direction, score.threshold) == ("conversation", "higher", 3.0)
    assert stand_in.received()["calls"] == 1


async def test_satisfaction_errs_on_an_odd_answer(stand_in):
    """An answer off the scale is no satisfaction."""
    score = await _score(stand_in, "customer_satisfaction", replies=[{"content": '{"score": 9}'}])
    assert (score.outcome, score.outcome_reason, score.value) == ("error", "out_of_range", None)
