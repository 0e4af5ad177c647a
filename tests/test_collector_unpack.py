from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.answers import Refused
from collector.unpack import ENCODINGS, MAX_MEMBERS, Body

PACK = {b"identity": bytes, b"gzip": gzip.compress, b"deflate": zlib.compress}


def fed(body: Body, data: bytes, step: int) -> bytes:
    for start in range(0, len(data), step):
        body.feed(data[start : start + step])
    return body.finish()


@given(st.sampled_from(sorted(PACK)), st.binary(max_size=300), st.integers(1, 50))
def test_a_body_comes_out_as_it_was_packed(encoding, data, step):
    """However the pieces fall, the body is whole."""
    assert fed(ENCODINGS[encoding](1000), PACK[encoding](data), step) == data


@given(st.integers(1, 40))
def test_gzip_members_are_read_one_after_another(step):
    """A body of several gzip members is their contents joined."""
    packed = gzip.compress(b"one") + gzip.compress(b"") + gzip.compress(b"two")
    assert fed(ENCODINGS[b"gzip"](100), packed, step) == b"onetwo"


def test_members_without_end_are_refused():
    """Empty members cannot hold the door for long."""
    empty = gzip.compress(b"")
    assert fed(ENCODINGS[b"gzip"](100_000), empty * MAX_MEMBERS, 5000) == b""
    with pytest.raises(Refused) as refused:
        fed(ENCODINGS[b"gzip"](100_000), empty * (MAX_MEMBERS + 1), 5000)
    assert refused.value.reason == "malformed"


@pytest.mark.parametrize("encoding", sorted(PACK))
def test_the_limit_is_the_last_size_that_is_taken(encoding):
    """A body of exactly the limit passes; one byte more is refused, naming the limit."""
    pack, data = PACK[encoding], bytes(range(256)) * 4
    assert fed(ENCODINGS[encoding](2000), pack(data[:1000] * 2), 100)
    with pytest.raises(Refused, match="2000 bytes") as refused:
        fed(ENCODINGS[encoding](2000), pack(data[:1000] * 2 + b"!"), 100)
    assert refused.value.reason == "too_large"


def test_a_bomb_is_refused_before_it_is_unpacked():
    """What is unpacked of 200 MB of zeros stays at the limit."""
    bomb = gzip.compress(bytes(200_000_000))
    body = ENCODINGS[b"gzip"](1_000_000)
    with pytest.raises(Refused, match="1000000 bytes"):
        body.feed(bomb)


@given(st.binary(min_size=1, max_size=60), st.integers(1, 20))
def test_any_bytes_are_unpacked_or_refused(data, step):
    """No error but Refused comes out of bytes that are not compressed as said."""
    try:
        fed(ENCODINGS[b"gzip"](1000), data, step)
    except Refused as refused:
        assert refused.reason in ("malformed", "too_large")


@pytest.mark.parametrize(
    "data", [gzip.compress(b"data", mtime=0)[:-2], gzip.compress(b"data", mtime=0) + b"junk"]
)
def test_a_cut_or_padded_body_is_malformed(data):
    """A stream that ends early, or goes on with something else, is not taken for whole."""
    with pytest.raises(Refused) as refused:
        fed(ENCODINGS[b"gzip"](1000), data, 7)
    assert refused.value.reason == "malformed"
