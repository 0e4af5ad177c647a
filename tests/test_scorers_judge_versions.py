"""Versions of prompts are kept, compared and brought back; a config is priced before it runs."""

import os

import msgspec
import pytest
from judge_drive import LIBRARY, TURN, StandInProcess, config_of, open_judge, own_prompt
from typer.testing import CliRunner

from assay.cli.prompts import prompts
from assay.errors import ConfigError, Permanent
from assay.records import Document, Score, TurnScores
from assay.store import Source, Store
from scorers.judge import judge_of
from scorers.judge_estimate import estimate
from scorers.judging.library import load_library
from scorers.judging.versions import Archive, disagreements

SYSTEM = {"role": "system", "content": "{{ rules }}\n{{ scale }}\n{{ answer }}\nBe strict."}
USER = {"role": "user", "content": "{{ query }}\n{{ context }}\n{{ response }}"}


@pytest.fixture
def archive(tmp_path):
    """Two versions of a prompt, the second in force."""
    own = own_prompt(tmp_path / "own")
    Archive(tmp_path / "kept", load_library(own)).keep()
    (first,) = (tmp_path / "kept" / "warranty").glob("*/warranty.yaml")
    os.utime(first, (1, 1))
    own_prompt(own, version="2", messages=[SYSTEM, USER])
    found = Archive(tmp_path / "kept", load_library(own))
    found.keep()
    found.keep()
    return found


def test_history_has_each_wording_once(archive):
    """Versions come in the order of their first use, and one is in force."""
    history = archive.history("warranty")
    assert [(v.version, v.current) for v in history] == [("1", False), ("2", True)]
    assert len({v.digest for v in history}) == 2
    assert len(archive.history("violence")[0].digests) == 2
    with pytest.raises(Permanent):
        archive.history("nothing")


def test_versions_are_compared_line_by_line(archive):
    """A diff shows what was added and which digests it is between."""
    text = archive.diff("warranty", "1", archive.history("warranty")[1].digest[:6])
    assert "Be strict." in text
    assert all(v.digest in text for v in archive.history("warranty"))
    with pytest.raises(Permanent) as caught:
        archive.diff("warranty", "1", "7")
    assert "names 0 versions" in str(caught.value)


def test_version_is_brought_back(archive, tmp_path):
    """A version written to the own folder is in force at the next start, with its old digest."""
    old = archive.history("warranty")[0]
    archive.use("warranty", old.digest, tmp_path / "own")
    assert load_library(tmp_path / "own").find("warranty").digest == old.digest


async def test_turns_on_which_two_versions_differ(archive, tmp_path):
    """Only turns that both versions scored, by one model and differently, are listed, and once."""
    first, second = archive.history("warranty")

    def record(turn_id, *scores, revision=0):
        entries = tuple(
            Score(
                metric="warranty", engine=engine, value=value, passed=value > 0.5, prompt_digest=d
            )
            for value, d, engine in scores
        )
        return TurnScores(
            subject_id=turn_id, turn_id=turn_id, trace_id="t", scores=entries, revision=revision
        )

    records = [
        record("a", (0.2, first.digest, "m")),
        record("a", (0.9, second.digest, "m")),
        record("a", (0.9, second.digest, "m"), revision=1),
        record("b", (0.4, first.digest, "m"), (0.4, second.digest, "m")),
        record("c", (0.4, first.digest, "m")),
        record("d", (0.4, "other", "m"), (0.1, second.digest, "m")),
        record("e", (0.4, first.digest, "m"), (0.1, second.digest, "another")),
    ]
    store = Store(str(tmp_path / "store"))
    rows = [(one, score) for one in records for score in one.scores]
    await store.append("scores", [Source("x/0", list(range(len(rows))), rows, len(rows))])
    (found,) = await disagreements(store, first, second)
    assert (found.subject_id, found.first, found.second) == ("a", "0.2", "0.9")
    assert (found.first_passed, found.second_passed) == (False, True)


def test_start_keeps_the_prompts(tmp_path):
    """A judge that starts leaves every prompt's text in the data folder."""
    config = config_of("http://x/v1", "fluency").model_copy(update={"data_dir": tmp_path})
    judge_of(config)
    kept = {path.parent.parent.name for path in (tmp_path / "prompts").glob("*/*/*.yaml")}
    assert kept == set(LIBRARY.names())


def _invoke(*arguments):
    return CliRunner().invoke(prompts, [*map(str, arguments)])


def test_commands(tmp_path, monkeypatch):
    """list, show, check, history, diff and use work on the settings' folders."""
    monkeypatch.chdir(tmp_path)
    own = own_prompt(tmp_path / "own")
    (tmp_path / "assay.yaml").write_text(
        f"data_dir: {tmp_path}/data\njudge: {{base_url: 'http://x/v1', model: m, prompts: {own}}}\n"
    )
    assert "warranty" in _invoke("list").stdout
    shown = _invoke("show", "warranty").stdout
    assert "<query>" in shown
    assert "0 (worst) to 1 (best)" in shown
    assert "right" in _invoke("check").stdout
    first = msgspec.json.decode(_invoke("history", "warranty", "--json").stdout)
    own_prompt(own, version="2", messages=[SYSTEM, USER])
    assert len(_invoke("history", "warranty").stdout.strip().splitlines()) == 4
    assert "+" in _invoke("diff", "warranty", "1", "2").stdout
    assert "engine" in _invoke("diff", "warranty", "1", "2", "--turns").stdout
    assert _invoke("use", "warranty", "1").exit_code == 0
    digest = next(iter(first["digests"].values()))
    assert load_library(own).find("warranty").digest == digest
    assert isinstance(_invoke("show", "nothing").exception, Permanent)
    own_prompt(own, threshold=9)
    assert isinstance(_invoke("check").exception, ConfigError)


METRICS = (
    "groundedness",
    "fluency",
    "pairwise_summarization_quality",
    "violence",
    "retrieval_score",
)


async def test_estimate_counts_the_requests_that_would_be_sent():
    """Calls and input tokens are those of the real run; nothing is sent to find out."""
    process = StandInProcess()
    try:
        for settings in ({}, {"bundle": True}, {"samples": 3}):
            process.script()
            config = config_of(process.base_url, *METRICS, **settings)
            turns = [msgspec.structs.replace(TURN, query=f"Question {n}?") for n in range(3)]
            found = await estimate(config, turns)
            assert process.received()["calls"] == 0
            judge, entries = open_judge(config)
            for turn in turns:
                await judge.verdicts(turn, entries)
            await judge.stop()
            sent = process.received()["requests"]
            assert found.turns == 3
            assert found.calls_per_turn == pytest.approx(len(sent) / 3)
            characters = sum(len(m["content"]) for body in sent for m in body["messages"])
            tokens = sum(metric.input_tokens for metric in found.metrics.values())
            assert characters / 5 < tokens < characters / 2
            assert found.usd_per_turn > 0
    finally:
        process.stop()


async def test_estimate_follows_ratio_price_and_length():
    """A metric's ratio, an unknown price and a long context all show."""
    half = {"fluency": {"engine": "judge", "ratio": 0.5}}
    turns = [msgspec.structs.replace(TURN, draw=n / 10) for n in range(10)]
    found = await estimate(config_of("http://x/v1", half, "coherence"), turns)
    assert (found.metrics["fluency"].scores, found.metrics["coherence"].scores) == (5, 10)
    unknown = await estimate(config_of("http://x/v1", "fluency", model="odd"), turns)
    assert unknown.usd_per_turn is None
    long = msgspec.structs.replace(TURN, documents=(Document(content="words " * 30_000),))
    parts = await estimate(config_of("http://x/v1", "groundedness", context_tokens=8000), [long])
    assert parts.metrics["groundedness"].calls > 3
    with pytest.raises(ConfigError):
        await estimate(config_of("http://x/v1").model_copy(update={"judge": None}), turns)
