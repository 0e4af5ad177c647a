"""An app turns bad and recovers: what the person on call is told, by the real programs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_process import ASSAY, Agent
from debian_tools import program
from prometheus_stack import Alertmanager, Hooks, Prometheus

pytestmark = pytest.mark.slow
SETTINGS = """
alerts:
  - name: ungrounded answers
    metric: groundedness
    window: 5m
    min_turns: 20
    objective: 0.3
    keep_for: 3s
    severity: critical
    labels: {team: assistants}
    runbook: look at the retriever
    notify: oncall
notify:
  oncall: {webhook: "HOOK/embedded", group_wait: 0s, group_interval: 1s}
"""
WAIT = 90.0


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    found = Hooks()
    yield found
    found.stop()


@pytest.fixture
def agent(tmp_path: Path, hooks: Hooks) -> Iterator[Agent]:
    found = Agent(tmp_path, SETTINGS.replace("HOOK", hooks.url))
    yield found
    found.stop()


@pytest.fixture
def prometheus(tmp_path: Path, agent: Agent, hooks: Hooks) -> Iterator[Prometheus]:
    paths = program("prometheus-alertmanager"), program("prometheus")
    rules = tmp_path / "rules.yaml"
    agent.run("rules", "--output", str(rules))
    manager = Alertmanager(paths[0], tmp_path, f"{hooks.url}/alertmanager")
    found = Prometheus(paths[1], tmp_path, agent.running.api, rules, manager.address)
    yield found
    found.stop()
    manager.stop()


def demo(agent: Agent, mix: str, count: int) -> None:
    """Traffic of the simulated help desk."""
    command = [*ASSAY, "demo", "--mix", mix, "--count", str(count), "--rate", "200"]
    done = subprocess.run(command, cwd=agent.folder, capture_output=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr.decode()


def eventually(found: Callable[[], Any], seconds: float = WAIT) -> Any:
    ends = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < ends, "it did not come"
        time.sleep(0.2)
    return value


@pytest.mark.timeout(400)
def test_bad_answers_reach_the_person_on_call_and_so_does_their_end(
    agent: Agent, prometheus: Prometheus, hooks: Hooks
) -> None:
    """Healthy traffic tells nobody; ungrounded answers arrive at the webhook, by Prometheus and
    Alertmanager and by the agent itself, with labels; recovery arrives as resolved."""
    scored = 'sum(assay_window_turns{metric="groundedness", window="5m"})'
    demo(agent, "good=1", 100)
    eventually(lambda: (found := prometheus.query(scored)) and float(found[0]["value"][1]) >= 50)
    assert prometheus.query('assay_defect_rate{metric="groundedness", window="5m"}')
    time.sleep(3)
    assert prometheus.query("ALERTS") == []
    assert hooks.received == []

    began = time.time()
    demo(agent, "ungrounded=1", 120)
    for path in ("/alertmanager", "/embedded"):
        (at, alert), *_ = eventually(lambda path=path: hooks.alerts(path, "firing"))  # type: ignore[misc]
        print(f"{path}: {at - began:.1f} s from the first bad turn to the webhook")
        assert alert["labels"]["alertname"] == "ungrounded answers"
        assert alert["labels"]["app"] == "demo-shop"
        assert alert["labels"]["metric"] == "groundedness"
        assert alert["labels"]["severity"] == "critical"
        assert alert["labels"]["team"] == "assistants"
        assert alert["annotations"]["runbook"] == "look at the retriever"
    examples = alert["annotations"]["examples"].split(", ")
    assert len(examples) == 3
    for turn_id in examples:
        assert "groundedness" in agent.run("turns", "show", turn_id)
    assert "ungrounded answers" in agent.run("alerts")

    demo(agent, "good=1", 500)
    for path in ("/alertmanager", "/embedded"):
        eventually(lambda path=path: hooks.alerts(path, "resolved"))  # type: ignore[misc]
    fired = [
        alert for path in ("/alertmanager", "/embedded") for alert in hooks.alerts(path, "firing")
    ]
    assert {alert["labels"]["alertname"] for _, alert in fired} == {"ungrounded answers"}
