"""Silences: alerts that nobody is told of for a while. They are still shown."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import msgspec


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts whose labels are all of `matches` make no message until `until` (Unix seconds)."""

    id: str
    matches: dict[str, str]
    until: float
    comment: str = ""


class Silences:
    """Those in force."""

    def __init__(self) -> None:
        self.every: dict[str, Silence] = {}

    def add(self, matches: Mapping[str, str], until: float, comment: str = "") -> Silence:
        silence = Silence(
            id=secrets.token_hex(4), matches=dict(matches), until=until, comment=comment
        )
        self.every[silence.id] = silence
        return silence

    def expire(self, now: float) -> None:
        for silence in [s for s in self.every.values() if s.until <= now]:
            del self.every[silence.id]

    def covers(self, labels: Mapping[str, str]) -> bool:
        return any(
            all(labels.get(name) == value for name, value in silence.matches.items())
            for silence in self.every.values()
        )
