"""From documents to turns: spans of a trace may lie far apart, so they are gathered first.

Gathering is done in a SQLite file, so that memory does not grow with the files. A trace that is
whole is then finished as the assembler does: read, completed, redacted, fitted. Its draw and
probability are those that it had live; nothing is sampled out but what was upstream.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay.bus.contract import Record
from assay.config import Config, Sampling
from assay.errors import AssayError
from assay.records import Turn
from collector import dialects, otlp_json
from collector.finishing import Finisher
from collector.grouping import Piece, by_trace
from collector.importers import exports
from collector.importers.files import Problem, Report, documents, expand
from collector.open_traces import OpenTrace
from collector.redaction import Redactor, pseudonym_key
from collector.slices import cut
from collector.tail_sampling import Rates, TailSampling

Signal = Literal["traces", "logs"]
_KEYS: dict[str, Signal] = {
    "resourceSpans": "traces",
    "resource_spans": "traces",
    "resourceLogs": "logs",
    "resource_logs": "logs",
}
STRANGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a document that is formed otherwise than its tool forms it may raise on its way."""
_IGNORED = ("resourceMetrics", "resource_metrics", "resourceProfiles")


class Importer:
    """Takes in files, then gives their turns. The file at `spool` is made and deleted here."""

    def __init__(self, config: Config, spool: Path, report: Report) -> None:
        self._max_spans = config.assembly.max_spans
        self._report = report
        kinds = config.collector.redact
        self._finisher = Finisher(
            config,
            TailSampling(Sampling(), 1),
            Redactor(kinds, pseudonym_key(config) if kinds else b""),
            dialects.read,
        )
        self.traces = self.spans = 0
        """Traces finished, and spans taken in."""
        self.dropped: Counter[str] = Counter()
        """Spans, log records and documents left out, by reason."""
        self._spool = spool
        spool.unlink(missing_ok=True)
        self._db = sqlite3.connect(spool, isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
            "CREATE TABLE pieces (trace BLOB, logs INT, resource BLOB, scope BLOB, fields BLOB);"
        )
        # One transaction that never ends: nothing here outlives the process.
        self._db.execute("BEGIN")

    def __enter__(self) -> Importer:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        self._spool.unlink(missing_ok=True)

    def take_in(self, paths: Iterable[Path]) -> None:
        """Gather what the files and folders hold. What cannot be read is reported and left out;
        raises Permanent for a file that is not there or cannot be opened."""
        for path in expand(list(paths)):
            for place, document in documents(path, self._report):
                try:
                    self._take(document)
                except (AssayError, *STRANGE) as error:
                    self.dropped["unreadable"] += 1
                    text = str(error) if isinstance(error, AssayError) else "no trace that is known"
                    self._report(Problem(str(path), place, text))

    def turns(self) -> Iterator[Turn]:
        """The turns of all that was taken in, trace by trace."""
        self._db.execute("CREATE INDEX by_trace ON pieces (trace)")
        rows = self._db.execute("SELECT * FROM pieces ORDER BY trace, rowid")
        for trace_id, pieces in groupby(rows, key=lambda row: bytes(row[0])):
            self.traces += 1
            try:
                finished = self._finisher.finish(
                    self._trace(trace_id, pieces), "settled", Rates(0, {}), 0
                )
            except Exception as error:  # noqa: BLE001 - one trace must not end the import
                self.dropped["unreadable"] += 1
                reason = f"trace {trace_id.hex()} cannot be read: {type(error).__name__}"
                self._report(Problem(str(self._spool.parent), 0, reason))
                continue
            yield from (decision.turn for decision in finished.decisions if decision.kept)

    def _trace(self, trace_id: bytes, rows: Iterator[tuple[Any, ...]]) -> OpenTrace:
        trace = OpenTrace(trace_id, 0)
        for _, logs, resource, scope, packed in rows:
            fields: list[bytes] = msgspec.msgpack.decode(packed)
            room = max(0, self._max_spans - trace.span_count)
            trace.cut += max(0, len(fields) - room)
            trace.span_count += min(len(fields), room)
            if fields[:room]:
                trace.pieces.append(Piece(0, bool(logs), resource, scope, fields[:room]))
        return trace

    def _take(self, document: Any) -> None:
        if isinstance(document, bytes):
            self._request("traces", document)
            return
        if not isinstance(document, dict):
            raise ValueError("not an object")
        signals = {_KEYS[key] for key in document if key in _KEYS}
        if not signals:
            if not any(key in document for key in _IGNORED):
                self._request("traces", self._packed("traces", exports.to_otlp(document)))
            return
        for signal in signals:
            self._request(signal, self._packed(signal, document))

    def _packed(self, signal: Signal, document: dict[str, Any]) -> bytes:
        def reject(reason: str, count: int) -> None:
            self.dropped[reason] += count

        body = msgspec.json.encode(document)
        if signal == "traces":
            return otlp_json.parse_traces(body, reject).SerializeToString()
        return otlp_json.parse_logs(body, reject).SerializeToString()

    def _request(self, signal: Signal, body: bytes) -> None:
        found = cut(signal, body, head_ratio=1.0, partitions=1)
        self.dropped += found.dropped
        if signal == "traces":
            self.spans += found.kept
        headers = {"signal": signal}
        for outgoing in found.outgoing:
            record = Record("", 0, 0, 0, None, outgoing.value, headers)
            self._db.executemany(
                "INSERT INTO pieces VALUES (?, ?, ?, ?, ?)",
                (
                    (
                        fragment.trace_id,
                        signal == "logs",
                        fragment.resource,
                        fragment.scope,
                        msgspec.msgpack.encode([item.field for item in fragment.items]),
                    )
                    for fragment in by_trace(record)
                ),
            )
