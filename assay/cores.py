"""How many cores there are for us: a container is often given less than its machine has."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def cores(cgroup: Path = CGROUP) -> int:
    """Cores that this process may use, at least 1: those it may run on, or its container's CPU
    quota (cgroup 1 or 2) rounded up where that is less."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    return max(1, min(allowed, _quota(cgroup)))


def _quota(cgroup: Path) -> int:
    for files in (
        [cgroup / "cpu.max"],
        [cgroup / "cpu/cpu.cfs_quota_us", cgroup / "cpu/cpu.cfs_period_us"],
    ):
        try:
            quota, period = map(int, " ".join(file.read_text() for file in files).split())
        except (OSError, ValueError):  # no such file, or `max`
            continue
        if quota > 0 and period > 0:
            return math.ceil(quota / period)
    return 2**16
