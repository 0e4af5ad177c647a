"""What a door answers: one table from outcomes to the codes of both protocols.

Only `unavailable` tells a sender when to try again; the others would mostly fail again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from assay.errors import AssayError, Permanent, Retryable
from collector.intake import Accepted, Signal

RETRY_AFTER = 5.0
"""Seconds that a sender is asked to wait when nothing better is known."""


class Codes(NamedTuple):
    http: int
    grpc: grpc.StatusCode


CODES = {
    "malformed": Codes(400, grpc.StatusCode.INVALID_ARGUMENT),
    "unauthenticated": Codes(401, grpc.StatusCode.UNAUTHENTICATED),
    "timeout": Codes(408, grpc.StatusCode.DEADLINE_EXCEEDED),
    "too_large": Codes(413, grpc.StatusCode.RESOURCE_EXHAUSTED),
    "unsupported": Codes(415, grpc.StatusCode.INVALID_ARGUMENT),
    "unavailable": Codes(503, grpc.StatusCode.UNAVAILABLE),
}
"""By the reason for which a request is refused."""


class Refused(Permanent):
    """A door will not take this request. `reason` is a key of CODES."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Refusal(NamedTuple):
    """A refusal in the words of both protocols."""

    reason: str
    codes: Codes
    status: Status
    """The body of the HTTP answer and the details of the gRPC one."""
    retry_after: int | None
    """Seconds; none when trying again is of no use."""


def refusal_of(error: AssayError) -> Refusal:
    """How `error` is told to the sender."""
    retry_after = None
    if isinstance(error, Retryable):
        reason = "unavailable"
        retry_after = math.ceil(error.retry_after or RETRY_AFTER)
    else:
        reason = error.reason if isinstance(error, Refused) else "malformed"
    codes = CODES[reason]
    status = Status(code=codes.grpc.value[0], message=str(error))
    if retry_after is not None:
        status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=retry_after)))
    return Refusal(reason, codes, status, retry_after)


def too_large(limit: int) -> Refused:
    """A request above `limit` bytes."""
    return Refused(
        "too_large", f"the request is larger than collector.max_request, {limit} bytes unpacked"
    )


def response_of(signal: Signal, accepted: Accepted) -> Message:
    """The export response: with `partial_success` when something was rejected."""
    partial: dict[str, Any] = {}
    if accepted.rejected:
        field = "rejected_spans" if signal == "traces" else "rejected_log_records"
        partial["partial_success"] = {
            field: accepted.rejected,
            "error_message": accepted.message,
        }
    match signal:
        case "traces":
            return ExportTraceServiceResponse(**partial)
        case "logs":
            return ExportLogsServiceResponse(**partial)
        case "metrics":
            return ExportMetricsServiceResponse()
