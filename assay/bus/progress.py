"""Which records of a partition are done: a prefix, and a compact bitmap of what lies beyond it."""

from __future__ import annotations

import base64
import zlib

MAX_BEYOND = 20_000


class Progress:
    """Done offsets of one partition.

    `next` is the first offset that is not done: everything before it is. Offsets that the reader
    passed without a record (transaction markers, compaction) are reported by `gap` and count as
    done.
    """

    def __init__(self, next_offset: int = 0, beyond: frozenset[int] | set[int] = frozenset()):
        self.next = next_offset
        self._beyond = {offset for offset in beyond if offset >= next_offset}
        self._advance()

    def mark(self, offset: int) -> None:
        """`offset` is done. Marking twice is the same as once."""
        if offset >= self.next:
            self._beyond.add(offset)
            self._advance()

    def gap(self, start: int, end: int) -> None:
        """Offsets from `start` up to `end`, not included, hold no record."""
        if start <= self.next < end:
            self.next = end
            self._beyond = {offset for offset in self._beyond if offset >= end}
            self._advance()
        else:
            for offset in range(max(start, self.next), end):
                self.mark(offset)

    def done(self, offset: int) -> bool:
        return offset < self.next or offset in self._beyond

    @property
    def full(self) -> bool:
        """So much is done beyond the first gap that reading on must wait."""
        return len(self._beyond) >= MAX_BEYOND

    @property
    def beyond(self) -> int:
        """How many offsets are done beyond the first gap."""
        return len(self._beyond)

    def copy(self) -> Progress:
        return Progress(self.next, self._beyond)

    def metadata(self) -> str:
        """The done offsets beyond `next` as printable text; empty when there are none."""
        if not self._beyond:
            return ""
        bits = bytearray((max(self._beyond) - self.next) // 8 + 1)
        for offset in self._beyond:
            index = offset - self.next
            bits[index >> 3] |= 1 << (index & 7)
        return base64.b85encode(zlib.compress(bytes(bits), 6)).decode()

    @classmethod
    def restore(cls, next_offset: int, metadata: str) -> Progress:
        """The progress that `next` and `metadata` describe. Raises ValueError on damaged text."""
        if not metadata:
            return cls(next_offset)
        try:
            bits = zlib.decompress(base64.b85decode(metadata))
        except (zlib.error, ValueError) as error:
            raise ValueError(f"damaged progress metadata: {error}") from error
        beyond = {
            next_offset + (byte << 3) + bit
            for byte, value in enumerate(bits)
            if value
            for bit in range(8)
            if value >> bit & 1
        }
        return cls(next_offset, beyond)

    def _advance(self) -> None:
        while self.next in self._beyond:
            self._beyond.remove(self.next)
            self.next += 1
