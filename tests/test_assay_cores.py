from __future__ import annotations

import os

import pytest

from assay.cores import cores


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "rubbish"}, None),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "70000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "6400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    ],
)
def test_a_quota_counts_and_nothing_else_takes_cores_away(tmp_path, files, expected):
    """Without a quota, or with one above it, it is what the process may run on."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert cores(tmp_path) == expected or expected is None
    if expected is None:
        assert cores(tmp_path) == min(len(os.sched_getaffinity(0)), 64)
