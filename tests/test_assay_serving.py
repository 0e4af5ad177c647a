"""Serving an app at an address."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from assay.errors import Permanent
from assay.serving import HttpServer


async def test_a_server_serves_and_stops() -> None:
    """It answers at its address until it is stopped; a stop is safe twice and without start."""
    app = FastAPI()
    app.get("/")(lambda: "here")
    server = HttpServer(app, "127.0.0.1:0", "listen")
    await server.stop()
    await server.start()
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://{server.address}/")).json() == "here"
        await server.stop()
        await server.stop()
        with pytest.raises(httpx.TransportError):
            await client.get(f"http://{server.address}/")


async def test_a_taken_address_is_named() -> None:
    """The setting and the address stand in the refusal."""
    first = HttpServer(FastAPI(), "127.0.0.1:0", "one")
    await first.start()
    second = HttpServer(FastAPI(), first.address, "exporters.prometheus.listen")
    with pytest.raises(Permanent, match=f"exporters.prometheus.listen: .*{first.port}"):
        await second.start()
    await first.stop()
