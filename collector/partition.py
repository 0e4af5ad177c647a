"""One partition's share of the assembler: records in, finished work out. Plain code, no waiting.

The caller reads the records in order, advances the clock before each, closes what is due, and
commits `work`; until it says `committed`, the work is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple, get_args

from google.protobuf.message import DecodeError
from prometheus_client import CollectorRegistry, Counter

from assay import series
from assay.bus.contract import Outgoing, Record, StateChange
from assay.bus.dead_letter import dead_letter
from assay.bus.progress import MAX_BEYOND
from assay.bus.topics import SPANS
from assay.config import Assembly
from assay.records import Tally
from collector import saved_traces
from collector.closed_traces import ClosedTraces
from collector.dialects import INVALID_FIELDS
from collector.finishing import Decision, Finisher
from collector.grouping import Fragment, by_trace, is_logs
from collector.open_traces import Ending, OpenTrace, OpenTraces
from collector.remote_parents import RemoteParents
from collector.tail_sampling import Rates

STAGE = "assembler"
SIGNALS = ("traces", "logs")
SAVE_AFTER = MAX_BEYOND // 2
"""Records that may pass before an open trace is saved to let go of its own."""
DEAD_LETTER_REASONS = ("undecodable", "empty", "invalid_trace_id", "unreadable")

_log = logging.getLogger(__name__)


class Counters:
    """The assembler's counters on a registry; those on the hot path are bound to their labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def by(row: series.Row[Counter], values: tuple[str, ...]) -> dict[str, Counter]:
            made = series.instrument(registry, row)
            return {value: made.labels(value) for value in values}

        self.items = by(series.ASSEMBLED_ITEMS, SIGNALS)
        self.late = by(series.LATE_SPANS, SIGNALS)
        self.duplicate = by(series.DUPLICATE_SPANS, SIGNALS)
        self.cut = by(series.CUT_SPANS, SIGNALS)
        self.closed = by(series.CLOSED_TRACES, get_args(Ending))
        self.turns = by(series.ASSEMBLED_TURNS, ("kept", "sampled_out"))
        self.dead = by(series.ASSEMBLY_DEAD_LETTERS, DEAD_LETTER_REASONS)
        self.unreadable = series.instrument(registry, series.UNREADABLE_SPANS)
        self.invalid = by(series.INVALID_VALUES, INVALID_FIELDS)
        self.spanless = series.instrument(registry, series.SPANLESS_TRACES)
        self.orphan = series.instrument(registry, series.ORPHAN_TURNS)
        self.truncated = series.instrument(registry, series.TRUNCATED_TURNS)
        self.retries = series.instrument(registry, series.ASSEMBLY_RETRIES)


class Work(NamedTuple):
    """What is finished and to be committed in one step."""

    outputs: list[Outgoing]
    done: list[int]
    """Offsets of `assay.spans`."""
    state: list[StateChange]
    tallies: list[Tally]


class Partition:
    """A partition of `assay.spans`, with the state that was committed for it."""

    def __init__(
        self,
        number: int,
        config: Assembly,
        finisher: Finisher,
        remote: RemoteParents,
        counters: Counters,
        state: Mapping[str, bytes],
        *,
        save_after: int = SAVE_AFTER,
    ) -> None:
        self.number = number
        self.clock = 0
        """Milliseconds; moved by records and by the bus's clock, never back."""
        self.open = OpenTraces(config, remote)
        self.open.restore(state)
        self._save_after = save_after
        self._finisher = finisher
        self._remote = remote
        self._count = counters
        memory = round((config.late + config.max_age) * 1000)
        self._closed = ClosedTraces(number, memory, state)
        self._rates = Rates(number, state)
        self._read = -1
        self._outputs: list[Outgoing] = []
        self._done: list[int] = []
        self._state: list[StateChange] = []
        self._tallies: dict[tuple[str, str, int], Tally] = {}
        self._met: set[str] = set()
        """Kinds of errors that were logged: once each, for they may come with every trace."""
        self.pending_bytes = 0
        """Of the outputs that are not committed."""

    @property
    def pending(self) -> bool:
        """Whether there is work to commit."""
        return bool(self._outputs or self._done or self._tallies)

    @property
    def held(self) -> int:
        """Records that were read and are not committed as done."""
        return self.open.records + len(self._done)

    def due(self, clock: int) -> Iterator[tuple[OpenTrace, Ending]]:
        """Move the clock; the traces that are complete by then, each to be closed before the next
        is asked for."""
        self.clock = max(self.clock, clock)
        yield from self.open.due(self.clock)

    def take(self, record: Record) -> None:
        """Take in a record. What was complete at its timestamp must have been closed before."""
        self._read = max(self._read, record.offset)
        try:
            fragments = by_trace(record)
        except DecodeError:
            self._refuse(record, "undecodable")
            return
        if not fragments:
            self._refuse(record, "empty")
        elif any(len(fragment.trace_id) != 16 for fragment in fragments):
            self._refuse(record, "invalid_trace_id")
        else:
            self._add(record, fragments)
            if not self.open.in_use(record.offset):
                self._done.append(record.offset)

    def close(self, trace: OpenTrace, ending: Ending) -> None:
        """Read the trace's turns, decide about them, and forget its spans."""
        self._count.closed[ending].inc()
        if not trace.span_count:
            self._count.spanless.inc()
        minute = self.clock // 60_000
        try:
            finished = self._finisher.finish(trace, ending, self._rates, minute)
        except Exception as error:  # noqa: BLE001 whatever a reader trips over, the stream goes on
            name = type(error).__name__
            if name not in self._met:
                self._met.add(name)
                _log.warning("a trace cannot be read, and further ones may not", exc_info=error)
            self._refuse_trace(trace, name)
            verdicts = ""
        else:
            for layout, number in finished.unreadable.items():
                self._count.unreadable.labels(layout).inc(number)
            for field, number in finished.invalid.items():
                self._count.invalid[field].inc(number)
            self._outputs += finished.outputs
            self.pending_bytes += sum(len(output.value) for output in finished.outputs)
            verdicts = self._tally(finished.decisions, minute)
        self._closed.add(trace.trace_id, verdicts)
        self._state += (
            StateChange(self.number, saved_traces.key(trace.trace_id, save), None)
            for save in range(trace.saves)
        )
        self._done += self.open.close(trace)

    def work(self) -> Work:
        """All that is to be committed."""
        saved, free = self.open.save(self._read - self._save_after)
        self._state += (StateChange(self.number, key, value) for key, value in saved.items())
        self._done += free
        self._state += self._closed.changes(self.clock, self._read)
        self._state += self._rates.changes(self.clock // 60_000)
        return Work(self._outputs, self._done, self._state, list(self._tallies.values()))

    def committed(self) -> None:
        """What `work` gave last has taken effect."""
        self._outputs, self._done, self._state, self._tallies = [], [], [], {}
        self.pending_bytes = 0

    def _add(self, record: Record, fragments: list[Fragment]) -> None:
        logs = is_logs(record)
        items = late = duplicate = cut = 0
        for fragment in fragments:
            here = len(fragment.items)
            items += here
            if fragment.trace_id in self._closed and fragment.trace_id not in self.open:
                # Up to there an assembler before this one had read, and counted, it.
                if record.offset > self._closed.read:
                    late += here
                    self._remote.late(fragment.trace_id)
                continue
            again, over = self.open.add(fragment, record.offset, self.clock, logs)
            duplicate += again
            cut += over
        signal = "logs" if logs else "traces"
        self._count.items[signal].inc(items)
        self._count.late[signal].inc(late)
        self._count.duplicate[signal].inc(duplicate)
        self._count.cut[signal].inc(cut)

    def _tally(self, decisions: list[Decision], minute: int) -> str:
        """Count the turns. Returns their verdicts as `ClosedTraces` keeps them."""
        verdicts = ""
        for turn, kept in decisions:
            verdicts += "k" if kept else "s"
            key = (turn.app, turn.environment, minute)
            tally = self._tallies.setdefault(key, Tally(*key))
            tally.turns += 1
            tally.sampled_out += not kept
            self._count.turns["kept" if kept else "sampled_out"].inc()
            if turn.orphan:
                self._count.orphan.inc()
            if turn.truncated:
                self._count.truncated.inc()
        return verdicts

    def _refuse(self, record: Record, reason: str) -> None:
        self._count.dead[reason].inc()
        self._outputs.append(dead_letter(record, stage=STAGE, reason=reason))
        self._done.append(record.offset)

    def _refuse_trace(self, trace: OpenTrace, error: str) -> None:
        self._count.dead["unreadable"].inc()
        record = Record(
            SPANS,
            self.number,
            min(trace.offsets, default=self._read),
            trace.first,
            trace.trace_id,
            trace.spans_request(),
            {"error": error},
        )
        self._outputs.append(dead_letter(record, stage=STAGE, reason="unreadable"))
