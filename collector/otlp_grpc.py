"""The OTLP/gRPC door: the three export services on grpcio's asyncio server, over raw bytes."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from assay.config import TLS, Config
from assay.errors import AssayError, Permanent
from assay.serving import DRAIN
from collector.answers import Refused, refusal_of, response_of, too_large
from collector.intake import Intake, Signal
from collector.keys import Keys
from collector.uploads import Uploads

SERVICES: dict[Signal, str] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
}

logger = logging.getLogger(__name__)

_Export = Callable[[Any, Any], Awaitable[bytes]]


class GrpcDoor:
    """OTLP over gRPC at `collector.grpc`."""

    def __init__(self, intake: Intake, config: Config) -> None:
        self._intake = intake
        self._config = config.collector
        self._keys = Keys(config.collector.api_keys)
        self._uploads = Uploads(config.collector)
        self._server: grpc.aio.Server | None = None
        self.port = 0
        """The port that is listened on, once started."""

    async def start(self) -> None:
        """Listen. Raises Permanent when the address is taken or the certificate unusable."""
        address = self._config.grpc
        assert address is not None
        server = grpc.aio.server(
            options=[
                # Above our own limit, which names itself: the library's refusal does not always.
                ("grpc.max_receive_message_length", 2 * self._config.max_request),
                # With port sharing, two servers share a port and each gets half of the traffic.
                ("grpc.so_reuseport", 0),
            ]
        )
        server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    service, {"Export": grpc.stream_unary_rpc_method_handler(self._export(signal))}
                )
                for signal, service in SERVICES.items()
            ]
        )
        try:
            if self._config.tls is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, self._credentials(self._config.tls))
        except RuntimeError as error:
            raise Permanent(f"collector.grpc: cannot listen on {address}") from error
        await server.start()
        self._server = server
        logger.info("OTLP/gRPC is taken in", extra={"port": self.port})

    async def stop(self) -> None:
        """Take no more, answer what is open, then close. Safe twice and without start."""
        if self._server is not None:
            server, self._server = self._server, None
            self._uploads.close()
            await server.stop(DRAIN)

    def _export(self, signal: Signal) -> _Export:
        async def export(_: object, context: Any) -> bytes:
            try:
                body = await self._body(context)
                accepted = await self._intake.accept(signal, "protobuf", body)
            except AssayError as error:
                refusal = refusal_of(error)
                self._intake.answered("grpc", signal, refusal.reason)
                await context.abort(
                    refusal.codes.grpc,
                    refusal.status.message,
                    (("grpc-status-details-bin", refusal.status.SerializeToString()),),
                )
            self._intake.answered("grpc", signal, "partial" if accepted.rejected else "accepted")
            return response_of(signal, accepted).SerializeToString()

        return export

    async def _body(self, context: Any) -> bytes:
        """The request. Raises Refused.

        The handlers are declared as streaming, which looks the same on the wire, because they then
        run before the message is read: a sender without a key cannot make us hold it, and one that
        the library refuses is counted.
        """
        sent = {key: _bytes(value) for key, value in context.invocation_metadata() or ()}
        if not self._keys.admit(sent.get("authorization"), sent.get("x-api-key")):
            raise Refused("unauthenticated", "an API key is required")
        async with self._uploads.one():
            body = await context.read()
        if body is grpc.aio.EOF or len(body) > self._config.max_request:
            raise too_large(self._config.max_request)
        return bytes(body)

    def _credentials(self, tls: TLS) -> grpc.ServerCredentials:
        try:
            # The library does not say what is wrong with a certificate; this does.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.cert, tls.key)
        except (OSError, ssl.SSLError) as error:
            raise Permanent(f"collector.grpc: cannot use the TLS certificate: {error}") from error
        return grpc.ssl_server_credentials([(tls.key.read_bytes(), tls.cert.read_bytes())])


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
