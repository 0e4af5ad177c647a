"""A backfill beside a running agent: the past is scored, and what is live does not notice."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from agent_process import ASSAY, WAIT, Agent

pytestmark = pytest.mark.slow
SETTINGS = """
metrics: [turn_error, fluency]
alerts:
  - {name: failing, metric: turn_error, objective: 0.05, min_turns: 5, window: 5m}
  - {name: worse, metric: turn_error, regression: true}
  - {name: pipeline, health: [lag, no_scores]}
"""
HISTORY, LIVE = 3000, 40


def request(count: int, *, failed: bool) -> dict[str, Any]:
    """An export of traces that end now: model calls that failed, or did not."""
    now = time.time_ns()
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "It is."}]}])
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.output.messages": said,
    }
    spans = [
        {
            "traceId": secrets.token_hex(16),
            "spanId": secrets.token_hex(8),
            "name": "chat m",
            "startTimeUnixNano": str(now - 10**9),
            "endTimeUnixNano": str(now),
            "attributes": [
                {"key": key, "value": {"stringValue": value}} for key, value in attributes.items()
            ],
            "status": {"code": 2 if failed else 1},
        }
        for _ in range(count)
    ]
    resource = [{"key": "service.name", "value": {"stringValue": "shop"}}]
    scope = [{"spans": spans}]
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": scope}]}


def send(agent: Agent, body: dict[str, Any]) -> None:
    headers = {"content-type": "application/json", "authorization": "Bearer k-1"}
    asked = urllib.request.Request(
        f"{agent.running.http}/v1/traces", json.dumps(body).encode(), headers
    )
    urllib.request.urlopen(asked, timeout=10).close()


def until(found: Any) -> None:
    ends = time.monotonic() + WAIT
    while not found():
        assert time.monotonic() < ends, "it did not come"
        time.sleep(0.3)


@pytest.mark.timeout(240)
def test_a_backfill_raises_no_alert_and_leaves_the_live_series_alone(tmp_path: Path) -> None:
    """3,000 failed turns of the same app and hour are scored from a file while good ones come in:
    the series and the ledger are those of the good ones alone. The same turns sent live do fire."""
    agent = Agent(tmp_path, SETTINGS)
    try:
        lines = [json.dumps(request(100, failed=True)) for _ in range(HISTORY // 100)]
        (tmp_path / "past.jsonl").write_text("\n".join(lines))
        command = [*ASSAY, "backfill", "--from", "past.jsonl", "-m", "turn_error", "-y"]
        backfill = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        for _ in range(LIVE):
            send(agent, request(1, failed=False))
            time.sleep(0.1)
        said, _ = backfill.communicate(timeout=120)
        assert f"{HISTORY:,} scores" in said.splitlines()[-1], said
        scored = ("assay_evaluations_total", "shop", "turn_error")
        until(lambda: agent.metrics().get(scored, 0) >= LIVE)
        seen = agent.metrics()
        assert seen[scored] == seen["assay_weight_total", "shop", "turn_error"] == LIVE
        assert seen["assay_defect_weight_total", "shop", "turn_error"] == 0
        assert seen["assay_defect_rate", "shop", "turn_error"] == 0
        assert not any(name == "assay_alert_active" and value for (name, *_), value in seen.items())
        rows = "SELECT run = 'live' AS live, passed, count(*) AS n FROM scores"
        rows += " WHERE metric = 'turn_error' GROUP BY 1, 2"

        def stored() -> list[tuple[bool, bool, int]]:
            found = map(json.loads, agent.run("query", "--json", rows).splitlines())
            return sorted((row["live"], row["passed"], row["n"]) for row in found)

        until(lambda: stored() == [(False, False, HISTORY), (True, True, LIVE)])
        send(agent, request(LIVE, failed=True))
        fired = ("assay_alert_active", "shop", "turn_error")
        until(lambda: agent.metrics().get(fired) == 1)
    finally:
        assert agent.stop() == 0
