"""From verdicts to Scores."""

import math
import signal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import when
from assay.metric import Metric
from assay.records import Document, Turn, encode
from scorers import deadline
from scorers.plan import Entry
from scorers.scorer import Verdict, not_applicable, scored, scorer, skipped
from scorers.scoring import MAX_REASON, judge_ahead, passed, score_turn


def turn(**fields):
    return Turn(turn_id="t", trace_id="0" * 32, **fields)


def entry(function, ratio=1.0, condition=None, needs=(), batched=False, **metric):
    declare = scorer("own", version="1", needs=tuple(needs), low=0.0, high=1.0, batched=batched)
    declared = declare(function)
    contract = msgspec.structs.replace(declared.metric, **metric)
    return Entry(declared, contract, ratio, when.compile(condition) if condition else None)


def one(case, *args, **more):
    return score_turn(case, [entry(*args, **more)], group="local", scored_at=7).scores[0]


def test_identity_without_content():
    """The record has the turn's identity and labels, the group and times, and no content."""
    case = turn(
        app="shop",
        query="SECRET",
        response="SECRET",
        labels={"tier": "gold"},
        ended_at=5,
        arrived_at=6,
        inclusion_probability=0.5,
        stratum="slow",
    )
    found = score_turn(case, [entry(lambda turn: scored(1))], group="local", scored_at=7)
    assert (found.subject_id, found.turn_id, found.app) == ("t", "t", "shop")
    assert (found.event_time, found.arrived_at, found.scored_at) == (5, 6, 7)
    assert (found.labels, found.stratum, found.group) == ({"tier": "gold"}, "slow", "local")
    assert b"SECRET" not in encode(found)


@given(st.floats(0, 1, exclude_max=True), st.floats(0.01, 1), st.floats(0, 1))
def test_sampling_nests_and_weighs(draw, probability, ratio):
    """A metric scores a turn when its draw is below p times its ratio, and weighs 1 over that."""
    case = turn(draw=draw, inclusion_probability=probability)
    found = one(case, lambda turn: scored(1), ratio=ratio)
    if draw < probability * ratio:
        assert found.outcome == "scored"
        assert found.weight == pytest.approx(1 / (probability * ratio))
    else:
        assert (found.outcome, found.value, found.passed) == ("sampled_out", None, None)
    wider = one(case, lambda turn: scored(1), ratio=1.0)
    assert wider.outcome == "scored" or found.outcome == "sampled_out"


def test_filtered():
    """A turn that the condition does not match is filtered, and the scorer is not asked."""
    assert one(turn(), lambda turn: 1 / 0, condition="documents").outcome == "filtered"


@pytest.mark.parametrize(
    ("needs", "fields", "reason"),
    [
        (["response"], {}, "response absent"),
        (["response"], {"response": ""}, "response empty"),
        (["response"], {"response": " \n"}, "response empty"),
        (["documents"], {}, "documents absent"),
        (["documents"], {"documents": (Document(content=" "),)}, "documents empty"),
        (["documents|tool_calls"], {}, "documents or tool_calls absent"),
        (["ground_truth"], {"ground_truth": ("", " ")}, "ground_truth empty"),
        (["reference_tool_calls"], {"reference_tool_calls": ()}, None),
        (["response_format"], {"response_format": {}}, "response_format absent"),
        (["response_format"], {"response_format": {"type": "json_object"}}, None),
        (["documents"], {"documents": (Document(content="x"),)}, None),
    ],
)
def test_a_missing_input_is_named(needs, fields, reason):
    """What is missing is told from what is empty, and the scorer is asked only with its inputs."""
    found = one(turn(**fields), lambda turn: scored(1), needs=needs)
    assert found.outcome == ("skipped" if reason else "scored")
    assert found.outcome_reason == reason
    if reason:
        assert (found.value, found.passed, found.label) == (None, None, None)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.01, 1.01])
def test_a_value_off_the_scale_is_an_error(value):
    """Neither a number off the scale nor one that is none is ever exported."""
    found = one(turn(), lambda turn: scored(value, note=value))
    assert (found.outcome, found.outcome_reason, found.value) == ("error", "out_of_range", None)
    assert (found.passed, found.details) == (None, {})


def test_a_fault_names_its_type_only():
    """An exception becomes an outcome that names the type and none of the content."""

    def fails(turn):
        raise KeyError("SECRET")

    found = one(turn(), fails)
    assert (found.outcome, found.outcome_reason, found.reason) == ("error", "exception", "KeyError")


def test_other_outcomes_have_no_value():
    """Skipped and not applicable carry their reason and neither value nor verdict."""
    for verdict in (skipped("language"), not_applicable("no code")):
        found = one(turn(), lambda turn, verdict=verdict: verdict, threshold=0.5)
        assert (found.outcome, found.outcome_reason) == (verdict.outcome, verdict.outcome_reason)
        assert (found.value, found.passed) == (None, None)


@pytest.mark.parametrize(
    ("direction", "threshold", "value", "expected"),
    [
        ("higher", 3.0, 3.0, True),
        ("higher", 3.0, 2.9, False),
        ("lower", 3.0, 3.0, True),
        ("lower", 3.0, 4.0, False),
        ("within", 1.0, -1.0, True),
        ("within", 1.0, -2.0, False),
        ("true_is_bad", 0.0, 0.0, True),
        ("true_is_bad", 0.0, 1.0, False),
        ("higher", None, 1.0, None),
    ],
)
def test_passed(direction, threshold, value, expected):
    """The verdict follows direction and threshold; without a threshold there is none."""
    metric = Metric(
        name="m",
        summary="",
        kind="defect",
        subject="turn",
        direction=direction,
        threshold=threshold,
    )
    assert passed(value, metric) is expected


def test_labels():
    """A level's name labels its value, a label of the vocabulary is accepted, another is not."""
    levels = {0: "bad", 1: "good"}
    assert one(turn(), lambda turn: scored(1), levels=levels).label == "good"
    assert one(turn(), lambda turn: scored(0.5), levels=levels).label is None
    assert one(turn(), lambda turn: scored(1), buckets=(0.0, 1.0)).label == "true"
    names = ("CANDIDATE", "BASELINE")
    assert one(turn(), lambda turn: Verdict(label="BASELINE"), labels=names).label == "BASELINE"
    assert one(turn(), lambda turn: Verdict(label="OTHER"), labels=names).outcome == "error"


def test_ids_are_stable_and_distinct():
    """The same scorer on the same turn has the same id; another run, version or metric has not."""
    first = entry(lambda turn: scored(1))
    other = entry(lambda turn: scored(1), name="other")

    def ids(run="live"):
        found = score_turn(turn(), [first, other], group="local", scored_at=1, run=run)
        return [score.score_id for score in found.scores]

    assert ids() == ids()
    assert len({*ids(), *ids("backfill-1")}) == 4


def test_long_reasons_are_cut():
    """A reason has a bound."""
    found = one(turn(), lambda turn: scored(1, reason="x" * 10 * MAX_REASON))
    assert len(found.reason) == MAX_REASON + 1


@pytest.fixture
def soon(monkeypatch):
    """The deadline is installed and short."""
    before = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(deadline, "SECONDS", 0.05)
    monkeypatch.setattr(deadline, "_installed", False)
    deadline.install()
    yield
    deadline.cancel()
    signal.signal(signal.SIGALRM, before)


def test_deadline(soon):
    """A scorer that does not end becomes an error of its own; the others still score."""

    def endless(turn):
        while True:
            pass

    both = [entry(endless), entry(lambda turn: scored(1))]
    slow, fast = score_turn(turn(), both, group="local", scored_at=1).scores
    assert (slow.outcome, slow.outcome_reason) == ("error", "timeout")
    assert fast.outcome == "scored"


def together(turns, own):
    """The first Score of each turn, batched entries asked ahead."""
    ahead = judge_ahead([(each, [own]) for each in turns])
    return [
        score_turn(each, [own], found, group="local", scored_at=1).scores[0]
        for each, found in zip(turns, ahead, strict=True)
    ]


def test_batched_scorers_are_asked_once():
    """A batched scorer gets all turns that are asked of it at once, in order, and no other."""
    calls = []

    def lengths(turns):
        calls.append([each.response for each in turns])
        return [scored(len(each.response) / 10) for each in turns]

    own = entry(lengths, needs=["response"], batched=True)
    turns = [turn(response="a"), turn(), turn(response="bb"), turn(response="c", draw=1.0)]
    found = together(turns, own)
    assert [score.outcome for score in found] == ["scored", "skipped", "scored", "sampled_out"]
    assert [score.value for score in found] == [0.1, None, 0.2, None]
    assert calls == [["a", "bb"]]
    assert score_turn(turns[0], [own], group="local", scored_at=1).scores[0] == found[0]


@pytest.mark.parametrize("fault", ["raises", "never ends", "answers too little"])
def test_a_fault_in_a_batch_is_one_turns(soon, fault):
    """Where turns fail together, each is asked by itself: the others have their scores."""

    def fragile(turns):
        bad = any(each.response == "bad" for each in turns)
        if bad and fault == "raises":
            raise ZeroDivisionError
        while bad and fault == "never ends":
            pass
        if bad and fault == "answers too little":
            return [scored(1)] * (len(turns) - 1)
        return [scored(1)] * len(turns)

    turns = [turn(response=response) for response in ("good", "bad", "good")]
    outcomes = [score.outcome for score in together(turns, entry(fragile, batched=True))]
    assert outcomes == ["scored", "error", "scored"]


def test_what_is_no_verdict():
    """A scorer that answers with something else is at fault, and the record is whole."""
    found = one(turn(), lambda turn: 0.5)
    assert (found.outcome, found.reason) == ("error", "TypeError")
