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
    assert "--from: allowed: store, kafka or files, not both" in done.stderr
    (folder / "assay.yaml").write_text("metrics: [turn_error]")
    done = assay(folder, "backfill", "--from", "kafka", "--yes", code=2)
    assert "--from kafka: allowed: with bus.kafka" in done.stderr


class Scorer:
    """A process of the fleet that scores for backfills."""

    def __init__(self, folder, number):
        (folder / f"fleet-{number}").mkdir()
        settings = json.loads((folder / "assay.yaml").read_text())
        settings["exporters"] = {"prometheus": {"listen": "127.0.0.1:0"}}
        settings["metrics"] = ["f1_score"]  # the run's own settings count, not these
        (folder / f"fleet-{number}" / "assay.yaml").write_text(json.dumps(settings))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "assay.cli.main", "score", "--group", "backfill"],
            cwd=folder / f"fleet-{number}",
            stdout=subprocess.PIPE,
        )
        assert b"ready" in self.process.stdout.readline()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def fleet(folder):
    members = [Scorer(folder, number) for number in range(2)]
    yield members
    for member in members:
        member.kill()


@pytest.mark.slow
def test_the_fleet_scores_a_run_that_is_killed_and_resumed_without_a_double(folder, fleet):
    """The run's turns are scored by other processes, by the run's settings; after the asker and a
    member of the fleet were killed in the midst, every turn has one row of the run."""
    config = Config.model_validate(json.loads((folder / "assay.yaml").read_text()))
    now = time.time_ns()

    async def more():
        bus = KafkaBus(config.bus.kafka, topics_of(config))
        await bus.start()
        turns = [turn(n, now) for n in range(100, 6000)]
        await bus.publish([Outgoing(TURNS, encode(t), t.turn_id.encode()) for t in turns])
        await bus.stop()

    asyncio.run(more())
    arguments = ("backfill", "--from", "kafka", "--via", "kafka", "--yes")
    asker = subprocess.Popen(
        [sys.executable, "-m", "assay.cli.main", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    runs = folder / "assay-data" / "backfills"
    deadline = time.monotonic() + 300
    while not list(runs.glob("*/run.json")) and asker.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    asker.kill()
    asker.wait()
    fleet[0].kill()
    (record,) = runs.glob("*/run.json")
    run_id = record.parent.name
    assay(folder, "backfill", "resume", run_id, "--yes")
    found = rows(folder)
    assert len(found) == 5920
    assert {(row["run"], row["n"]) for row in found} == {(run_id, 1)}
    assert json.loads(record.read_text())["state"] == "done"


def test_ways_that_there_are_not_are_refused(folder):
    """`--via` names what it knows, and only where there is a stream."""
    done = assay(folder, "backfill", "--via", "pigeon", "--yes", code=2)
    assert "--via: got 'pigeon'; allowed: here, kafka" in done.stderr
    (folder / "assay.yaml").write_text("metrics: [turn_error]")
    done = assay(folder, "backfill", "--via", "kafka", "--yes", code=2)
    assert "--via kafka: allowed: with bus.kafka" in done.stderr
    done = assay(folder, "score", "--group", "backfill", code=2)
    assert "--group backfill: allowed: with bus.kafka" in done.stderr
