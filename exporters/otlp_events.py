"""Scores as OTLP log records: `gen_ai.evaluation.result` events beside the spans they judge.

The names are those of OpenTelemetry's GenAI conventions; what they have no name for is under
`assay.`. Records carry the trace and span id of the turn and the reserved scope `assay`, by which
our own doors drop them: what Assay says is never taken for an app.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence

import httpx
import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from prometheus_client import CollectorRegistry

from assay import __version__, series
from assay.bus import topics
from assay.bus.contract import Bus, Consumer, Outgoing, Position, Record
from assay.bus.dead_letter import dead_letter
from assay.errors import Permanent, Retryable
from assay.records import Score, TurnScores, decode_turn_scores
from assay.stage import later_schema
from exporters.stage import Stage, StageSeries

SCOPE = "assay"
EVENT = "gen_ai.evaluation.result"
INTERVAL = 1.0
"""Seconds between requests."""
MAX_RECORDS = 200
"""TurnScores of one request."""
TIMEOUT = 10.0


class OtlpEvents(Stage):
    """Sends what was scored; offsets are committed once the receiver has taken it. A receiver that
    is away holds up this stage alone."""

    name = "otlp_events"
    topics = (topics.SCORES,)
    max_records = MAX_RECORDS

    def __init__(
        self,
        bus: Bus,
        shared: StageSeries,
        registry: CollectorRegistry,
        *,
        endpoint: str,
        headers: Mapping[str, str],
    ) -> None:
        """`endpoint` is the base of an OTLP/HTTP receiver, without /v1/logs."""
        super().__init__(bus, shared)
        self._url = f"{endpoint}/v1/logs"
        self._headers = {"content-type": "application/x-protobuf", **headers}
        self._client: httpx.AsyncClient | None = None
        self._events = series.instrument(registry, series.OTLP_EVENTS)
        self._pending: list[TurnScores] = []
        self._done: list[Position] = []
        self._bad: list[Outgoing] = []
        self._since = math.inf

    async def start(self) -> None:
        self._client = httpx.AsyncClient(timeout=TIMEOUT)
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _take_in(self, records: Sequence[Record]) -> None:
        self._since = min(self._since, time.monotonic())
        for record in records:
            self._done.append(Position(*record[:3]))
            if later_schema(record):
                self._refuse(record, "schema")
                continue
            try:
                turn = decode_turn_scores(record.value)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._refuse(record, "unreadable")
                continue
            if any(score.outcome == "scored" for score in turn.scores):
                self._pending.append(turn)
        await asyncio.sleep(0)

    def _due(self) -> float:
        if len(self._pending) >= MAX_RECORDS:
            return 0.0
        return self._since + INTERVAL - time.monotonic()

    async def _flush(self, consumer: Consumer) -> None:
        if not self._done:
            return
        if self._pending:
            rejected = await self._send(request_of(self._pending))
            sent = sum(s.outcome == "scored" for turn in self._pending for s in turn.scores)
            self._events.labels("sent").inc(max(0, sent - rejected))
            self._events.labels("rejected").inc(rejected)
            self._pending = []
        await consumer.commit(outputs=self._bad, done=self._done)
        self._discard()

    async def _send(self, request: ExportLogsServiceRequest) -> int:
        """Post; how many records the receiver rejects. Raises Retryable when it is away, or refuses
        in a way that another setting of the receiver may mend."""
        if self._client is None:
            raise Permanent("the stage is stopped")
        try:
            answer = await self._client.post(
                self._url, content=request.SerializeToString(), headers=self._headers
            )
        except httpx.HTTPError as error:
            raise Retryable(f"the receiver does not answer: {type(error).__name__}") from None
        if answer.status_code >= 300:
            after = answer.headers.get("retry-after", "")
            wait = float(after) if after.isdigit() else None
            raise Retryable(f"the receiver answers {answer.status_code}", wait)
        try:
            response = ExportLogsServiceResponse.FromString(answer.content)
        except ValueError:
            return 0
        return int(response.partial_success.rejected_log_records)

    def _discard(self) -> None:
        self._pending, self._done, self._bad, self._since = [], [], [], math.inf

    def _refuse(self, record: Record, reason: str) -> None:
        self._dead_letters.labels(self.name, reason).inc()
        self._bad.append(dead_letter(record, stage=self.name, reason=reason))


def request_of(turns: Sequence[TurnScores]) -> ExportLogsServiceRequest:
    """The records of `turns`, grouped by the app that they are about."""
    apps: dict[tuple[str, str, str], list[LogRecord]] = {}
    for turn in turns:
        records = apps.setdefault((turn.app, turn.environment, turn.version), [])
        records += [event_of(turn, s) for s in turn.scores if s.outcome == "scored"]
    return ExportLogsServiceRequest(
        resource_logs=[
            ResourceLogs(
                resource=Resource(
                    attributes=_attributes(
                        {
                            "service.name": app,
                            "deployment.environment.name": environment or None,
                            "service.version": version or None,
                        }
                    )
                ),
                scope_logs=[
                    ScopeLogs(
                        scope=InstrumentationScope(name=SCOPE, version=__version__),
                        log_records=records,
                    )
                ],
            )
            for (app, environment, version), records in apps.items()
        ]
    )


def event_of(turn: TurnScores, score: Score) -> LogRecord:
    """One score as an event."""
    passed = None if score.passed is None else ("pass" if score.passed else "fail")
    return LogRecord(
        time_unix_nano=turn.scored_at,
        observed_time_unix_nano=turn.scored_at,
        event_name=EVENT,
        trace_id=_id(turn.trace_id, 16),
        span_id=_id(turn.span_id, 8),
        attributes=_attributes(
            {
                "gen_ai.evaluation.name": score.metric,
                "gen_ai.evaluation.score.value": score.value,
                "gen_ai.evaluation.score.label": score.label or passed,
                "gen_ai.evaluation.explanation": score.reason,
                "gen_ai.response.id": turn.response_id,
                "gen_ai.conversation.id": turn.conversation_id,
                "assay.turn.id": turn.turn_id,
                "assay.score.id": score.score_id or None,
                "assay.engine": score.engine,
                "assay.subject": score.subject,
                "assay.kind": score.kind,
                "assay.passed": score.passed,
                "assay.threshold": score.threshold,
                "assay.direction": score.direction,
                "assay.scorer.version": score.scorer_version or None,
                "assay.prompt.digest": score.prompt_digest or None,
                "assay.weight": score.weight,
                "assay.run": turn.run,
            }
        ),
    )


def _id(text: str, size: int) -> bytes:
    """The bytes of an id in hex; none when it is not one."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return b""
    return found if len(found) == size else b""


def _attributes(values: Mapping[str, str | float | bool | None]) -> list[KeyValue]:
    found = []
    for key, value in values.items():
        if isinstance(value, bool):
            found.append(KeyValue(key=key, value=AnyValue(bool_value=value)))
        elif isinstance(value, str):
            text = value.encode(errors="replace").decode()
            found.append(KeyValue(key=key, value=AnyValue(string_value=text)))
        elif value is not None:
            found.append(KeyValue(key=key, value=AnyValue(double_value=value)))
    return found
