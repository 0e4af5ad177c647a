"""The traces of a partition that are not complete yet, and the moment when each one is.

A trace is complete when nothing more came for `settle` after its root, or, while no root is there,
for `idle`; and at the latest `max_age` after its first item. All times are milliseconds of the
partition's clock, which is the bus's: the clocks of the senders play no part.

A span whose parent is known to be in another process is as good as a root where the parents of its
service do not come here (see `RemoteParents`).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from assay.config import Assembly
from collector import saved_traces
from collector.grouping import Fragment, Item, Piece, join
from collector.remote_parents import RemoteParents

Ending = Literal["settled", "idle", "max_age", "memory"]
"""Why a trace was closed."""

_ITEM_OVERHEAD = 250
"""Bytes that an item costs beside its own: objects, id, index."""


class OpenTrace:
    """What has come of one trace."""

    __slots__ = (
        "cut", "due", "first", "here", "last", "missing_remote", "offsets", "pieces", "queued",
        "remote_service", "root_at", "saved", "saves", "size", "span_count", "trace_id",
    )  # fmt: skip

    def __init__(self, trace_id: bytes, now: int) -> None:
        self.trace_id = trace_id
        self.first = self.last = now
        self.root_at: int | None = None
        """When the latest root came."""
        self.pieces: list[Piece] = []
        self.saved = self.saves = 0
        """How many of the pieces are saved, and in how many values of the state."""
        self.here: set[bytes] = set()
        """Ids of the items that are here."""
        self.missing_remote: set[bytes] = set()
        """Parents in other processes that are not here."""
        self.remote_service: str | None = None
        """The service of a span that has, or had, such a parent."""
        self.span_count = 0
        self.size = 0
        """Bytes held."""
        self.cut = 0
        """Spans and log records left out at a bound."""
        self.offsets: set[int] = set()
        """The records that it must be read from again."""
        self.due = self.queued = 0

    @property
    def arrived_at(self) -> int:
        """When its root, else its last item, was taken in."""
        return self.last if self.root_at is None else self.root_at

    def spans_request(self) -> bytes:
        """All its spans as an ExportTraceServiceRequest."""
        return join(piece for piece in self.pieces if not piece.logs)

    def logs_request(self) -> bytes:
        """All its log records as an ExportLogsServiceRequest."""
        return join(piece for piece in self.pieces if piece.logs)


class OpenTraces:
    """The open traces of one partition."""

    def __init__(self, config: Assembly, remote: RemoteParents) -> None:
        self._settle = round(config.settle * 1000)
        self._idle = round(config.idle * 1000)
        self._max_age = round(config.max_age * 1000)
        self._max_spans = config.max_spans
        self._max_trace = config.max_trace
        self._remote = remote
        self._traces: dict[bytes, OpenTrace] = {}
        self._queue: list[tuple[int, int, OpenTrace]] = []
        self._order = itertools.count()
        self._users: dict[int, int] = {}
        """Open traces by record."""
        self.size = 0
        """Bytes held by all."""

    def __len__(self) -> int:
        return len(self._traces)

    def __contains__(self, trace_id: bytes) -> bool:
        return trace_id in self._traces

    @property
    def records(self) -> int:
        """How many records open traces must be read from again after a restart."""
        return len(self._users)

    @property
    def oldest(self) -> OpenTrace:
        """The trace whose first item came first; there must be one."""
        return next(iter(self._traces.values()))

    def add(self, fragment: Fragment, offset: int | None, now: int, logs: bool) -> tuple[int, int]:
        """Take in what the record at `offset` (none: the state) holds of a trace, which is opened
        if it is new.

        Returns how many items were here already, and how many were cut at a bound.
        """
        trace = self._traces.get(fragment.trace_id)
        if trace is None:
            trace = self._traces[fragment.trace_id] = OpenTrace(fragment.trace_id, now)
        here, fields, size = trace.here, [], 0
        duplicates = cut = 0
        for item in fragment.items:
            if item.id in here:
                duplicates += 1
            elif self._full(trace, item, logs, size):
                cut += 1
            else:
                here.add(item.id)
                fields.append(item.field)
                size += len(item.field) + _ITEM_OVERHEAD
                if not logs:
                    trace.span_count += 1
                    self._note_parent(trace, item, fragment.service, now)
        # What changes nothing is not read again after a restart, so it must not move the end.
        if fields:
            trace.last = now
            trace.pieces.append(Piece(now, logs, fragment.resource, fragment.scope, fields))
            size += len(fragment.resource) + len(fragment.scope)
            trace.size += size
            self.size += size
        needed = fields or (cut and not trace.cut)
        if needed and offset is not None and offset not in trace.offsets:
            trace.offsets.add(offset)
            self._users[offset] = self._users.get(offset, 0) + 1
        trace.cut += cut
        self._schedule(trace)
        return duplicates, cut

    def in_use(self, offset: int) -> bool:
        """Whether an open trace must be read from this record again after a restart."""
        return offset in self._users

    def due(self, now: int) -> Iterator[tuple[OpenTrace, Ending]]:
        """The traces that are complete at `now`, in the order in which they became so."""
        queue = self._queue
        while queue and queue[0][0] <= now:
            moment, _, trace = heapq.heappop(queue)
            if self._traces.get(trace.trace_id) is not trace or trace.queued != moment:
                continue
            if trace.due > moment:
                self._enqueue(trace)
            elif trace.due == trace.first + self._max_age:
                yield trace, "max_age"
            else:
                yield trace, "idle" if self._waits_for_root(trace) else "settled"

    def close(self, trace: OpenTrace) -> Sequence[int]:
        """Forget the trace. Returns the records that no open trace needs any more."""
        del self._traces[trace.trace_id]
        self.size -= trace.size
        if trace.remote_service is not None:
            self._remote.closed(trace.trace_id, trace.remote_service, not trace.missing_remote)
        return self._release(trace)

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Open the traces that the state holds."""
        for trace_id, saves, cut, pieces in saved_traces.restore(state):
            for now, logs, fragment in pieces:
                self.add(fragment, None, now, logs)
            trace = self._traces[trace_id]
            trace.saves, trace.saved = saves, len(trace.pieces)
            trace.cut += cut

    def save(self, before: int) -> tuple[dict[str, bytes], list[int]]:
        """Save the traces that need records with offsets less than `before`.

        Returns the state's values by key, and the records that no open trace needs any more.
        """
        values: dict[str, bytes] = {}
        free: list[int] = []
        if next(iter(self._users), before) >= before:
            return values, free
        for trace in self._traces.values():
            if trace.offsets and min(trace.offsets) < before:
                if trace.pieces:
                    value = saved_traces.encode(trace.pieces[trace.saved :], bool(trace.cut))
                    values[saved_traces.key(trace.trace_id, trace.saves)] = value
                    trace.saves, trace.saved = trace.saves + 1, len(trace.pieces)
                free += self._release(trace)
        return values, free

    def _release(self, trace: OpenTrace) -> list[int]:
        free = []
        for offset in trace.offsets:
            self._users[offset] -= 1
            if not self._users[offset]:
                del self._users[offset]
                free.append(offset)
        trace.offsets = set()
        return free

    def _full(self, trace: OpenTrace, item: Item, logs: bool, more: int) -> bool:
        # The root is what turns are read by, and comes last: it gets in beyond the bounds.
        if not logs and not item.parent and trace.root_at is None:
            return False
        return (
            trace.span_count >= self._max_spans
            or trace.size + more + len(item.field) > self._max_trace
        )

    def _note_parent(self, trace: OpenTrace, item: Item, service: str, now: int) -> None:
        if not item.parent:
            trace.root_at = now
        elif item.remote:
            trace.remote_service = service
            if item.parent not in trace.here:
                trace.missing_remote.add(item.parent)
        trace.missing_remote.discard(item.id)

    def _waits_for_root(self, trace: OpenTrace) -> bool:
        if trace.root_at is not None:
            return False
        if not trace.missing_remote or trace.remote_service is None:
            return True
        return self._remote.expected(trace.remote_service)

    def _schedule(self, trace: OpenTrace) -> None:
        quiet = self._idle if self._waits_for_root(trace) else self._settle
        trace.due = min(trace.last + quiet, trace.first + self._max_age)
        # The queue holds the earliest moment at which the trace may be due; a later one is found
        # out when that comes.
        if not trace.queued or trace.due < trace.queued:
            self._enqueue(trace)

    def _enqueue(self, trace: OpenTrace) -> None:
        trace.queued = trace.due
        heapq.heappush(self._queue, (trace.due, next(self._order), trace))
