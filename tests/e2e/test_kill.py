"""The agent killed at random under load: nothing accepted is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import httpx
import pytest
from kill_drill import Traffic, fates

from assay.cli.source import RUNNING

KILLS = int(os.environ.get("ASSAY_KILLS", "10"))
RATE = 150.0
"""Traces a second."""


class Agent:
    """`assay up` in a folder, started again and again on the same ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: asyncio.subprocess.Process | None = None
        self.listen = {"http": "127.0.0.1:0", "api": "127.0.0.1:0"}

    async def start(self) -> None:
        (self.folder / "assay.yaml").write_text(
            json.dumps(
                {
                    "collector": {"http": self.listen["http"], "grpc": None},
                    "assembly": {"settle": "500ms", "idle": "1s"},
                    "exporters": {"prometheus": {"listen": self.listen["api"]}},
                }
            )
        )
        with (self.folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "assay.cli.main",
                "up",
                cwd=self.folder,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        greeting = await asyncio.wait_for(self.process.stdout.readline(), 30)
        assert b"ready" in greeting, (self.folder / "log").read_text()[-2000:]
        running = json.loads((self.folder / "assay-data" / RUNNING).read_text())
        self.listen = {"http": running["http"].removeprefix("http://"), "api": running["api"]}

    async def end(self, number: signal.Signals) -> None:
        assert self.process is not None
        if number == signal.SIGKILL:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        await asyncio.wait_for(self.process.communicate(), 60)

    async def drained(self) -> None:
        """Wait until no record waits and no trace is open, twice in a row."""
        deadline = time.monotonic() + 90
        quiet = 0
        async with httpx.AsyncClient() as client:
            while quiet < 3:
                assert time.monotonic() < deadline, "it did not drain"
                page = (await client.get(f"http://{self.listen['api']}/metrics")).text
                waiting = sum(
                    float(line.rpartition(" ")[2])
                    for line in page.splitlines()
                    if line.startswith(("assay_open_traces ", "assay_bus_lag_records{"))
                )
                quiet = quiet + 1 if waiting == 0 else 0
                await asyncio.sleep(0.4)


@pytest.mark.slow
@pytest.mark.timeout(KILLS * 12 + 180)
async def test_kills_under_load_lose_and_double_nothing(tmp_path: Path) -> None:
    """Each accepted turn has exactly one TurnScores per group and one row per entry."""
    seed = int(os.environ.get("ASSAY_SEED", "0")) or random.SystemRandom().randrange(10**6)
    rng = random.Random(seed)
    agent = Agent(tmp_path)
    await agent.start()
    traffic = Traffic(f"http://{agent.listen['http']}/v1/traces", rng, RATE)
    sending = asyncio.create_task(traffic.run())
    for _ in range(KILLS):
        await asyncio.sleep(rng.uniform(0.3, 4.0))
        await agent.end(signal.SIGKILL)
        await agent.start()
    await asyncio.sleep(1.0)
    traffic.running = False
    await sending
    await agent.drained()
    await agent.end(signal.SIGTERM)
    result = await fates(tmp_path / "assay-data", traffic)
    print(
        f"seed {seed}: {KILLS} kills, {len(traffic.sent)} traces accepted, "
        f"{len(traffic.unsure)} unanswered, {traffic.refused} refused; "
        f"{result.turns} TurnScores, {result.rows} rows"
    )
    assert result.faults == {}
    assert len(traffic.sent) > KILLS * 50
