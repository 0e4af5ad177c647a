"""Apps instrumented with real libraries, a running agent, and what a user sees of it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_process import ASSAY, WAIT, Agent, stand_in

from assay.cli.source import RUNNING

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent.parent
ANSWER = "A kettle has a warranty of two years, counted from the day of delivery."
QUESTION = "How long is the warranty on a kettle?"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    agent = Agent(tmp_path_factory.mktemp("agent"))
    yield agent
    agent.stop()


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with stand_in(ANSWER) as url:
        yield url


def eventually(found: Callable[[], Any]) -> Any:
    """What `found` gives once it gives something."""
    ends = time.monotonic() + WAIT
    while not (value := found()):
        assert time.monotonic() < ends, "it did not come"
        time.sleep(0.2)
    return value


def snippet(name: str) -> tuple[str, dict[str, str]]:
    """The Python block that the README marks as tried, and the variables of its section."""
    text = (ROOT / "README.md").read_text()
    before, _, rest = text.partition(f"<!-- tried: {name} -->\n```python\n")
    variables = dict(re.findall(r"^export (\w+)=(\S+)$", before.rpartition("\n### ")[2], re.M))
    return rest.partition("```")[0], variables


@pytest.mark.slow
@pytest.mark.parametrize("name", ["otel", "openinference"])
def test_an_app_instrumented_as_the_readme_says_is_scored(
    name: str, agent: Agent, provider: str, tmp_path: Path
) -> None:
    """The README's app, run as it stands, is on /metrics, in the tail, in the listings."""
    code, variables = snippet(name)
    app = f"app-{name}"
    script = tmp_path / "app.py"
    script.write_text(code)
    tail = subprocess.Popen([*ASSAY, "tail", "--json"], cwd=agent.folder, stdout=subprocess.PIPE)
    assert tail.stdout is not None
    try:
        time.sleep(2.0)
        environment = os.environ | variables
        environment |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": str(agent.running.http),
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20k-1",
            "OTEL_SERVICE_NAME": app,
            "OPENAI_BASE_URL": provider,
            "OPENAI_API_KEY": "sk-test",
        }
        done = subprocess.run(
            [sys.executable, str(script)],
            env=environment,
            capture_output=True,
            timeout=WAIT,
            check=False,
        )
        assert (done.returncode, done.stdout.decode().strip()) == (0, ANSWER), done.stderr.decode()
        line = json.loads(tail.stdout.readline())
    finally:
        tail.terminate()
        tail.wait()
        tail.stdout.close()

    turn = line["turn"]
    assert (turn["app"], turn["query"], turn["response"]) == (app, QUESTION, ANSWER)
    assert turn["usage"] == {"input_tokens": 41, "output_tokens": 17}
    entries = {entry["metric"]: entry for entry in line["scores"][0]["scores"]}
    assert entries["relevance"]["value"] > 1
    assert entries["groundedness"]["outcome"] == "skipped"

    key = ("assay_score_count", app, "relevance")
    assert eventually(lambda: agent.metrics().get(key)) == 1
    listed = [json.loads(row) for row in agent.run("turns", "list", "--json").splitlines()]
    assert [row["turn_id"] for row in listed if row["app"] == app] == [turn["turn_id"]]
    shown = json.loads(agent.run("turns", "show", turn["turn_id"], "--json"))
    assert shown["turn"]["response"] == ANSWER
    assert "relevance" in agent.run("turns", "show", turn["turn_id"])


@pytest.mark.slow
def test_the_demo_moves_the_rates_and_its_rows_are_stored(agent: Agent) -> None:
    """Every turn of the demo has one score per metric in the store, the ledger adds up, and the
    bad kinds show up in what failed."""
    mix = "good=4,ungrounded=2,unsafe=2,injected=4,tool_failing=2,multi_turn=1"
    agent.run("demo", "--count", "40", "--rate", "40", "--app", "shop", "--mix", mix)

    def stored() -> list[dict[str, Any]]:
        sql = "select metric, subject, engine, count(*) as n, count(distinct turn_id) as turns, "
        sql += "sum(case when passed = false then 1 else 0 end) as bad "
        sql += "from scores where app = 'shop' group by metric, subject, engine"
        rows = [json.loads(row) for row in agent.run("query", "--json", sql).splitlines()]
        return rows if rows and rows[0]["n"] >= 40 else []

    rows = eventually(stored)
    count = "select count(*) as n from turns where app = 'shop'"
    turns = json.loads(agent.run("query", "--json", count))["n"]
    assert {(row["n"], row["turns"]) for row in rows} == {(turns, turns)}
    bad = {row["metric"] for row in rows if row["bad"]}
    assert bad >= {
        "groundedness",
        "tool_call_success",
        "tool_call_schema_valid",
        "direct_attack_attempt",
        "indirect_attack_attempt",
        "pii_leakage",
        "violence",
    }
    status = json.loads(agent.run("status", "--json"))
    assert status["healthy"]
    ledger = [row for row in status["ledger"] if row["app"] == "shop"]
    assert len(ledger) == len(rows)
    assert {(row["turns"], row["missing"]) for row in ledger} == {(turns, 0)}
    listed = agent.run("conversations", "list", "--json", "--app", "shop", "--limit", "50")
    assert len(listed.splitlines()) == 40


@pytest.mark.slow
def test_it_is_ready_soon_small_and_private(agent: Agent) -> None:
    """Ready in under 3 s, under 250 MB, the data folder for its owner alone."""
    print(
        f"ready after {agent.ready_after:.2f} s, {agent.ready_work:.2f} s of a processor; "
        f"{agent.memory() / 1e6:.0f} MB resident"
    )
    assert "is ready" in agent.greeting
    # Other work on the machine does not count: the processor's time is what a start takes at most.
    assert agent.ready_work < 3
    assert agent.memory() < 250e6
    assert (agent.folder / "assay-data").stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_judge_scores_beside_the_local_engine(tmp_path: Path) -> None:
    """With a judge in the settings, both engines answer, each in its own series and row."""
    with stand_in('{"reason": "It reads well.", "score": 4}') as url:
        settings = f"judge: {{base_url: '{url}', model: m-1, api_key: sk-CANARY}}\n"
        agent = Agent(tmp_path, settings + "metrics: [fluency, {fluency: {engine: judge}}]\n")
        agent.run("demo", "--count", "3", "--rate", "50", "--mix", "good=1")

        def ledger() -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = json.loads(agent.run("status", "--json"))["ledger"]
            return rows if len(rows) == 2 and not any(row["missing"] for row in rows) else []

        rows = eventually(ledger)
        assert {(row["engine"], row["outcomes"]["scored"]) for row in rows} == {
            ("local", 3),
            ("m-1", 3),
        }
        assert agent.stop() == 0
    asked = "select reason from scores where engine = 'm-1' and value = 4"
    assert len(agent.run("query", "--json", asked).splitlines()) == 3
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "assay.yaml":
            assert b"CANARY" not in file.read_bytes()


def test_after_a_stop_the_files_answer(tmp_path: Path) -> None:
    """It stops at once on a signal; then the same commands read the files it left."""
    agent = Agent(tmp_path)
    agent.run("demo", "--count", "3", "--rate", "50", "--mix", "good=1")
    eventually(lambda: agent.run("turns", "list", "--json"))
    assert agent.run("dead-letter", "list", "--json") == ""
    started = time.monotonic()
    assert agent.stop() == 0
    assert time.monotonic() - started < 10
    assert not (tmp_path / "assay-data" / RUNNING).exists()
    listed = agent.run("turns", "list", "--json").splitlines()
    assert len(listed) == 3
    stored = json.loads(agent.run("query", "--json", "select count(*) as n from turns"))
    assert stored["n"] == 3
    assert agent.run("dead-letter", "list", "--json") == ""
    assert agent.run("tail", ok=False) == ""
    log = (tmp_path / "log").read_text()
    assert "k-1" not in log and "warranty" not in log


def test_after_a_kill_the_files_answer_and_a_new_start_works(tmp_path: Path) -> None:
    """What was confirmed is there; a tail that was open says that the agent went away."""
    agent = Agent(tmp_path)
    with (tmp_path / "tail").open("wb") as out:
        tail = subprocess.Popen([*ASSAY, "tail"], cwd=tmp_path, stdout=out, stderr=subprocess.PIPE)

    def seen() -> bool:
        agent.run("demo", "--count", "1", "--mix", "good=1")
        return (tmp_path / "tail").stat().st_size > 0

    eventually(seen)
    confirmed = agent.run("turns", "list", "--json").splitlines()
    agent.process.kill()
    agent.stop()
    _, said = tail.communicate(timeout=WAIT)
    assert b"went away" in said
    assert tail.returncode == 1
    kept = agent.run("turns", "list", "--json").splitlines()
    assert set(confirmed) <= set(kept)
    again = Agent(tmp_path)
    assert set(kept) <= set(again.run("turns", "list", "--json").splitlines())
    assert again.stop() == 0


def test_the_demo_starts_an_agent_when_none_answers(tmp_path: Path) -> None:
    """One command shows it all: the agent starts, scores what is sent, and ends with the demo."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "assay.yaml").write_text(
        f'collector: {{http: "127.0.0.1:{port}", grpc: null}}\n'
        "assembly: {settle: 300ms}\n"
        'exporters: {prometheus: {listen: "127.0.0.1:0"}}\n'
    )
    done = subprocess.run(
        [*ASSAY, "demo", "--count", "3", "--rate", "50", "--mix", "good=1"],
        cwd=tmp_path,
        capture_output=True,
        timeout=WAIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert "is ready" in done.stdout.decode()
    listed = subprocess.run(
        [*ASSAY, "turns", "list", "--json"], cwd=tmp_path, capture_output=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 3
    with socket.create_server(("127.0.0.1", port)):
        pass
