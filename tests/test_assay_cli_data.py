"""The commands around stored turns and data sets: what they print, write, refuse and return."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backfill_drive import a_turn, fill
from judge_drive import StandInProcess
from typer.testing import CliRunner, Result

from assay.cli.backfill_work import moment_of
from assay.cli.evaluate_work import bounds_of, tags_of
from assay.cli.main import app
from assay.cli.options import with_metrics
from assay.config import Config
from assay.errors import ConfigError, Permanent
from assay.records import Score
from assay.store import Source, Store
from scorers.scoring import turn_scores

GOOD = {"id": "a", "query": "Capital?", "response": "It is Paris", "ground_truth": "Paris"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_CONFIG", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def standin() -> Iterator[StandInProcess]:
    process = StandInProcess()
    yield process
    process.stop()


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def out(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out(*arguments, "--json").splitlines()]


def written(name: str, *data: Any) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in data))
    return name


def store() -> Store:
    return Store("assay-data/store")


async def live(first: int, last: int, version: str = "1", value: float = 1.0) -> None:
    """Live f1 scores, as an older scorer gave them."""
    found = []
    for number in range(first, last):
        score = Score(metric="f1_score", engine="computed", value=value, passed=value >= 0.5,
                      threshold=0.5, scorer_version="0")  # fmt: skip
        turn = a_turn(number, version=version)
        found.append((turn_scores(turn, (score,), group="local", scored_at=1, run="live"), score))
    await store().append(
        "scores", [Source(f"live/{version}", range(len(found)), found, len(found))]
    )


def test_a_backfill_from_its_price_to_its_difference(here: Path) -> None:
    """Says what it would do, asks, works, lists, shows, compares, and writes history."""
    asyncio.run(fill(store(), 0, 20))
    asyncio.run(live(0, 20))
    arguments = ("backfill", "-m", "f1_score", "--since", "30d", "--processes", "1")
    refused = CliRunner().invoke(app, arguments, input="n\n")
    assert isinstance(refused.exception, Permanent) and "20 selected" in refused.output
    assert rows("backfill", "list") == []
    done = out(*arguments, "--yes", "--openmetrics", "h.txt")
    assert "20 selected, 20 to score" in done and "20 turns, 20 scores, 0 errors" in done
    assert (here / "h.txt").read_text().endswith("# EOF\n")
    assert "Nothing to do" in out(*arguments, "--yes")
    (record,) = rows("backfill", "list")
    run_id = record["run_id"]
    assert record["state"] == "done" and record["counts"]["scores"] == 20
    shown = out("backfill", "show", run_id[:-2])
    assert "f1_score" in shown and "20 scores" in shown
    (row,) = rows("backfill", "diff", run_id)
    assert row["turns"] == 20 and row["live_mean"] == 1.0
    assert "->" in out("backfill", "diff", run_id)
    out("backfill", "cancel", run_id)
    assert rows("backfill", "list")[0]["state"] == "cancelled"


def test_a_backfill_of_files_keeps_their_turns(here: Path) -> None:
    """Saved traces are scored, their turns can be shown, and what was broken is named."""
    case = (Path(__file__).parent / "data" / "cases" / "B05.otlp.json").read_text()
    Path("x.jsonl").write_text(json.dumps(json.loads(case)) + "\nbroken\n")
    result = run("backfill", "--from", "x.jsonl", "-m", "fluency", "--processes", "1", "-y")
    assert result.exit_code == 0 and "x.jsonl:2: broken JSON" in result.stderr
    assert "traces" in result.stdout
    count = json.loads(out("query", "select count(*) as n from turns", "--json"))["n"]
    assert count > 0
    with pytest.raises(Permanent, match="no such file"):
        run("backfill", "--from", "none.json", "-y")
    with pytest.raises(ConfigError, match="not both"):
        run("backfill", "--from", "store", "--from", "x.jsonl", "-y")
    assert len(rows("backfill", "list")) == 1


def test_a_backfill_says_why_it_does_nothing() -> None:
    """That nothing was selected is not that everything is scored; a wrong condition is named."""
    asyncio.run(fill(store(), 0, 3))
    command = ("backfill", "-m", "f1_score", "--processes", "1", "-y")
    assert "no turn was selected" in out(*command, "--app", "nobody")
    refused = CliRunner().invoke(app, (*command, "--when", "latency >")).exception
    assert isinstance(refused, ConfigError) and refused.faults[0].startswith("--when: column")


def test_a_limited_backfill_is_resumed(here: Path) -> None:
    """The rest is named with the command that does it, and that command does it."""
    asyncio.run(fill(store(), 0, 30))
    text = out("backfill", "-m", "f1_score", "--limit", "10", "--processes", "1", "-y")
    run_id = rows("backfill", "list")[0]["run_id"]
    assert f"20 turns are left: `assay backfill resume {run_id}`" in text
    assert "done; 30 turns" in out("backfill", "resume", run_id, "--processes", "1", "-y")


def test_an_evaluation_is_made_reported_and_found(here: Path) -> None:
    """Table, JSON, reports, status for CI, listing by tag, and the run shown again."""
    data = written("d.jsonl", GOOD, GOOD | {"id": "b", "response": ""}, GOOD | {"id": "c"})
    result = run(
        "evaluate", data, "-m", "f1_score", "--out", "r.html", "--out", "r.csv", "--tag", "k=v",
        "--name", "first", "--fail-under", "f1_score=0.9",
    )  # fmt: skip
    assert result.exit_code == 0 and "d.jsonl:2: the response is empty" in result.stderr
    assert (here / "r.html").exists() and len((here / "r.csv").read_text().splitlines()) == 3
    failing = run("evaluate", data, "-m", "f1_score,exact_match", "--fail-under", "0.9")
    assert failing.exit_code == 1 and "exact_match" in failing.stderr
    assert [row["name"] for row in rows("evaluations", "list", "--tag", "k=v")] == ["first"]
    (again,) = rows("evaluations", "show", "first")
    assert (again["rows"], again["bad_rows"]) == (2, 1)
    assert "f1_score" in out("evaluations", "show", "first", "--out", "r.json")
    assert len(json.loads((here / "r.json").read_text())["rows"]) == 2
    with pytest.raises(Permanent, match="no evaluation"):
        run("evaluations", "show", "none")
    with pytest.raises(ConfigError, match="allowed endings"):
        run("evaluate", data, "-m", "f1_score", "--out", "r.pdf")


def test_two_runs_are_compared(here: Path, standin: StandInProcess) -> None:
    """Runs by name, files, versions of an app, preferences by the judge, attacks."""
    first = written("a.jsonl", *(GOOD | {"id": str(n)} for n in range(12)))
    second = written("b.jsonl", *(GOOD | {"id": str(n), "response": "Paris"} for n in range(12)))
    out("evaluate", first, "-m", "f1_score", "--name", "base")
    (row,) = rows("compare", "base", second, "-m", "f1_score")
    assert row["paired"] and row["better"] == 12 and row["mean"][0] > 0
    assert "12" in out("compare", "base", second, "-m", "f1_score")
    asyncio.run(live(0, 40, "1", 0.4))
    asyncio.run(live(40, 80, "2", 0.8))
    (row,) = rows("compare", "shop@1", "shop@2", "--since", "30d")
    assert not row["paired"] and row["rate"][0] == -1.0 and row["rate"][3] < 1e-6
    standin.script(overrides={"answer": "A", "preferred": "A"})
    Path("assay.yaml").write_text(f"judge: {{base_url: '{standin.base_url}', model: m}}\n")
    answered = rows(
        "compare", "base", second, "-m", "f1_score",
        "--pairwise", "pairwise_question_answering_quality",
    )[-1]  # fmt: skip
    assert answered["metric"] == "pairwise_question_answering_quality"
    counted = answered["candidate"] + answered["baseline"] + answered["tie"]
    assert counted + answered["unanswered"] == 12
    (harm, *_) = rows("compare", first, second, "--jailbreak")
    assert harm["pairs"] == 12 and harm["defects"] == 0
    for arguments in (("none", "base"), ("shop@1", "shop@2", "--jailbreak"), ("base", "shop@1")):
        with pytest.raises(Permanent):
            run("compare", *arguments, "--since", "1h")


def test_labels_are_imported_and_calibrate(here: Path) -> None:
    """Bad rows are named; a second import adds nothing; the matrix is of verdicts."""
    asyncio.run(live(0, 30, value=0.2))
    asyncio.run(live(30, 40, version="2", value=0.9))
    labels = [
        {"turn_id": a_turn(n).turn_id, "metric": "f1_score", "passed": n % 3 == 0 or n >= 30}
        for n in range(40)
    ]
    file = written("l.jsonl", *labels, {"metric": "f1_score"})
    result = run("label", "import", file)
    assert result.exit_code == 1 and "l.jsonl:41: turn_id and metric" in result.stderr
    assert (
        "40 labels added" in result.stdout
        and "0 labels added" in run("label", "import", file).stdout
    )
    (row,) = rows("calibrate", "f1_score")
    assert row["confusion"]["both_fail"] == 20 and row["confusion"]["both_pass"] == 10
    assert row["corrected"][0] == pytest.approx(0.5)
    assert "Rogan-Gladen" in out("calibrate", "f1_score")
    with pytest.raises(Permanent, match="no labelled turn"):
        run("calibrate", "fluency")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_scores_are_exported(ending: str, here: Path) -> None:
    """Each form holds the selected rows, with the turns' texts when asked."""
    asyncio.run(fill(store(), 0, 10))
    asyncio.run(live(0, 10))
    text = out("export", "scores", f"s.{ending}", "--metric", "f1_score", "--with-turns")
    assert "10 scores" in text
    if ending == "jsonl":
        first = json.loads((here / "s.jsonl").read_text().splitlines()[0])
        assert first["metric"] == "f1_score" and first["query"].startswith("Is lamp")
    assert "0 scores" in out("export", "scores", f"t.{ending}", "--app", "it's none")
    with pytest.raises(ConfigError, match="--format"):
        run("export", "scores", "s.xls")


def test_sets_are_generated(here: Path, standin: StandInProcess) -> None:
    """Harmful requests, wrapped ones, planted ones, and questions by a model."""
    out("adversarial", "baseline", "--count", "2", "--out", "b.jsonl")
    assert len(rows_of("b.jsonl")) == 8
    out("adversarial", "direct", "b.jsonl", "--per-row", "2", "--out", "d.jsonl")
    assert len(rows_of("d.jsonl")) == 16
    data = written("c.jsonl", {"question": "q", "context": "One. Two."})
    assert len(out("adversarial", "indirect", data).splitlines()) == 1
    with pytest.raises(Permanent, match="no row has"):
        run("adversarial", "indirect", "b.jsonl")
    with pytest.raises(ConfigError, match="--harms"):
        run("adversarial", "baseline", "--harms", "noise")
    standin.script(replies=[{"content": '["When?", "Where?"]'}])
    text = out("generate", "lamps", "--count", "2", "--model", "m", "--base-url", standin.base_url)
    assert [json.loads(line)["query"] for line in text.splitlines()] == ["When?", "Where?"]


def rows_of(name: str) -> list[Any]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def test_options_that_are_wrong_say_what_is_allowed() -> None:
    """Moments, bounds, tags, metrics."""
    assert moment_of("2026-01-01T00:00:00+00:00", "--since") == 1767225600 * 10**9
    assert moment_of(None, "--since") == 0 and moment_of("1h", "--since") > 0
    with pytest.raises(ConfigError, match="--since: got 'soon'"):
        moment_of("soon", "--since")
    assert bounds_of(["0.5", "a=0.9"]) == {"*": 0.5, "a": 0.9}
    for wrong in ("2", "a=x", "=0.5"):
        with pytest.raises(ConfigError, match="--fail-under"):
            bounds_of([wrong])
    assert tags_of(["a=b=c"]) == {"a": "b=c"}
    with pytest.raises(ConfigError, match="--tag"):
        tags_of(["a"])
    chosen = with_metrics(Config(), "f1_score, groundedness@local").metrics
    assert chosen[0] == "f1_score" and list(chosen[1]) == ["groundedness"]
    with pytest.raises(ConfigError, match=r"--metrics\.1"):
        with_metrics(Config(), "f1_score,,")
