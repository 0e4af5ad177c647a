"""The OTLP/HTTP door: a FastAPI app on uvicorn.

The export routes are plain ASGI: the body is unpacked as it arrives, so that no more than the limit
is ever held, and the answer has the request's own content type.
"""

from __future__ import annotations

import logging

from fastapi import FastAPI
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from assay.config import Config
from assay.errors import AssayError
from assay.serving import HttpServer
from collector.answers import Refused, refusal_of, response_of, too_large
from collector.intake import Encoding, Intake, Signal
from collector.keys import Keys
from collector.unpack import ENCODINGS
from collector.uploads import Uploads

PATHS: dict[str, Signal] = {
    "/v1/traces": "traces",
    "/v1/logs": "logs",
    "/v1/metrics": "metrics",
    "/api/public/otel/v1/traces": "traces",
}
"""The last is where Langfuse's SDKs send."""
ANSWER_WITHIN = 5.0
"""Seconds in which the sender of a request that came too slowly may read its 408."""
logger = logging.getLogger(__name__)

_TYPES: dict[bytes, Encoding] = {
    b"application/x-protobuf": "protobuf",
    b"application/json": "json",
}
_NAMES: dict[Encoding, bytes] = {encoding: name for name, encoding in _TYPES.items()}


class HttpDoor:
    """OTLP over HTTP at `collector.http`."""

    def __init__(self, intake: Intake, config: Config) -> None:
        settings = config.collector
        assert settings.http is not None
        self.app = FastAPI(title="Assay", openapi_url=None)
        keys = Keys(settings.api_keys)
        self._uploads = Uploads(settings)
        for path, signal in PATHS.items():
            export = _Export(intake, keys, self._uploads, signal, settings.max_request)
            self.app.router.routes.append(Route(path, export, methods=["POST"]))
        self._server = HttpServer(
            self.app,
            settings.http,
            "collector.http",
            settings.tls,
            receive_within=settings.upload_timeout + ANSWER_WITHIN,
        )

    @property
    def port(self) -> int:
        """The port that is listened on, once started."""
        return self._server.port

    async def start(self) -> None:
        """Listen. Raises Permanent when the address is taken or the certificate unusable."""
        await self._server.start()
        logger.info("OTLP/HTTP is taken in", extra={"port": self.port})

    async def stop(self) -> None:
        """Take no more, answer what is open, then close. Safe twice and without start."""
        self._uploads.close()
        await self._server.stop()


class _Export:
    """The ASGI app of one path."""

    def __init__(
        self, intake: Intake, keys: Keys, uploads: Uploads, signal: Signal, limit: int
    ) -> None:
        self._intake = intake
        self._keys = keys
        self._uploads = uploads
        self._signal: Signal = signal
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        encoding = _TYPES.get(headers.get(b"content-type", b"").split(b";")[0].strip().lower())
        try:
            body = await self._body(headers, encoding, receive)
            if body is None:
                return
            assert encoding is not None
            accepted = await self._intake.accept(self._signal, encoding, body)
        except AssayError as error:
            refusal = refusal_of(error)
            self._intake.answered("http", self._signal, refusal.reason)
            extra = []
            if refusal.retry_after is not None:
                extra.append((b"retry-after", str(refusal.retry_after).encode()))
            if refusal.reason == "unauthenticated":
                extra.append((b"www-authenticate", b"Bearer"))
            if refusal.reason == "timeout":
                extra.append((b"connection", b"close"))
            await _answer(send, refusal.codes.http, refusal.status, encoding or "json", extra)
        else:
            self._intake.answered(
                "http", self._signal, "partial" if accepted.rejected else "accepted"
            )
            await _answer(send, 200, response_of(self._signal, accepted), encoding, [])

    async def _body(
        self, headers: dict[bytes, bytes], encoding: Encoding | None, receive: Receive
    ) -> bytes | None:
        """The unpacked body; none when the sender went away. Raises Refused."""
        if not self._keys.admit(headers.get(b"authorization"), headers.get(b"x-api-key")):
            raise Refused("unauthenticated", "an API key is required")
        if encoding is None:
            raise Refused(
                "unsupported", "Content-Type must be application/x-protobuf or application/json"
            )
        unpacker = ENCODINGS.get(headers.get(b"content-encoding", b"").strip().lower())
        if unpacker is None:
            raise Refused("unsupported", "Content-Encoding must be gzip, deflate or identity")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._limit:
            raise too_large(self._limit)
        body = unpacker(self._limit)
        async with self._uploads.one():
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body.feed(message.get("body", b""))
                if not message.get("more_body", False):
                    return body.finish()


async def _answer(
    send: Send, code: int, message: Message, encoding: Encoding, extra: list[tuple[bytes, bytes]]
) -> None:
    body = (
        message.SerializeToString()
        if encoding == "protobuf"
        else MessageToJson(message, indent=None).encode()
    )
    headers = [
        (b"content-type", _NAMES[encoding]),
        (b"content-length", str(len(body)).encode()),
        *extra,
    ]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
