"""Answers that were paid for, by what was asked: re-delivery and repeated backfills are free.

A key is a hash of all that shapes an answer: model, parameters, messages and schema. Equal evidence
gives equal messages, since boundary marks are hashes of it. The file holds judges' words about
conversations and is as sensitive as they are; it holds no key of an endpoint.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from scorers.judging.capabilities import Ask
from scorers.judging.endpoint import Reply

FRESH = 3600
"""Seconds within which another use does not move an answer's time of use."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Reply).decode


def key_of(ask: Ask, model: str, parameters: Mapping[str, Any]) -> bytes:
    """What identifies an answer."""
    parts = [
        model,
        parameters,
        ask.messages,
        ask.schema,
        ask.temperature,
        ask.choices,
        ask.logprobs,
        ask.sample,
    ]
    return hashlib.blake2b(_encode(parts), digest_size=16).digest()


class Cache:
    """Replies in one SQLite file. Losing the last ones in a crash costs their price, no more."""

    def __init__(self, path: Path, *, most: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._most = most
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA busy_timeout=2000;"
            "CREATE TABLE IF NOT EXISTS replies"
            " (key BLOB PRIMARY KEY, reply BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;"
            "CREATE INDEX IF NOT EXISTS replies_used ON replies (used);"
        )
        path.chmod(0o600)
        self._size = self._measure()

    def get(self, key: bytes) -> Reply | None:
        """The reply under `key`, if it is kept."""
        row = self._db.execute("SELECT reply, used FROM replies WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        now = int(time.time())
        if now - row[1] > FRESH:
            self._db.execute("UPDATE replies SET used = ? WHERE key = ?", (now, key))
        try:
            return _decode(zlib.decompress(row[0]))
        except (zlib.error, msgspec.DecodeError):
            return None

    def put(self, key: bytes, reply: Reply) -> None:
        """Keep `reply`; what was used longest ago goes when there is too much."""
        data = zlib.compress(_encode(reply), 1)
        self._db.execute(
            "INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, data, int(time.time()))
        )
        self._size += len(data) + 40
        if self._size > self._most:
            self._shrink()

    def close(self) -> None:
        """Safe twice."""
        self._db.close()

    def _measure(self) -> int:
        return int(
            self._db.execute("SELECT coalesce(sum(length(reply) + 40), 0) FROM replies").fetchone()[
                0
            ]
        )

    def _shrink(self) -> None:
        """Delete the oldest tenth until nine tenths of the bound are left."""
        while (size := self._measure()) > self._most * 0.9:
            count = self._db.execute("SELECT count(*) FROM replies").fetchone()[0]
            self._db.execute(
                "DELETE FROM replies WHERE key IN (SELECT key FROM replies ORDER BY used LIMIT ?)",
                (max(1, count // 10),),
            )
        self._size = size
