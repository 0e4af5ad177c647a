"""Notices when one conversation id holds too much of an app's turns to be a conversation."""

from __future__ import annotations

import logging

SHARE = 0.2
"""Of an app's turns in an hour: more than this for one id is warned of."""
MIN_TURNS = 200
MAX_APPS = 1000
_COUNTERS = 50

_log = logging.getLogger(__name__)


class _Hour:
    """The turns of one app in one hour. Frequent ids are counted by Misra and Gries' algorithm:
    too low by at most 1 in `_COUNTERS` of the turns, and never too high."""

    def __init__(self, hour: int) -> None:
        self.hour = hour
        self.turns = 0
        self.warned = False
        self._counts: dict[str, int] = {}

    def count(self, conversation_id: str) -> int:
        counts = self._counts
        self.turns += 1
        if conversation_id in counts or len(counts) < _COUNTERS:
            counts[conversation_id] = counts.get(conversation_id, 0) + 1
            return counts[conversation_id]
        self._counts = {key: n - 1 for key, n in counts.items() if n > 1}
        return 0


class Dominance:
    """Counts turns by app and conversation, and warns once an hour and app."""

    def __init__(self) -> None:
        self._hours: dict[str, _Hour] = {}

    def observe(self, app: str, conversation_id: str, minute: int) -> None:
        """A turn of the conversation came."""
        hour = minute // 60
        current = self._hours.get(app)
        if current is None or current.hour != hour:
            if current is None and len(self._hours) >= MAX_APPS:
                return
            current = self._hours[app] = _Hour(hour)
        count = current.count(conversation_id)
        if not current.warned and current.turns >= MIN_TURNS and count > SHARE * current.turns:
            current.warned = True
            _log.warning(
                "one conversation id holds much of an app's turns, so sampling by conversation "
                "keeps or drops them all",
                extra={"app": app, "share": round(count / current.turns, 2)},
            )
