"""A request body, taken in piece by piece under a limit."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

from collector.answers import Refused, too_large

MAX_MEMBERS = 1000
"""Of one gzip body: each costs far more to begin than the few bytes that it needs."""

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class Body(Protocol):
    """Raises Refused as soon as the body is over its limit or broken."""

    def feed(self, piece: bytes) -> None: ...

    def finish(self) -> bytes:
        """The whole body. Call once, after the last piece."""


class Plain:
    """A body as it is."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise too_large(self._limit)
        self._pieces.append(piece)

    def finish(self) -> bytes:
        return b"".join(self._pieces)


class Compressed:
    """A body in gzip, also in several members, or zlib format. Never holds more than `limit`."""

    def __init__(self, limit: int) -> None:
        self._plain = Plain(limit)
        self._limit = limit
        self._left = limit
        self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._members = 1
        self._fed = 0

    def feed(self, piece: bytes) -> None:
        self._fed += len(piece)
        if self._fed > self._limit:
            raise too_large(self._limit)
        while piece:
            if self._stream.eof:
                self._members += 1
                if self._members > MAX_MEMBERS:
                    raise Refused("malformed", f"more than {MAX_MEMBERS} gzip members")
                self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                unpacked = self._stream.decompress(piece, self._left + 1)
            except zlib.error as error:
                raise Refused(
                    "malformed", f"the body is not compressed as said: {error}"
                ) from error
            self._plain.feed(unpacked)
            self._left -= len(unpacked)
            piece = self._stream.unused_data

    def finish(self) -> bytes:
        if self._fed and not self._stream.eof:
            raise Refused("malformed", "the compressed body ends early")
        return self._plain.finish()


ENCODINGS: dict[bytes, Callable[[int], Body]] = {
    b"": Plain,
    b"identity": Plain,
    b"gzip": Compressed,
    b"x-gzip": Compressed,
    b"deflate": Compressed,
}
"""By the value of Content-Encoding."""
