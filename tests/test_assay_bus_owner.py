from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from assay.bus.owner import Owner
from assay.errors import Permanent

HOLD = """
import sys, time
from pathlib import Path
from assay.bus.owner import Owner
Owner(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_second_owner_is_refused_by_the_pid_of_the_first(tmp_path):
    """A folder has one owner; the refusal names it, and giving back frees the folder."""
    first, second = Owner(tmp_path / "data"), Owner(tmp_path / "data")
    first.acquire()
    with pytest.raises(Permanent, match=f"in use by process {os.getpid()}"):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_claim_ends_with_the_process(tmp_path):
    """A process that was killed holds nothing."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    owner = Owner(tmp_path)
    with pytest.raises(Permanent, match=str(child.pid)):
        owner.acquire()
    child.kill()
    child.wait()
    child.stdout.close()
    for _ in range(50):
        try:
            owner.acquire()
            break
        except Permanent:
            time.sleep(0.1)
    owner.release()


def test_folder_that_cannot_be_made_is_refused(tmp_path):
    """A path below a file is refused with its name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Permanent, match="cannot use the data folder"):
        Owner(tmp_path / "file" / "data").acquire()
