"""The boards' queries, over a scraped agent with every kind of traffic."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_process import ASSAY, Agent, stand_in
from debian_tools import program
from prometheus_stack import Prometheus

pytestmark = pytest.mark.slow
BOARDS = Path(__file__).parent.parent.parent / "dashboards" / "grafana"
SETTINGS = """
judge: {{base_url: "{url}", model: m-1, api_key: sk-1, budget: {{usd_per_day: 100}}}}
prices: {{m-1: {{input: 1, output: 2}}}}
metrics:
  - default
  - {{fluency: {{engine: judge}}}}
  - {{violence: {{engine: judge}}}}
  - {{groundedness: {{engine: cascade}}}}
alerts:
  - {{name: rough, metric: fluency, objective: 0, min_turns: 1, window: 5m}}
  - {{name: harm, metric: violence, level: low}}
  - {{name: worse, metric: groundedness, regression: true}}
  - {{name: pipeline, health: [lag, no_scores]}}
"""
VARIABLES = {"$app": ".*", "$environment": ".*", "$metric": ".*", "$engine": ".*", "$window": "5m"}


def queries() -> list[tuple[str, str]]:
    found = []
    for path in sorted(BOARDS.glob("*.json")):
        board = json.loads(path.read_text())
        exprs = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        exprs += [annotation["expr"] for annotation in board["annotations"].get("list", [])]
        for expr in exprs:
            text = expr
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            found.append((path.stem, text))
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    path, folder = program("prometheus"), tmp_path_factory.mktemp("boards")
    with stand_in('{"reason": "It is so.", "score": 4}') as url:
        agent = Agent(folder, SETTINGS.format(url=url), labels="model, version")
        rules = folder / "rules.yaml"
        agent.run("rules", "--output", str(rules))
        found = Prometheus(path, folder, agent.running.api, rules)
        resource = "service.version=1.2.0,deployment.environment.name=prod"
        environment = os.environ | {"OTEL_RESOURCE_ATTRIBUTES": resource}
        for _ in range(3):
            command = [*ASSAY, "demo", "--count", "40", "--rate", "20"]
            subprocess.run(
                command, cwd=folder, env=environment, check=True, capture_output=True, timeout=90
            )
        yield found
        found.stop()
        assert agent.stop() == 0


@pytest.mark.timeout(300)
def test_every_query_of_the_boards_returns_data(prometheus: Prometheus) -> None:
    """Prometheus parses every query of every board, and each has data to show."""
    ends = time.monotonic() + 120
    empty = queries()
    assert len(empty) > 50
    while empty and time.monotonic() < ends:
        time.sleep(2)
        empty = [(board, expr) for board, expr in empty if not prometheus.query(expr)]
    assert empty == []
