"""A backfill over the turns that the stream holds."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
import time

import pytest

from assay.bus.contract import Outgoing
from assay.bus.kafka import KafkaBus
from assay.bus.topics import TURNS
from assay.cli.wiring import topics_of
from assay.config import Config
from assay.records import Turn, encode
from assay.store import Store

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
HOUR = 3600 * 10**9


def turn(number: int, ended_at: int) -> Turn:
    return Turn(
        turn_id=f"{number:032x}-0",
        trace_id=f"{number:032x}",
        app="shop",
        query="q",
        response="r",
        started_at=ended_at - 10**9,
        ended_at=ended_at,
        arrived_at=ended_at,
    )


@pytest.fixture
def folder(broker, tmp_path):
    """A folder with settings; the stream has turns of now and of three hours ago, and a record
    that is no turn."""
    kafka = {"bootstrap": broker.bootstrap, "prefix": f"b{secrets.token_hex(4)}.", "partitions": 2}
    settings = {"bus": {"kafka": kafka}, "metrics": ["turn_error"]}
    (tmp_path / "assay.yaml").write_text(json.dumps(settings))
    config = Config.model_validate(settings)
    now = time.time_ns()

    async def fill():
        bus = KafkaBus(config.bus.kafka, topics_of(config))
        await bus.start()
        turns = [turn(n, now - (n % 2) * 3 * HOUR) for n in range(20)]
        await bus.publish([Outgoing(TURNS, encode(t), t.turn_id.encode()) for t in turns])
        await bus.publish([Outgoing(TURNS, b"no turn", partition=0)])
        await bus.stop()

    asyncio.run(fill())
    return tmp_path


def assay(folder, *arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "assay.cli.main", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def rows(folder):
    store = Store(str(folder / "assay-data" / "store"))
    sql = "select turn_id, run, count(*) as n from scores group by turn_id, run order by turn_id"
    return asyncio.run(store.query(sql))


def test_turns_of_a_time_range_are_read_from_the_stream_and_scored_once(folder):
    """Only turns that ended in the range get a row; the record that is no turn is told and left
    out; a second run finds all there."""
    done = assay(folder, "backfill", "--from", "kafka", "--since", "2h", "--yes")
    assert "left out: 1 records that hold no turn" in done.stderr
    found = rows(folder)
    assert [row["turn_id"] for row in found] == [f"{n:032x}-0" for n in range(0, 20, 2)]
    assert {row["n"] for row in found} == {1} and len({row["run"] for row in found}) == 1
    again = assay(folder, "backfill", "--from", "kafka", "--since", "2h", "--yes")
    assert "Nothing to do" in again.stdout
    assay(folder, "backfill", "--from", "kafka", "--yes")
    assert len(rows(folder)) == 20


def test_sources_are_not_mixed(folder):
    """One kind of source a run, and the stream only where the settings have one."""
    done = assay(folder, "backfill", "--from", "kafka", "--from", "store", "--yes", code=2)
    assert "--from: allowed: one of store, kafka, or files" in done.stderr
    (folder / "assay.yaml").write_text("metrics: [turn_error]")
    done = assay(folder, "backfill", "--from", "kafka", "--yes", code=2)
    assert "--from kafka: allowed: with bus.kafka" in done.stderr
