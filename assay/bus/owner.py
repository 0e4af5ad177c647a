"""One process owns a data folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from assay.errors import Permanent


class Owner:
    """The claim on a data folder: an advisory lock that ends with the process, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the folder, making it where needed. Raises `Permanent` when it cannot be had."""
        path = self._folder / "bus.lock"
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Permanent(f"cannot use the data folder {self._folder}: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise Permanent(
                f"the data folder {self._folder} is in use by process {holder}: stop that process, "
                "talk to it over its API, or set another data_dir"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the folder back. Safe twice and without `acquire`."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
