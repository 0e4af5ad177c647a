"""Programs of Debian's prometheus and prometheus-alertmanager packages, for tests of the real."""

from __future__ import annotations

import os
import shutil

import pytest


def program(name: str) -> str:
    """The path of `name`. Skips the test where it is not installed; in CI that is a failure."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed: apt-get install prometheus prometheus-alertmanager"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found
