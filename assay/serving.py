"""A FastAPI or other ASGI app on an address, started and stopped with the process's other parts."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.config import TLS
from assay.config_values import split_address
from assay.errors import Permanent

DRAIN = 5
"""Seconds that open requests have to end at stop."""
RECEIVE_WITHIN = 30.0
"""Seconds within which a request must have arrived."""


def listen(address: str, key: str) -> socket.socket:
    """A listening socket. Raises Permanent, naming the setting `key`, when the address is taken."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Permanent(f"{key}: cannot listen on {address}: {error.strerror or error}") from error


class _Connection(HttpToolsProtocol):
    """Ends when a request does not arrive whole in time: the server itself waits without end."""

    def __init__(self, *args: Any, receive_within: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._receive_within = receive_within
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._expect_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._expect_nothing()

    def _expect(self) -> None:
        self._expect_nothing()
        self._due = self.loop.call_later(self._receive_within, self.transport.close)

    def _expect_nothing(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


class HttpServer:
    """Serves `app` at `address`, over TLS where it is given.

    A connection ends when it has not brought a whole request `receive_within` seconds after it
    began, or after the request's first byte.

    `stop` is safe twice and without `start`.
    """

    def __init__(
        self,
        app: Any,
        address: str,
        key: str,
        tls: TLS | None = None,
        *,
        receive_within: float = RECEIVE_WITHIN,
    ) -> None:
        self._app = app
        self._address = address
        self._key = key
        self._tls = tls
        self._receive_within = receive_within
        self._server: uvicorn.Server | None = None
        self.port = 0
        """The port that is listened on, once started."""

    @property
    def address(self) -> str:
        """host:port as listened on."""
        return f"{self._address.rpartition(':')[0]}:{self.port}"

    async def start(self) -> None:
        """Listen. Raises Permanent when the address is taken or the certificate unusable."""
        listening = listen(self._address, self._key)
        settings = uvicorn.Config(
            self._app,
            http=cast(
                "type[asyncio.Protocol]", partial(_Connection, receive_within=self._receive_within)
            ),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN,
            ssl_certfile=self._tls.cert if self._tls else None,
            ssl_keyfile=self._tls.key if self._tls else None,
        )
        try:
            settings.load()
        except (OSError, ssl.SSLError) as error:
            listening.close()
            raise Permanent(f"{self._key}: cannot use the TLS certificate: {error}") from error
        self.port = listening.getsockname()[1]
        # `serve` would also take over the process's signals, which are the process's to handle.
        self._server = uvicorn.Server(settings)
        self._server.lifespan = settings.lifespan_class(settings)
        await self._server.startup(sockets=[listening])

    async def stop(self) -> None:
        """Take no more requests, end the open ones, close."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.shutdown()
