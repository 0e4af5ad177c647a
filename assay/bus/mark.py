"""How much of the embedded log was confirmed, kept beside it."""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

_LAYOUT = struct.Struct("<qI")


class Mark:
    """A lower bound of the transactions that were confirmed.

    SQLite silently drops the end of a damaged write-ahead log, and makes a lost file anew: the
    mark is how such a loss is noticed. It is written after a commit and never synced, so it can
    fall behind what was confirmed but not run ahead of it.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> int:
        """The number of transactions confirmed for certain; 0 when nothing is known."""
        data = os.pread(self._file, _LAYOUT.size, 0)
        if len(data) < _LAYOUT.size:
            return 0
        confirmed, crc = _LAYOUT.unpack(data)
        return int(confirmed) if zlib.crc32(data[:8]) == crc else 0

    def write(self, confirmed: int) -> None:
        """Raise the bound."""
        crc = zlib.crc32(struct.pack("<q", confirmed))
        with suppress(OSError):  # a bound that stays behind is still true
            os.pwrite(self._file, _LAYOUT.pack(confirmed, crc), 0)

    def close(self) -> None:
        os.close(self._file)
