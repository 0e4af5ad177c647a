"""The cascade: whom it asks, what its Scores carry, and what is lost when the judge fails."""

import pytest
from judge_drive import LIBRARY, TURN, StandInProcess, config_of
from msgspec.structs import replace

from assay.catalogue import cascaded
from assay.errors import ConfigError
from assay.records import Cascade, Score, decode_turn_scores, encode
from scorers.cascade import cascades, draw, look, named, probability, share_asked, verdicts
from scorers.evaluate import Result
from scorers.evaluate_summary import summarise
from scorers.judge import Judge
from scorers.judged_plan import plan_of, scorers_with
from scorers.judging.budget import Budget
from scorers.judging.client import JudgeClient
from scorers.registry import registered
from scorers.scoring import to_score, turn_scores

GROUNDED = replace(TURN, response="Returns are accepted within 30 days.")
FOREIGN = replace(TURN, response="保修期为两年。")


@pytest.fixture(scope="module")
def stand_in():
    process = StandInProcess()
    yield process
    process.stop()


async def scores_on(stand_in, turn, metric="groundedness", **options):
    """The Scores of one cascade on `turn`, and the judge that answered."""
    settings = {metric: {"engine": "cascade", "options": options}}
    config = config_of(stand_in.base_url, settings)
    judge = Judge(JudgeClient(config.judge, {}, budget=Budget(config.judge.budget)), LIBRARY)
    try:
        entries = plan_of(config, judge).entries("app")
        found = await verdicts(judge, turn, entries)
    finally:
        await judge.stop()
    return [to_score(turn, e, v, run="live") for e, v in zip(entries, found, strict=True)]


async def test_judge_that_is_asked_gives_the_verdict(stand_in):
    """A drawn turn has the judge's verdict, and its value is the difference estimate."""
    stand_in.script(overrides={"score": 2})
    (score,) = await scores_on(stand_in, TURN, most=1.0, least=1.0)
    assert (score.engine, score.outcome, score.outcome_reason) == ("cascade", "scored", "judged")
    assert score.cascade.judge is True
    assert score.cascade.pi == 1.0
    assert score.value == pytest.approx(1.0)
    assert score.passed is False
    assert score.details["judge"] == 2
    assert score.details["local"] > 0
    assert stand_in.received()["calls"] == 1


async def test_turn_that_is_not_drawn_has_the_local_verdict(stand_in):
    """Without a call the value is the local engine's probability of a defect."""
    stand_in.script(overrides={"score": 1})
    (score,) = await scores_on(stand_in, GROUNDED, most=1e-9, least=1e-9)
    assert (score.outcome, score.outcome_reason) == ("scored", "unjudged")
    assert score.cascade == Cascade(local=score.value, judge=None, pi=1e-9)
    assert score.passed is True
    assert stand_in.received()["calls"] == 0


async def test_language_that_the_local_engine_cannot_read_goes_to_the_judge(stand_in):
    """Where the local engine has no verdict the judge is asked, whatever the options."""
    stand_in.script(overrides={"score": 5})
    (score,) = await scores_on(stand_in, FOREIGN, most=1e-9, least=1e-9)
    assert score.cascade.pi == 1.0
    assert score.value == 0.0
    assert score.passed is True


async def test_failure_of_the_judge_keeps_what_the_bounds_need(stand_in):
    """A drawn turn whose judge fails has no value, and carries what it could have come to."""
    stand_in.script(replies=[{"content": "none of these"}])
    (score,) = await scores_on(stand_in, TURN, most=1.0, least=0.5)
    assert score.outcome == "error"
    assert score.value is None
    assert score.cascade.judge is None
    assert 0.5 <= score.cascade.pi <= 1.0


async def test_threshold_is_the_judges(stand_in):
    """The threshold of the settings holds for the judge's answer on the metric's own scale."""
    stand_in.script(overrides={"score": 3})
    config = config_of(
        stand_in.base_url,
        {"groundedness": {"engine": "cascade", "threshold": 4, "options": {"least": 0.25}}},
    )
    judge = Judge(JudgeClient(config.judge, {}, budget=Budget(config.judge.budget)), LIBRARY)
    (entry,) = plan_of(config, judge).entries("app")
    await judge.stop()
    assert entry.scorer.judged.threshold == 4
    assert entry.metric == cascaded(entry.scorer.judged)


async def test_scores_do_not_depend_on_the_order_of_other_entries(stand_in):
    """A cascade beside the judge's own metrics leaves each verdict where it belongs."""
    stand_in.script(overrides={"score": 4})
    config = config_of(
        stand_in.base_url,
        "fluency",
        {"groundedness": {"engine": "cascade", "options": {"most": 1e-9, "least": 1e-9}}},
        "coherence",
    )
    judge = Judge(JudgeClient(config.judge, {}, budget=Budget(config.judge.budget)), LIBRARY)
    try:
        entries = plan_of(config, judge).entries("app")
        found = await verdicts(judge, GROUNDED, entries)
    finally:
        await judge.stop()
    by_name = {e.metric.name: v for e, v in zip(entries, found, strict=True)}
    assert by_name["fluency"].value == by_name["coherence"].value == 4
    assert by_name["groundedness"].cascade.judge is None


async def test_record_survives_the_stream(stand_in):
    """What a Score carries of the cascade is the same after encoding."""
    stand_in.script(overrides={"score": 2})
    scores = tuple(await scores_on(stand_in, TURN, most=1.0, least=0.5))
    record = turn_scores(TURN, scores, group="judge", scored_at=1, run="live")
    assert decode_turn_scores(encode(record)).scores == scores


async def test_judge_model_is_in_the_version(stand_in):
    """Another model of the judge is another scorer: a new baseline begins."""
    judge = Judge(*_client(stand_in))
    found = scorers_with(judge)
    config = config_of(stand_in.base_url, {"groundedness": {"engine": "cascade"}})
    (entry,) = plan_of(config, judge).entries("app")
    await judge.stop()
    assert entry.engine == "cascade"
    assert entry.scorer.version.endswith("/gpt-4o-mini")
    assert ("groundedness", "response", "cascade") in found


def _client(stand_in):
    config = config_of(stand_in.base_url)
    return JudgeClient(config.judge, {}, budget=Budget(config.judge.budget)), LIBRARY


def test_only_metrics_of_two_engines_have_a_cascade():
    """Without a judge there is no cascade."""
    assert cascades(registered()) == {}


async def test_wrong_options_are_faults(stand_in):
    """Probabilities outside 0 to 1, or a least above the most, stop the start with their key."""
    judge = Judge(*_client(stand_in))
    for options, fault in (
        ({"most": 0.1, "least": 0.2}, "least 0.2 is above most 0.1"),
        ({"most": 0}, "most"),
        ({"band": 1}, "band"),
    ):
        settings = {"groundedness": {"engine": "cascade", "options": options}}
        with pytest.raises(ConfigError, match=fault):
            plan_of(config_of(stand_in.base_url, settings), judge)
    await judge.stop()


def test_probability_follows_neyman_between_its_limits():
    """The judge is asked in proportion to sqrt(p (1 - p))."""
    assert probability(0.5, 0.4, 0.01) == pytest.approx(0.4)
    assert probability(0.1, 0.4, 0.01) == pytest.approx(0.4 * 0.6)
    assert probability(0.0, 0.4, 0.01) == 0.01


async def test_draw_is_even_and_repeats(stand_in):
    """Shares below a bound are the bound; the same turn and metric draw the same."""
    judge = Judge(*_client(stand_in))
    config = config_of(stand_in.base_url, {"groundedness": {"engine": "cascade"}})
    (entry,) = plan_of(config, judge).entries("app")
    await judge.stop()
    draws = [draw(f"{number:032x}-0", entry.metric) for number in range(20_000)]
    assert sum(d < 0.1 for d in draws) / len(draws) == pytest.approx(0.1, abs=0.01)
    assert look(TURN, entry) == look(TURN, named(entry, judge))


async def test_price_counts_the_share_that_is_asked(stand_in):
    """A price beforehand multiplies the calls of a cascade with their probability."""
    judge = Judge(*_client(stand_in))
    config = config_of(
        stand_in.base_url,
        "fluency",
        {"groundedness": {"engine": "cascade", "options": {"most": 0.25, "least": 0.25}}},
    )
    shares = {e.metric.name: share_asked(TURN, e) for e in plan_of(config, judge).entries("app")}
    await judge.stop()
    assert shares == {"fluency": 1.0, "groundedness": 0.25}


def test_evaluation_rate_is_of_the_estimates():
    """An evaluation's defect rate by a cascade is the mean of its values, not of its verdicts."""
    scores = [
        Score(metric="m", engine="cascade", value=value, passed=value <= 0.5, outcome="scored")
        for value in (0.1, 0.2, 2.1, -0.8)
    ]
    found = [
        Result(
            name=f"{number}",
            line=number,
            turn=TURN,
            scores=turn_scores(TURN, (score,), group="judge", scored_at=1, run="live"),
        )
        for number, score in enumerate(scores)
    ]
    (summary,) = summarise(found)
    assert summary.defect_rate.value == pytest.approx(0.4)
    assert summary.defect_rate.lower < 0 < summary.defect_rate.upper
