"""Which records of a partition are done: a prefix, and a compact bitmap of what lies beyond it."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable

MAX_BEYOND = 20_000
"""Reading pauses when a done record lies this far beyond the first gap: the bitmap's text then
stays under the 4,096 bytes that a Kafka broker keeps beside an offset."""


class Progress:
    """Done offsets of one partition.

    `next` is the first offset that is not done: everything before it is. Offsets that the reader
    passed without a record (transaction markers, compaction) are reported by `gap` and count as
    done.
    """

    __slots__ = ("_bits", "next")

    def __init__(self, next_offset: int = 0, beyond: Iterable[int] = ()) -> None:
        self.next = next_offset
        self._bits = 0
        for offset in beyond:
            self.mark(offset)

    def mark(self, offset: int) -> None:
        """`offset` is done. Marking twice is the same as once."""
        if offset >= self.next:
            self._bits |= 1 << (offset - self.next)
            self._advance()

    def gap(self, start: int, end: int) -> None:
        """Offsets from `start` up to `end`, not included, hold no record."""
        start = max(start, self.next)
        if start < end:
            self._bits |= ((1 << (end - start)) - 1) << (start - self.next)
            self._advance()

    def done(self, offset: int) -> bool:
        return offset < self.next or bool(self._bits >> (offset - self.next) & 1)

    def undone(self, start: int, end: int) -> int:
        """How many offsets from `start` up to `end`, not included, are not done."""
        start = max(start, self.next)
        if start >= end:
            return 0
        bits = self._bits >> (start - self.next) & ((1 << (end - start)) - 1)
        return end - start - bits.bit_count()

    @property
    def full(self) -> bool:
        """So much is done beyond the first gap that reading on must wait."""
        return self._bits.bit_length() > MAX_BEYOND

    @property
    def beyond(self) -> int:
        """How many offsets are done beyond the first gap."""
        return self._bits.bit_count()

    def copy(self) -> Progress:
        """An independent copy, cheap at any size."""
        twin = Progress(self.next)
        twin._bits = self._bits
        return twin

    def metadata(self) -> str:
        """The done offsets beyond `next` as printable text; empty when there are none."""
        if not self._bits:
            return ""
        data = self._bits.to_bytes((self._bits.bit_length() + 7) // 8, "little")
        return base64.b85encode(zlib.compress(data, 6)).decode()

    @classmethod
    def restore(cls, next_offset: int, metadata: str) -> Progress:
        """The progress that `next` and `metadata` describe. Raises ValueError on damaged text."""
        progress = cls(next_offset)
        if metadata:
            try:
                data = zlib.decompress(base64.b85decode(metadata))
            except (zlib.error, ValueError) as error:
                raise ValueError(f"damaged progress metadata: {error}") from error
            progress._bits = int.from_bytes(data, "little")
            progress._advance()
        return progress

    def _advance(self) -> None:
        ones = (self._bits ^ (self._bits + 1)).bit_length() - 1
        if ones:
            self.next += ones
            self._bits >>= ones
