"""A receiver of webhooks that remembers what it was sent, and may refuse."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response

from assay.serving import HttpServer


class Receiver:
    """`bodies` are the JSON bodies that were accepted, with their path and headers beside them."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[int] = []
        """Statuses of the next requests; 200 when there are no more."""
        self.requests = 0
        self.url = ""

    async def take(self, request: Request) -> Response:
        self.requests += 1
        status = self.answers.pop(0) if self.answers else 200
        if status == 200:
            self.bodies.append(json.loads(await request.body()))
            self.paths.append(request.url.path)
            self.headers.append(dict(request.headers))
        return Response(status_code=status)


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    """One on a free port, until the end of the block."""
    found, app = Receiver(), FastAPI()
    app.add_api_route("/{path:path}", found.take, methods=["POST"])
    server = HttpServer(app, "127.0.0.1:0", "receiver")
    await server.start()
    found.url = f"http://{server.address}"
    try:
        yield found
    finally:
        await server.stop()
