from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from collector.keys import Keys

KEYS = Keys([SecretStr("first-key"), SecretStr("schlüssel")])


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


@pytest.mark.parametrize(
    ("authorization", "api_key"),
    [
        (b"Bearer first-key", None),
        (b"bearer  first-key ", None),
        ("Bearer schlüssel".encode(), None),
        (None, b"first-key"),
        (b"Bearer wrong", b"first-key"),
        (basic("pk-lf-public:first-key"), None),
        (basic(":first-key"), None),
    ],
)
def test_a_key_is_admitted_in_each_of_its_places(authorization, api_key):
    """Bearer, x-api-key, and the password of Basic."""
    assert KEYS.admit(authorization, api_key)


@pytest.mark.parametrize(
    ("authorization", "api_key"),
    [
        (None, None),
        (b"", b""),
        (b"Bearer", None),
        (b"Bearer ", None),
        (b"Bearer first-ke", None),
        (b"Bearer first-key2", None),
        (b"first-key", None),
        (b"Digest first-key", None),
        (basic("first-key"), None),
        (basic("first-key:"), None),
        (basic("first-key:wrong"), None),
        (b"Basic first-key", None),
        (b"Basic !!", None),
        (None, b"FIRST-KEY"),
    ],
)
def test_anything_else_is_turned_away(authorization, api_key):
    """No key, part of a key, a key in the wrong place."""
    assert not KEYS.admit(authorization, api_key)


def test_without_keys_everyone_may_send():
    """A door without keys is open."""
    assert Keys([]).admit(None, None)
    assert Keys([]).admit(b"Bearer any", None)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_header_is_answered(authorization, api_key):
    """Arbitrary bytes are turned away without an error."""
    assert not KEYS.admit(authorization, api_key)
    assert not KEYS.admit(b"Basic " + authorization, None)
