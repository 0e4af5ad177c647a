"""Who may send: the API keys of the doors."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable

from pydantic import SecretStr


class Keys:
    """The keys that senders may present; when there are none, everyone may send."""

    def __init__(self, keys: Iterable[SecretStr]) -> None:
        self._keys = [key.get_secret_value().encode() for key in keys]

    def admit(self, authorization: bytes | None, api_key: bytes | None) -> bool:
        """Whether one of two headers' values carries a key.

        `authorization` is `Bearer KEY`, or `Basic` with the key as the password, as Langfuse's
        SDKs send it; `api_key` is the key. Time does not depend on how much of a key matches.
        """
        if not self._keys:
            return True
        presented = [key for key in (_credential(authorization or b""), api_key) if key]
        # All pairs are compared, so that time does not tell which key it was.
        return sum(hmac.compare_digest(mine, key) for mine in self._keys for key in presented) > 0


def _credential(authorization: bytes) -> bytes:
    scheme, _, value = authorization.partition(b" ")
    value = value.strip()
    match scheme.lower():
        case b"bearer":
            return value
        case b"basic":
            try:
                return base64.b64decode(value, validate=True).partition(b":")[2]
            except binascii.Error:
                return b""
        case _:
            return b""
