"""How a record, a group's progress and a state value lie in their rows."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import lz4.block
import msgspec

from assay.errors import Permanent

PLAIN, LZ4 = 0, 1
ACCELERATION = 4
"""Of LZ4: on spans a fifth larger than at 1 and twice as fast."""
COMPRESS_FROM = 512
"""Bytes; shorter values gain nothing."""

_headers = msgspec.msgpack.Decoder(dict[str, str])
_columns = msgspec.msgpack.Encoder()
_prefix = struct.Struct("<qqq").pack


class Damaged(Exception):
    """A row does not hold what was written to it."""


def encode_headers(headers: Mapping[str, str]) -> bytes | None:
    """Headers as stored. Raises `Permanent` for text that has no UTF-8 form."""
    if not headers:
        return None
    try:
        return msgspec.msgpack.encode(dict(headers))
    except (UnicodeEncodeError, TypeError) as error:
        raise Permanent(f"headers cannot be written: {error}") from error


def decode_headers(data: bytes | None) -> dict[str, str]:
    """The opposite of `encode_headers`."""
    return _headers.decode(data) if data else {}


def pack(value: bytes) -> tuple[int, bytes]:
    """The value as stored, and the codec that reads it."""
    if len(value) >= COMPRESS_FROM:
        packed = lz4.block.compress(value, mode="fast", acceleration=ACCELERATION)
        if len(packed) < len(value) * 0.9:
            return LZ4, packed
    return PLAIN, value


def unpack(codec: int, data: bytes) -> bytes:
    """The opposite of `pack`. Raises `Damaged`."""
    if codec == PLAIN:
        return data
    try:
        return bytes(lz4.block.decompress(data))
    except (lz4.block.LZ4BlockError, ValueError, MemoryError) as error:
        raise Damaged(str(error)) from error


def record_crc(
    id: int, timestamp: int, codec: int, key: bytes | None, headers: bytes | None, value: bytes
) -> int:
    """The CRC of a record's row. Raises `Damaged` for a column of another type."""
    try:
        crc = zlib.crc32(_prefix(id, timestamp, codec))
        for part in (key, headers):
            crc = zlib.crc32(b"\0" if part is None else b"\1" + part, crc)
        return zlib.crc32(value, crc)
    except (struct.error, TypeError) as error:
        raise Damaged(str(error)) from error


def text_crc(*columns: str | int | bytes | None) -> int:
    """The CRC of a row of the other tables. Raises UnicodeEncodeError for text without UTF-8."""
    return zlib.crc32(_columns.encode(columns))
