"""The backfill: every missing score once, nothing asked twice, a stated price, exact resumption."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from backfill_drive import a_turn, backfill, fill, rows, settings, store_of
from judge_drive import StandInProcess
from prometheus_client import CollectorRegistry

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import topics
from assay.config import Config
from assay.errors import ConfigError, Permanent
from assay.records import Score, Turn
from assay.sampling import conversation_draw
from assay.store import Source
from scorers.backfill_diff import diff
from scorers.backfill_plan import scorers_in, with_share
from scorers.backfill_run import Runs, Selected, new_run, thawed
from scorers.backfill_source import StoredTurns, TurnSource
from scorers.backfill_spool import SpooledTurns, selects
from scorers.backfill_worker import BackfillWorker
from scorers.judge import judge_of
from scorers.judged_plan import conversations_of, plan_of, unsampled
from scorers.judging.conversation import FIRST_TURNS, GROUP, MAX_TURNS
from scorers.pool import ScorerPool
from scorers.registry import scorers_of
from scorers.scoring import turn_scores

DRIVE = Path(__file__).parent / "backfill_drive.py"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return settings(tmp_path)


@pytest.fixture(scope="module")
def standin() -> Iterator[StandInProcess]:
    process = StandInProcess()
    yield process
    process.stop()


def judged(folder: Path, standin: StandInProcess, **judge: Any) -> Config:
    block = {"base_url": standin.base_url, "model": "gpt-4o-mini", "timeout": 5.0} | judge
    return settings(folder, {"coherence": {"engine": "judge"}}, judge=block)


async def live(config: Config, first: int, last: int, value: float = 1.0) -> None:
    """Live scores of f1_score, in the version in force."""
    version = scorers_of()["f1_score", "response", "computed"].version
    found = []
    for number in range(first, last):
        score = Score(
            metric="f1_score", engine="computed", value=value, passed=value >= 0.5, threshold=0.5,
            scorer_version=version,
        )  # fmt: skip
        scores = turn_scores(a_turn(number), (score,), group="local", scored_at=1, run="live")
        found.append((scores, score))
    source = Source("live", range(len(found)), found, len(found))
    await store_of(config).append("scores", [source])


async def test_history_is_scored_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    """100 turns scored live and 50 older: 150 scores after every run; a new version adds 150."""
    config = settings(tmp_path, "f1_score")
    await fill(store_of(config), 0, 150)
    await live(config, 0, 100)
    run, estimate = await backfill(config)
    assert (estimate.turns, estimate.todo, estimate.known) == (150, 50, 100)
    assert run.state == "done" and run.counts.scores == 50
    assert len(await rows(config)) == 150
    again, estimate = await backfill(config)
    assert estimate.todo == 0 and again.counts.scores == 0
    third, _ = await backfill(config, rescore=True)
    found = await rows(config)
    assert third.counts.scores == 150 and len(found) == 300
    assert set(Counter(row["turn_id"] for row in found).values()) == {2}


async def test_another_version_of_a_scorer_is_another_scorer(tmp_path: Path) -> None:
    """Rows of an older version do not count as done, and stay beside the new ones."""
    config = settings(tmp_path, "f1_score")
    await fill(store_of(config), 0, 10)
    await backfill(config)
    old = await rows(config)
    store = store_of(config)
    data = [
        (turn_scores(a_turn(n), (s,), group="local", scored_at=1, run="older"), s)
        for n in range(10, 20)
        for s in [Score(metric="f1_score", engine="computed", value=1.0, scorer_version="0")]
    ]
    await fill(store, 10, 20)
    await store.append("scores", [Source("older", range(10), data, 10)])
    run, _ = await backfill(config)
    assert run.counts.scores == 10
    assert len(await rows(config)) == len(old) + 20


async def test_only_what_is_missing_of_a_turn_is_scored(config: Config) -> None:
    """A metric that was added later is scored alone."""
    await fill(store_of(config), 0, 30)
    await backfill(config.model_copy(update={"metrics": ["f1_score"]}))
    run, estimate = await backfill(config)
    assert (estimate.entries, estimate.known, run.counts.scores) == (30, 30, 30)
    assert {row["metric"] for row in await rows(config, f"run = '{run.run_id}'")} == {"exact_match"}


async def test_a_limit_says_what_is_left_and_is_gone_on_from(config: Config) -> None:
    """With a cap, the cap is done, the rest is counted, and resuming does that rest."""
    await fill(store_of(config), 0, 1234)
    run, estimate = await backfill(config, limit=1000)
    assert (estimate.turns, estimate.todo) == (1234, 1000)
    assert (run.state, run.counts.turns, run.counts.left) == ("limited", 1000, 234)
    run.limit = None
    await backfill(config, run=run)
    assert (run.state, run.counts.turns, run.counts.left) == ("done", 1234, 0)
    found = await rows(config)
    assert len(found) == len({(row["turn_id"], row["metric"]) for row in found}) == 2468


async def test_a_sample_is_drawn_as_live_and_weighted(config: Config) -> None:
    """The turns with the smallest draws are taken, each standing for as many as it must."""
    await fill(store_of(config), 0, 100)
    run, _ = await backfill(config, sample=0.25)
    found = await rows(config, "metric = 'f1_score'")
    assert run.counts.turns == len(found) == 25
    assert {row["weight"] for row in found} == {4.0}
    taken = {row["turn_id"] for row in found}
    assert taken == {a_turn(n).turn_id for n in range(100) if a_turn(n).draw < 0.25}


async def test_conditions_and_times_choose_turns(config: Config) -> None:
    """App, time and `when` select; a half-open interval of the turn's end."""
    store = store_of(config)
    await fill(store, 0, 20)
    await fill(store, 20, 30, app="other", finish_reason="length")
    run, _ = await backfill(config, app="other", when="finish_reason == 'length'")
    assert run.counts.turns == 10
    edge = a_turn(5).ended_at
    run, _ = await backfill(config, since=edge, until=a_turn(10).ended_at)
    assert run.counts.turns == 5
    selected = Selected(since=edge, until=a_turn(10).ended_at)
    assert [n for n in range(20) if selects(selected, a_turn(n))] == [5, 6, 7, 8, 9]


async def test_turns_of_files_become_rows_of_the_store(config: Config, tmp_path: Path) -> None:
    """An import is scored, its turns are stored once, and a second import adds nothing."""
    await fill(store_of(config), 0, 5)
    source = SpooledTurns(tmp_path / "spool", Selected())
    source.fill(a_turn(n) for n in [*range(10), *range(10)])
    run, _ = await backfill(config, source=source)
    assert run.counts.turns == 10
    (count,) = await store_of(config).query("SELECT count(*) AS n FROM turns")
    assert count["n"] == 10
    _, estimate = await backfill(config, source=source)
    assert estimate.todo == 0


async def test_the_judge_is_asked_once_a_turn(tmp_path: Path, standin: StandInProcess) -> None:
    """The price is said first without a call; a second run makes none; scores bear the model."""
    standin.script(usage={"prompt_tokens": 100, "completion_tokens": 10})
    config = judged(tmp_path, standin)
    await fill(store_of(config), 0, 30)
    _, estimate = await backfill(config, work=False)
    assert estimate.judge_calls == 30 and estimate.cost and estimate.input_tokens > 30 * 100
    assert len(standin.received()["requests"]) == 0
    run, _ = await backfill(config)
    assert run.counts.judge_calls == 30 and run.counts.cost > 0
    again, estimate = await backfill(config)
    assert (estimate.todo, again.counts.judge_calls) == (0, 0)
    assert {row["engine"] for row in await rows(config)} == {"gpt-4o-mini"}


def talk(name: str, *numbers: int) -> list[Turn]:
    return [
        a_turn(n, conversation_id=name, started_at=a_turn(0).started_at + place * 1000)
        for place, n in enumerate(numbers)
    ]


def of_conversations(folder: Path, standin: StandInProcess, **more: Any) -> Config:
    whole = {"fluency": {"engine": "judge", "options": {"conversation": True}}}
    judge = {"base_url": standin.base_url, "model": "gpt-4o-mini", "timeout": 5.0}
    return settings(folder, whole, "customer_satisfaction", judge=judge, **more)


async def store_turns(config: Config, turns: list[Turn]) -> None:
    name = turns[0].turn_id
    await store_of(config).append("turns", [Source(name, range(len(turns)), turns, len(turns))])


async def whole_scores(config: Config) -> dict[tuple[str, str], Any]:
    found = await store_of(config).query("SELECT * FROM scores WHERE subject = 'conversation'")
    pairs = {(row["subject_id"], row["metric"]): row for row in found}
    assert len(pairs) == len(found)
    return pairs


@pytest.mark.parametrize("origin", ["store", "file"])
async def test_conversations_are_scored_as_live_ones(
    tmp_path: Path, standin: StandInProcess, origin: str
) -> None:
    """Each once, over all its turns in order, whatever their days; the price is said before; a
    second run asks nothing, and one that went on is scored anew, paid answers from the cache."""
    standin.script(overrides={"score": 4})
    config = of_conversations(tmp_path, standin)
    turns = [*talk("a", 0, 1, 2), *talk("o'b", 150, 3), a_turn(4)]
    source = None
    if origin == "file":
        source = SpooledTurns(tmp_path / "spool", Selected())
        source.fill(turns)
    else:
        await store_turns(config, turns)
    run, estimate = await backfill(config, source=source)
    assert (estimate.conversations, estimate.whole, estimate.entries) == (2, 2, 4)
    assert estimate.judge_calls == run.counts.judge_calls == 5 + 2
    assert run.state == "done" and run.counts.conversations == 2 and run.counts.turns == 0
    found = await whole_scores(config)
    assert set(found) == {
        (name, metric) for name in ("a", "o'b") for metric in ("fluency", "customer_satisfaction")
    }
    row = found["o'b", "fluency"]
    assert json.loads(row["details"])["turns"] == [4.0, 4.0]
    assert (row["turn_id"], row["group"], row["run"]) == (a_turn(3).turn_id, GROUP, run.run_id)
    asked = [json.dumps(request["messages"]) for request in standin.received()["requests"]]
    (satisfaction,) = (text for text in asked if "lamp 150" in text and "lamp 3 " in text)
    assert satisfaction.index("lamp 150") < satisfaction.index("lamp 3 ")
    (stored,) = await store_of(config).query("SELECT count(*) AS n FROM turns")
    assert stored["n"] == 6
    _, estimate = await backfill(config)
    assert (estimate.whole, estimate.known) == (0, 4)
    await store_turns(config, talk("a", 0, 1, 2, 5)[3:])
    run, _ = await backfill(config)
    assert run.counts.conversations == 1 and run.counts.judge_calls == 1 + 1


async def test_conversations_are_selected_by_their_last_turn(
    tmp_path: Path, standin: StandInProcess
) -> None:
    """App, time, condition and limit look at the last turn; what is left is said."""
    standin.script(overrides={"score": 4})
    config = of_conversations(tmp_path, standin)
    late, early = talk("late", 250, 1), talk("early", 350, 260)
    await store_turns(config, [*late, *early, *talk("other", 5, 6)])
    _, estimate = await backfill(config, work=False, since=late[-1].ended_at)
    assert estimate.whole == 2
    _, estimate = await backfill(config, work=False, until=late[-1].ended_at)
    assert estimate.whole == 1
    run, _ = await backfill(config, when="query == 'Is lamp 6 in stock?'")
    assert {name for name, _ in await whole_scores(config)} == {"other"}
    run, estimate = await backfill(config, limit=1)
    assert (estimate.whole, estimate.about) == (1, True)
    assert (run.state, run.counts.conversations, run.counts.left) == ("limited", 1, 1)
    run.limit = None
    await backfill(config, run=run)
    assert run.state == "done" and len(await whole_scores(config)) == 6


@pytest.mark.parametrize("origin", ["store", "file"])
async def test_of_a_long_conversation_the_middle_is_left_out(
    tmp_path: Path, standin: StandInProcess, origin: str
) -> None:
    """Its first turns and its latest are judged, and the Score says how many are not."""
    turns = talk("a", *range(MAX_TURNS + 30))
    source: TurnSource = SpooledTurns(tmp_path / "spool", Selected())
    if origin == "file":
        source.fill(turns)  # type: ignore[attr-defined]
    else:
        config = of_conversations(tmp_path, standin)
        await store_turns(config, turns)
        source = StoredTurns(store_of(config), Selected())
    async for _, talks in source.talks():
        ((_, name, last, count, *_),) = talks
        assert (name, last, count) == ("a", turns[-1].turn_id, len(turns))
        (found,) = [one async for one in source.whole(talks)]
    kept = [*turns[:FIRST_TURNS], *turns[FIRST_TURNS - MAX_TURNS :]]
    assert [turn.turn_id for turn in found] == [turn.turn_id for turn in kept]


def test_conversations_that_sampling_tore_are_refused(
    tmp_path: Path, standin: StandInProcess
) -> None:
    """As live, and not where the turns are a file's."""
    config = of_conversations(tmp_path, standin, sampling={"ratio": 0.5})
    judge = judge_of(config)
    with pytest.raises(ConfigError, match="tear them apart"):
        conversations_of(config, judge)
    assert conversations_of(unsampled(config), judge) is not None


async def test_the_fleet_takes_on_a_run_with_conversations(
    tmp_path: Path, standin: StandInProcess
) -> None:
    """Its processes score what is theirs; another version of a scorer is still refused."""
    config = of_conversations(tmp_path, standin)
    config.metrics.append("f1_score")
    judge = judge_of(config)
    whole = conversations_of(config, judge)
    assert judge is not None and whole is not None
    run = new_run(config, Selected(), via="kafka")
    run.scorers = scorers_in(plan_of(config, judge), whole.plan)
    assert len(run.scorers) == 3
    bus = EmbeddedBus(tmp_path, topics())
    worker = BackfillWorker(bus, config, CollectorRegistry(), processes=1)
    pool = await worker._open(run)
    assert isinstance(pool, ScorerPool)
    await pool.stop()
    run.scorers = [(*row[:3], "0") for row in run.scorers]
    assert await worker._open(run) == "another version of a scorer runs here"
    await judge.stop()


async def test_a_sample_of_conversations_is_weighted(
    tmp_path: Path, standin: StandInProcess
) -> None:
    """The conversation's own draw decides, and the weight is the inverse of both ratios."""
    standin.script(overrides={"score": 4})
    sampling = {"ratio": 0.8, "unit": "conversation"}
    config = of_conversations(tmp_path, standin, sampling=sampling)
    await store_turns(config, [t for n in range(30) for t in talk(f"c{n}", n)])
    await backfill(config, sample=0.5)
    found = await whole_scores(config)
    expected = {f"c{n}" for n in range(30) if conversation_draw("shop", f"c{n}") < 0.8 * 0.5}
    assert {name for name, _ in found} == expected
    assert {row["weight"] for row in found.values()} == {1 / (0.8 * 0.5)}


async def test_a_spent_budget_leaves_the_rest_for_later(
    tmp_path: Path, standin: StandInProcess
) -> None:
    """Turns that no money was left for get no row, and the run can be resumed."""
    standin.script()
    config = judged(tmp_path, standin, budget={"usd_per_day": 0.004}, concurrency=2)
    await fill(store_of(config), 0, 60)
    run, _ = await backfill(config)
    assert run.state == "limited" and 0 < run.counts.scores < 60
    await backfill(judged(tmp_path, standin), run=run)
    assert run.state == "done" and len(await rows(config)) == 60


def test_a_share_is_taken_of_money_and_calls(tmp_path: Path, standin: StandInProcess) -> None:
    """Half the share is half the budget and half the concurrency, at least one call."""
    config = judged(tmp_path, standin, budget={"usd_per_day": 10, "tokens_per_minute": 1000})
    judge = with_share(config, 0.5).judge
    assert judge is not None
    assert (judge.budget.usd_per_day, judge.budget.tokens_per_minute, judge.concurrency) == (
        5.0, 500, 8,
    )  # fmt: skip
    assert with_share(config, 0.01).judge.concurrency == 1  # type: ignore[union-attr]


def test_a_run_keeps_its_settings_and_no_secret(tmp_path: Path) -> None:
    """Metrics, prices and judge are those of the beginning; keys are never written."""
    judge = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": "sk-secret"}
    config = settings(tmp_path, "f1_score", judge=judge)
    run = new_run(config, Selected())
    runs = Runs(tmp_path)
    runs.save(run)
    written = (runs.folder(run.run_id) / "run.json").read_text()
    assert "sk-secret" not in written
    changed = settings(
        tmp_path, "bleu_score", judge=judge | {"model": "other", "api_key": "sk-new"}
    )
    own = thawed(runs.find(run.run_id), changed)
    assert own.metrics == ["f1_score"] and own.judge is not None and own.judge.model == "m"
    assert own.judge.api_key is not None
    assert own.judge.api_key.get_secret_value() == "sk-new"
    assert plan_of(own, None).base[0].metric.name == "f1_score"
    with pytest.raises(ConfigError, match="judge"):
        thawed(run, settings(tmp_path, "f1_score"))


def test_runs_are_found_held_and_cancelled(tmp_path: Path, config: Config) -> None:
    """A run is found by how its id begins, worked on by one, and cancelled by another."""
    runs = Runs(tmp_path)
    run = new_run(config, Selected())
    runs.save(run)
    assert runs.find(run.run_id[:-1]).run_id == run.run_id
    with pytest.raises(Permanent, match="no backfill"):
        runs.find("x")
    with runs.hold(run):
        assert runs.is_held(run)
        with pytest.raises(Permanent, match="worked on"), runs.hold(run):
            pass
        runs.cancel(run)
        assert runs.is_cancelled(run) and runs.find(run.run_id).state == "planned"
    runs.cancel(run)
    assert runs.find(run.run_id).state == "cancelled"
    with pytest.raises(ValueError, match="sample"):
        Selected(sample=0.0)


async def test_a_run_is_compared_with_the_live_scores(tmp_path: Path) -> None:
    """Agreement and shifts, on the turns that both scored."""
    config = settings(tmp_path, "f1_score")
    await fill(store_of(config), 0, 40)
    await live(config, 0, 30, value=0.25)
    run, _ = await backfill(config, rescore=True)
    (row,) = await diff(store_of(config), run.run_id)
    assert (row.turns, row.live_mean, row.live_defect_rate) == (30, 0.25, 1.0)
    values = [r["value"] for r in await rows(config, f"run = '{run.run_id}'")][:30]
    assert row.mean == pytest.approx(sum(values) / 30)
    failing = sum(value < 0.5 for value in values)
    assert row.agreement == pytest.approx(failing / 30)
    assert row.shift is not None and row.shift.lower < row.shift.value < row.shift.upper
    assert row.defect_shift is not None and row.defect_shift.value == pytest.approx(
        failing / 30 - 1
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(
    tmp_path: Path, standin: StandInProcess
) -> None:
    """After ten kills at random moments the scores equal an undisturbed run's, none twice, and the
    judge was asked at most 2 % more often."""
    standin.script(latency=0.02)
    rng = random.Random(11)
    turns, kills = 500, 0
    configs = [judged(tmp_path / name, standin, concurrency=1) for name in ("calm", "killed")]
    configs = [c.model_copy(update={"metrics": [*c.metrics, "f1_score"]}) for c in configs]
    for config in configs:
        asyncio.run(fill(store_of(config), 0, turns))
    calm, killed = configs
    asyncio.run(backfill(calm))
    calls = len(standin.received()["requests"])
    standin.script(latency=0.02)
    run = new_run(killed, Selected())
    given = json.dumps(
        {
            "config": killed.model_dump(mode="json", exclude_none=True),
            "run": msgspec.to_builtins(run),
        }
    )
    state = ""
    while state != "done":
        child = subprocess.Popen(
            [sys.executable, str(DRIVE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(given)
        child.stdin.close()
        assert child.stdout.readline() == "begun\n"
        if kills < 10:
            time.sleep(rng.uniform(0.2, 4.0))
            state = "done" if child.poll() == 0 else ""
            kills += child.poll() is None
            child.kill()
        else:
            state = child.stdout.readline().strip()
        child.wait()
        child.stdout.close()
    assert kills > 3

    def essence(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        names = ("turn_id", "metric", "engine", "outcome", "value")
        return sorted(tuple(row[name] for name in names) for row in found)

    assert essence(asyncio.run(rows(killed))) == essence(asyncio.run(rows(calm)))
    assert len(standin.received()["requests"]) <= calls * 1.02
