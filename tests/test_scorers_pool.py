"""Worker processes of the pool."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from assay.config import Config
from assay.records import Turn, decode_turn_scores, encode
from scorers.batch import Job, Refused
from scorers.pool import ScorerPool
from scorers.registry import resolve

PARENT = """
    import asyncio, os
    from assay.config import Config
    from scorers.batch import Job
    from scorers.pool import ScorerPool
    from scorers.registry import resolve

    async def main():
        job = Job(resolve(Config(metrics=["turn_error"])), "local", "live")
        pool = ScorerPool(job, processes=1)
        pool.start()
        await pool.score([b"{}"])
        (worker,) = pool._workers
        print(*worker._processes, flush=True)
        await asyncio.sleep(60)

    if __name__ == "__main__":
        asyncio.run(main())
"""


async def test_results_keep_their_order():
    """Batches run side by side and each gives its results in order."""
    job = Job(resolve(Config(metrics=["turn_error"])), "local", "live")
    pool = ScorerPool(job, processes=2)
    pool.start()
    try:
        numbers = range(40)
        values = [encode(Turn(turn_id=str(n), trace_id="0" * 32)) for n in numbers]
        found = await asyncio.gather(*(pool.score([v, b"bad", v]) for v in values))
    finally:
        await pool.stop()
    for number, (first, bad, last) in zip(numbers, found, strict=True):
        assert decode_turn_scores(first).turn_id == decode_turn_scores(last).turn_id == str(number)
        assert bad == Refused("unreadable")


def alive(pid):
    """Whether the process runs; one that ended and was not waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_workers_end_with_a_killed_parent(tmp_path):
    """When the parent is killed its processes end themselves."""
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(PARENT))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        deadline = time.monotonic() + 20
        while alive(child) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(child)
