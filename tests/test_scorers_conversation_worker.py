"""Whole conversations: gathered over restarts, judged once per revision, bounded."""

import asyncio
import time
from collections import Counter

import msgspec
import pytest
from judge_drive import TURN, StandInProcess, config_of, open_judge
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import DEAD_LETTER, SCORES, TURNS, topics
from assay.errors import ConfigError
from assay.records import decode_turn_scores, encode
from scorers.conversation_worker import ConversationWorker, conversation_part
from scorers.judging import conversation
from scorers.judging.conversation import Gathered, Window, combined
from scorers.plan import Plan
from scorers.scorer import Verdict, scored, skipped


@pytest.fixture(scope="module")
def stand_in():
    process = StandInProcess()
    yield process
    process.stop()


@pytest.fixture
async def bus(tmp_path):
    bus = EmbeddedBus(tmp_path, topics())
    await bus.start()
    yield bus
    await bus.stop()


WHOLE = {"fluency": {"engine": "judge", "options": {"conversation": True}}}


def _turn(conversation_id, number, **changes):
    turn = msgspec.structs.replace(
        TURN,
        turn_id=f"{conversation_id}-{number}",
        conversation_id=conversation_id,
        query=f"Question {number} of {conversation_id}?",
        started_at=number,
        messages=(),
        app="shop",
        **changes,
    )
    return Outgoing(TURNS, encode(turn), key=f"shop\x1f{conversation_id}".encode())


def _worker(bus, stand_in, *metrics, idle=0.5, **settings):
    metrics = metrics or (WHOLE, "customer_satisfaction")
    config = config_of(stand_in.base_url, *metrics, conversation_idle=idle, **settings)
    judge, entries = open_judge(config)
    return ConversationWorker(bus, Plan(base=entries), judge, config, CollectorRegistry()), judge


async def _scores(bus, count, seconds=15.0):
    end = time.monotonic() + seconds
    while True:
        found = [decode_turn_scores(record.value) async for record in bus.read(SCORES, since=0)]
        if len(found) >= count or time.monotonic() > end:
            return found
        await asyncio.sleep(0.1)


async def test_conversation_is_judged_once_it_is_quiet(bus, stand_in):
    """One record each: turn by turn for a metric of turns, asked as a whole for satisfaction."""
    stand_in.script(overrides={"score": 4})
    await bus.publish([_turn(name, n) for n in range(3) for name in ("a", "b")])
    await bus.publish([Outgoing(TURNS, encode(TURN), key=b"none")])
    worker, judge = _worker(bus, stand_in)
    await worker.start()
    found = await _scores(bus, 2)
    await worker.stop()
    await worker.stop()
    await judge.stop()
    assert sorted(s.subject_id for s in found) == ["a", "b"]
    for record in found:
        assert (record.group, record.revision) == ("conversation", 0)
        assert record.turn_id == f"{record.conversation_id}-2"
        fluency, satisfaction = record.scores
        assert (fluency.metric, fluency.subject, fluency.value) == ("fluency", "conversation", 4.0)
        assert fluency.details["turns"] == [4.0, 4.0, 4.0]
        assert (satisfaction.metric, satisfaction.value) == ("customer_satisfaction", 4.0)
    bodies = stand_in.received()["requests"]
    whole = [b for b in bodies if "satisfaction" in b["messages"][0]["content"]]
    assert len(bodies) == 2 * 3 + 2
    assert len(whole) == 2
    assert all(f"Question {n} of" in whole[0]["messages"][1]["content"] for n in range(3))


async def test_late_turn_opens_a_revision(bus, stand_in):
    """A turn after the judgement gives a further record, over all turns, with ids of its own."""
    stand_in.script(overrides={"score": 4})
    worker, judge = _worker(bus, stand_in, WHOLE)
    await bus.publish([_turn("a", 0), _turn("a", 1)])
    await worker.start()
    await _scores(bus, 1)
    await bus.publish([_turn("a", 2)])
    found = await _scores(bus, 2)
    await worker.stop()
    await judge.stop()
    assert [s.revision for s in found] == [0, 1]
    assert [len(s.scores[0].details["turns"]) for s in found] == [2, 3]
    assert len({s.scores[0].score_id for s in found}) == 2


async def test_restart_forgets_no_turn(bus, stand_in):
    """Turns gathered before a restart are judged after it, once."""
    stand_in.script(overrides={"score": 4})
    first, judge = _worker(bus, stand_in, WHOLE, idle=60)
    await bus.publish([_turn("a", n) for n in range(12)])
    await first.start()
    while first.lag():  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await first.stop()
    await judge.stop()
    second, judge = _worker(bus, stand_in, WHOLE)
    await second.start()
    (found,) = await _scores(bus, 1)
    await second.stop()
    await judge.stop()
    assert len(found.scores[0].details["turns"]) == 12
    third, judge = _worker(bus, stand_in, WHOLE)
    await third.start()
    await asyncio.sleep(1.2)
    assert len(await _scores(bus, 0)) == 1
    await third.stop()
    await judge.stop()


async def test_long_conversation_is_cut_and_marked(bus, stand_in, monkeypatch):
    """Beyond the bound turns go from the middle, from the state too, and the score says so."""
    monkeypatch.setattr(conversation, "MAX_TURNS", 20)
    monkeypatch.setattr(conversation, "FIRST_TURNS", 5)
    stand_in.script(overrides={"score": 4})
    await bus.publish([_turn("a", n) for n in range(50)])
    worker, judge = _worker(bus, stand_in, WHOLE)
    await worker.start()
    (found,) = await _scores(bus, 1)
    await worker.stop()
    await judge.stop()
    assert found.scores[0].details["turns_left_out"] == 30
    asked = str(stand_in.received()["requests"])
    kept = [n for n in range(50) if f"Question {n} of" in asked]
    assert kept == [*range(5), *range(35, 50)]


async def test_conversation_is_drawn_as_a_whole(bus, stand_in):
    """A ratio of one half keeps about half of the conversations, at weight 2."""
    stand_in.script(overrides={"score": 4})
    half = {"fluency": {"engine": "judge", "ratio": 0.5, "options": {"conversation": True}}}
    await bus.publish([_turn(f"c{n}", 0) for n in range(60)])
    worker, judge = _worker(bus, stand_in, half)
    await worker.start()
    found = await _scores(bus, 60)
    await worker.stop()
    await judge.stop()
    outcomes = Counter(s.scores[0].outcome for s in found)
    assert outcomes["scored"] + outcomes["sampled_out"] == 60
    assert 15 <= outcomes["scored"] <= 45
    assert {s.scores[0].weight for s in found} == {2.0}


async def test_dead_judge_makes_conversations_late(bus, stand_in):
    """Conversations too end as `late` when nothing answers for so long."""
    stand_in.script(replies=[{"mode": "hang"}])
    await bus.publish([_turn("a", 0)])
    worker, judge = _worker(bus, stand_in, WHOLE, give_up_after=1.0)
    await worker.start()
    (found,) = await _scores(bus, 1)
    await worker.stop()
    await judge.stop()
    assert found.scores[0].outcome == "late"


async def test_unreadable_turn_is_set_aside(bus, stand_in):
    """What cannot be read goes to the dead letters, and the group moves on."""
    stand_in.script(overrides={"score": 4})
    await bus.publish([Outgoing(TURNS, b"{", key=b"a"), _turn("a", 0)])
    worker, judge = _worker(bus, stand_in, WHOLE)
    await worker.start()
    assert len(await _scores(bus, 1)) == 1
    await worker.stop()
    await judge.stop()
    assert [r.headers["reason"] async for r in bus.read(DEAD_LETTER, since=0)] == ["unreadable"]


def test_sampling_by_trace_is_refused():
    """Metrics on conversations need conversations that are whole."""
    config = config_of("http://x/v1", WHOLE)
    judge, entries = open_judge(config)
    torn = config.model_copy(update={"sampling": config.sampling.model_copy(update={"ratio": 0.5})})
    with pytest.raises(ConfigError):
        conversation_part(Plan(base=entries), judge, torn)
    assert len(conversation_part(Plan(base=entries), judge, config).base) == 1


def test_metric_without_a_form_for_conversations_is_refused():
    """Similarity has a meaning for single turns only."""
    torn = {"similarity": {"engine": "judge", "options": {"conversation": True}}}
    with pytest.raises(ConfigError):
        open_judge(config_of("http://x/v1", torn))


def test_mean_of_turns_and_maximum_of_harms():
    """Values of turns that were scored combine by the stated rule; skipped ones do not count."""
    turns = [scored(4), scored(2), skipped("query absent")]
    assert combined(turns, "fluency").value == 3.0
    assert combined(turns, "violence").value == 4.0
    assert combined([skipped("query absent")], "fluency").outcome == "skipped"
    broken = Verdict(outcome="error", outcome_reason="timeout")
    assert combined([scored(4), broken], "fluency").value == 4.0
    assert combined([scored(4), broken, broken], "fluency").outcome_reason == "timeout"


def test_gathering_is_bounded_in_bytes():
    """One conversation keeps at most its bytes, its last turn always among them."""
    gathered = Gathered(Window(app="a", conversation_id="c"))
    for number in range(100):
        gathered.add(b"%03d" % number + b"x" * 50_000, number)
    assert gathered.size <= conversation.MAX_BYTES
    assert gathered.values()[0].startswith(b"000")
    assert gathered.values()[-1].startswith(b"099")
    assert gathered.window.cut == 100 - len(gathered)
