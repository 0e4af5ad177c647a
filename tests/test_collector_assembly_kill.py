from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import TURNS, topics
from assay.records import Turn, decode_turn

DRILL = Path(__file__).parent / "assembly_drill.py"
KILLS = int(os.environ.get("ASSAY_KILLS", "8"))


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(DRILL.parent), str(DRILL.parents[1])])
    return subprocess.Popen(
        [sys.executable, str(DRILL), str(folder), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


async def published(folder: Path) -> list[Turn]:
    bus = EmbeddedBus(folder, topics())
    await bus.start()
    turns = [decode_turn(record.value) async for record in bus.read(TURNS)]
    await bus.stop()
    return turns


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_any_moment_each_trace_is_one_turn(tmp_path: Path, capsys) -> None:
    """Every trace that was accepted whole is on the stream as one whole turn, exactly once,
    however often the process is killed while it reads, closes and commits."""
    seed = random.randrange(2**32)
    random_ = random.Random(seed)
    accepted: set[int] = set()
    for kill in range(KILLS):
        child = start(tmp_path, str(1 + kill * 1_000_000), "60")
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(random_.uniform(0.1, 3.0))
        child.kill()
        accepted.update(map(int, (first + child.stdout.read()).split()))
        child.wait()
        child.stdout.close()
    child = start(tmp_path, "0")
    assert child.stdout is not None
    assert child.stdout.read() == ""
    assert child.wait() == 0
    child.stdout.close()
    turns = asyncio.run(published(tmp_path))
    counts = Counter(turn.turn_id for turn in turns)
    whole = {
        int(turn.trace_id, 16)
        for turn in turns
        if [call.name for call in turn.tool_calls] == [f"tool{int(turn.trace_id, 16)}"]
        and turn.response == f"{int(turn.trace_id, 16)}!"
    }
    with capsys.disabled():
        print(f"\nseed {seed}: {KILLS} kills, {len(accepted)} traces accepted, {len(turns)} turns")
    assert max(counts.values()) == 1
    assert accepted - whole == set()
