"""Programs that Debian has packages of, for tests of the real."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def program(name: str) -> str:
    """The path of `name`. Skips the test where it is not installed; in CI that is a failure."""
    found = shutil.which(name)
    if found is None:
        reason = (
            f"{name} is not installed: apt-get install prometheus prometheus-alertmanager openssl"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = (
        f"{program('openssl')} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
        f"-days 2 -keyout {key} -out {cert} -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    return cert, key
