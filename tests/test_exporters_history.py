"""History for Prometheus: windowed series with true times that the real tools take in and give
back, apart from everything live."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from debian_tools import program
from exporters_data import SECOND, score, turn_scores
from prometheus_stack import Program, free_port

from assay.store import Source, Store
from exporters.history import ROWS, write_history

HOUR = 3600
START = (int(time.time()) // 7200 - 24 * 20) * 7200
"""A block's beginning, 40 days ago."""
RUN = "20260101-000000-abcd"


async def _fill(store: Store, hours: int, per_hour: int) -> None:
    """The defect rate of hour n is n / 10; every other turn is of a stratum with weight 4."""
    rows = []
    for index in range(hours * per_hour):
        hour, place = divmod(index, per_hour)
        passed = place * 10 >= hour * per_hour
        entry = score(value=4.0 if passed else 1.0, passed=passed, weight=4.0 if index % 2 else 1.0)
        at = START + hour * HOUR + 60
        moments = {"event_time": at * SECOND, "arrived_at": (at + 1) * SECOND}
        app = 'a "quoted"\\app'
        rows.append((turn_scores(index, entry, at=at, run=RUN, app=app, **moments), entry))
    live = turn_scores(10**6, score(value=5.0, passed=True), at=START + 60)
    rows.append((live, live.scores[0]))
    await store.append("scores", [Source("s", range(len(rows)), rows, len(rows))])


def _written(folder: Path) -> Path:
    store = Store(str(folder / "store"))
    asyncio.run(_fill(store, 6, 40))
    path = folder / "history.txt"
    assert asyncio.run(write_history(store, RUN, path)) == 6 * len(ROWS)
    return path


def test_the_file_has_true_times_and_marks_its_run(tmp_path: Path) -> None:
    """One sample an hour at its end, in order, with limits; live scores are not in it."""
    lines = _written(tmp_path).read_text().splitlines()
    assert lines[-1] == "# EOF"
    rates = [line for line in lines if line.startswith("assay_history_defect_rate{")]
    assert [line.rsplit(" ", 2)[1:] for line in rates] == [
        [repr(float(n / 10)), str(START + (n + 1) * HOUR)] for n in range(6)
    ]
    assert all(f'run="{RUN}",window="1h"' in line for line in rates)
    assert all('app="a \\"quoted\\"\\\\app"' in line for line in rates)
    named = {line.partition("{")[0] for line in lines if not line.startswith("#")}
    assert named == {row.name for row in ROWS}


@pytest.mark.slow
def test_prometheus_gives_the_values_back(tmp_path: Path) -> None:
    """promtool makes blocks of the file; a Prometheus that starts on them answers with the values
    at their own times, under a name that no live series has."""
    path = _written(tmp_path)
    blocks = tmp_path / "blocks"
    done = subprocess.run(
        [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(path), str(blocks)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    address = f"127.0.0.1:{free_port()}"
    server = Program(
        [
            program("prometheus"),
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={blocks}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address={address}",
        ],
        tmp_path,
        f"http://{address}/-/ready",
    )
    try:
        found = {
            name: _asked(address, f'{name}{{run="{RUN}"}}')
            for name in ("assay_history_defect_rate", "assay_history_window_turns")
        }
        live = _asked(address, '{__name__=~"assay_(defect_rate|score_mean).*"}')
    finally:
        server.stop()
    (rates,) = found["assay_history_defect_rate"]
    values = {int(float(at)): float(value) for at, value in rates["values"]}
    assert {n: values[START + (n + 1) * HOUR] for n in range(6)} == {n: n / 10 for n in range(6)}
    assert rates["metric"]["app"] == 'a "quoted"\\app' and rates["metric"]["window"] == "1h"
    (turns,) = found["assay_history_window_turns"]
    assert {value for _, value in turns["values"]} == {"40"}
    assert live == []


def _asked(address: str, expression: str) -> list[dict[str, Any]]:
    given = {"query": expression, "start": START, "end": START + 7 * HOUR, "step": HOUR}
    url = f"http://{address}/api/v1/query_range?{urllib.parse.urlencode(given)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return found
