"""A partition of `assay.spans` in memory, with the assembler's core on it: spans in, turns out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client import CollectorRegistry

from assay.bus.contract import Outgoing, Record
from assay.bus.topics import SPANS, TURNS
from assay.config import Config
from assay.records import Tally, Turn, decode_turn
from collector import dialects
from collector.finishing import Finisher, Read
from collector.partition import SAVE_AFTER, Counters, Partition
from collector.redaction import Redactor
from collector.remote_parents import RemoteParents
from collector.tail_sampling import TailSampling

T0 = 1_796_040_000_000
"""Milliseconds: when a stream begins."""
REMOTE, LOCAL = 0x301, 0x101


def span(
    trace: int,
    number: int,
    parent: int | None = None,
    *,
    query: str | None = None,
    response: str = "Yes.",
    flags: int = 0,
    trace_state: str = "",
    **attributes: Any,
) -> Span:
    """A span; with a query one of a model call."""
    made = Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"" if parent is None else parent.to_bytes(8, "big"),
        name=f"span {number}",
        start_time_unix_nano=T0 * 1_000_000 + number,
        end_time_unix_nano=T0 * 1_000_000 + number + 1000,
        flags=flags,
        trace_state=trace_state,
    )
    if query is not None:
        made.name = "chat m"
        attributes |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": _messages("user", query),
            "gen_ai.output.messages": _messages("assistant", response),
        }
    for key, value in attributes.items():
        pair = made.attributes.add(key=key)
        if isinstance(value, int):
            pair.value.int_value = value
        else:
            pair.value.string_value = value
    return made


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def request(spans: Iterable[Span], service: str = "shop", **resource: str) -> bytes:
    """An export request as a record of the stream holds it."""
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    for key, value in {"service.name": service, **resource}.items():
        group.resource.attributes.add(key=key).value.string_value = value
    group.scope_spans.add(spans=spans).scope.name = "test"
    return made.SerializeToString()


def logs_request(logs: Iterable[LogRecord], service: str = "shop") -> bytes:
    made = ExportLogsServiceRequest()
    group = made.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    group.scope_logs.add(log_records=logs).scope.name = "test"
    return made.SerializeToString()


class Stream:
    """The partition and what was committed. `partition` is the running assembler's; `crash` ends
    it and starts another one from what was committed."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        read: Read = dialects.read,
        redactor: Redactor | None = None,
        save_after: int = SAVE_AFTER,
    ) -> None:
        self._save_after = save_after
        self.config = config or Config()
        self.registry = CollectorRegistry()
        self.records: list[Record] = []
        self.done: set[int] = set()
        self.state: dict[str, bytes] = {}
        self.outputs: list[Outgoing] = []
        self.tallies: list[Tally] = []
        self._counters = Counters(self.registry)
        self._finisher = Finisher(
            self.config,
            TailSampling(self.config.sampling, 1),
            redactor or Redactor([], b""),
            read,
        )
        self._delivered = 0
        self.crash()

    def append(self, value: bytes, at: float, signal: str = "traces") -> None:
        """A record `at` seconds after the beginning."""
        headers = {"signal": "logs"} if signal == "logs" else {}
        timestamp = T0 + round(at * 1000)
        self.records.append(Record(SPANS, 0, len(self.records), timestamp, None, value, headers))

    def crash(self) -> None:
        self.partition = Partition(
            0,
            self.config.assembly,
            self._finisher,
            RemoteParents(),
            self._counters,
            dict(self.state),
            save_after=self._save_after,
        )
        self._delivered = 0

    def deliver(self) -> bool:
        """The next record that is not done; whether there was one."""
        while self._delivered < len(self.records):
            record = self.records[self._delivered]
            self._delivered += 1
            if record.offset not in self.done:
                self._close_due(record.timestamp)
                self.partition.take(record)
                return True
        return False

    def clock(self, at: float) -> None:
        """The partition is read to its end, and it is this late."""
        while self.deliver():
            pass
        self._close_due(T0 + round(at * 1000))

    def commit(self) -> None:
        work = self.partition.work()
        self.outputs += work.outputs
        self.done.update(work.done)
        self.tallies += work.tallies
        for _, key, value in work.state:
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self.partition.committed()

    def finish(self, at: float = 100_000) -> list[Turn]:
        """Everything closed and committed: the turns."""
        self.clock(at)
        self.commit()
        return self.turns

    @property
    def turns(self) -> list[Turn]:
        return [decode_turn(output.value) for output in self.outputs if output.topic == TURNS]

    def count(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(name, labels)
        assert value is not None, f"no such series: {name} {labels}"
        return value

    def _close_due(self, clock: int) -> None:
        for trace, ending in self.partition.due(clock):
            self.partition.close(trace, ending)
