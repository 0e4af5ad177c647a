from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.bus.codec import (
    LZ4,
    PLAIN,
    Damaged,
    decode_headers,
    encode_headers,
    pack,
    record_crc,
    text_crc,
    unpack,
)


@given(st.binary(max_size=50), st.integers(1, 200))
def test_value_comes_back(value, times):
    """Whatever a value is, it is read as it was written, and never stored much larger."""
    codec, data = pack(value * times)
    assert unpack(codec, data) == value * times
    assert len(data) <= len(value) * times


@pytest.mark.parametrize(("value", "codec"), [(b"ab" * 5000, LZ4), (b"ab" * 50, PLAIN)])
def test_long_values_are_compressed(value, codec):
    """Long text is compressed; for short values it does not pay."""
    assert pack(value)[0] == codec


@given(st.binary(max_size=200))
def test_bytes_that_were_never_packed_are_damage(data):
    """The reader gives bytes or says `Damaged`, and nothing else."""
    with contextlib.suppress(Damaged):
        assert isinstance(unpack(LZ4, data), bytes)


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_headers_come_back(headers):
    """Headers of any text are read as they were written."""
    assert decode_headers(encode_headers(headers)) == headers


def test_checksum_tells_every_column_apart():
    """No two rows that differ in one column, or in where a column ends, have the same CRC."""
    rows = [
        (1, 2, 0, b"k", b"h", b"v"),
        (3, 2, 0, b"k", b"h", b"v"),
        (1, 3, 0, b"k", b"h", b"v"),
        (1, 2, 1, b"k", b"h", b"v"),
        (1, 2, 0, None, b"h", b"v"),
        (1, 2, 0, b"", b"h", b"v"),
        (1, 2, 0, b"kh", None, b"v"),
        (1, 2, 0, b"k", b"h", b"w"),
    ]
    assert len({record_crc(*row) for row in rows}) == len(rows)
    assert text_crc("ab", "c") != text_crc("a", "bc")


def test_column_of_another_type_is_damage():
    """A row whose columns changed their type is damaged, not an error of Python."""
    with pytest.raises(Damaged):
        record_crc(1, None, 0, None, None, b"v")
    with pytest.raises(Damaged):
        record_crc(1, 2, 0, None, None, "text")
