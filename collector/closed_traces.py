"""The memory of a partition's traces that were closed, so that none is ever read twice.

It is written with the turns, one value for all traces that are committed together, and given back
when the partition is assigned. It forgets by the partition's clock: after a downtime nothing has
been forgotten that the records still to be read again may speak of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec

from assay.bus.contract import StateChange

PREFIX = "closed/"


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """What one commit closed."""

    clock: int
    """The partition's clock, ms."""
    read: int
    """The last offset that had been read."""
    verdicts: dict[str, str]
    """By trace id (hex): for each turn by ordinal `k`, kept, or `s`, sampled out."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Batch).decode


class ClosedTraces:
    """Which traces were closed within the last `ttl` ms of the partition's clock."""

    def __init__(self, partition: int, ttl: int, state: Mapping[str, bytes]) -> None:
        self._partition = partition
        self._ttl = ttl
        self._ids: set[bytes] = set()
        self._batches: deque[tuple[int, str, tuple[bytes, ...]]] = deque()
        self._fresh: dict[bytes, str] = {}
        self._sequence = 0
        self.read = -1
        """The last offset that had been read when the state was written."""
        for key in sorted(key for key in state if key.startswith(PREFIX)):
            batch = _decode(state[key])
            ids = tuple(map(bytes.fromhex, batch.verdicts))
            self._ids.update(ids)
            self._batches.append((batch.clock, key, ids))
            self._sequence = int(key.removeprefix(PREFIX)) + 1
            self.read = max(self.read, batch.read)

    def __contains__(self, trace_id: bytes) -> bool:
        return trace_id in self._ids

    def add(self, trace_id: bytes, verdicts: str) -> None:
        """The trace was closed; its turns were decided so (see `Batch.verdicts`)."""
        self._ids.add(trace_id)
        self._fresh[trace_id] = verdicts

    def changes(self, clock: int, read: int) -> list[StateChange]:
        """What is to be committed since the last call; forgets what is older than `ttl`."""
        changes = []
        if self._fresh:
            key = f"{PREFIX}{self._sequence:016d}"
            self._sequence += 1
            verdicts = {trace_id.hex(): text for trace_id, text in self._fresh.items()}
            changes.append(StateChange(self._partition, key, _encode(Batch(clock, read, verdicts))))
            self._batches.append((clock, key, tuple(self._fresh)))
            self._fresh = {}
        while self._batches and self._batches[0][0] + self._ttl < clock:
            _, key, ids = self._batches.popleft()
            self._ids.difference_update(ids)
            changes.append(StateChange(self._partition, key, None))
        return changes
