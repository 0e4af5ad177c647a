"""The HTTP API over one agent's data: what the commands and the page read.

Listings answer one JSON object a line, the records' own field names (application/x-ndjson); an
error is `{"error": text}` with its status. A bearer key, where one is set, guards all of it.
Without one the API answers to addresses and to localhost only: a web page that has its own host
name resolve to this machine must not be able to read conversations.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, SecretStr
from starlette.exceptions import HTTPException as StarletteHTTPException

from assay.errors import AssayError, Retryable
from assay.lookup import Lookup, Selection

NDJSON = "application/x-ndjson"
MOST = 10_000
Status = Callable[[], Awaitable[dict[str, Any]]]
"""What the running process tells of itself: plain JSON values."""


class Statement(BaseModel):
    """The body of /api/query."""

    sql: str


def lines(values: Iterable[Any]) -> bytes:
    """One JSON object a line."""
    encoder = msgspec.json.Encoder(enc_hook=str)
    return b"".join(encoder.encode(value) + b"\n" for value in values)


def _selection(
    since: Annotated[float, Query(gt=0, description="Seconds back from now.")] = 3600.0,
    app: str | None = None,
    conversation: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
) -> Selection:
    return Selection(since=since, app=app, conversation_id=conversation, limit=limit)


Chosen = Annotated[Selection, Depends(_selection)]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def guard(bearer: SecretStr | None) -> Callable[..., None]:
    """A dependency of routes that lets in who may read conversations."""

    def authorised(request: Request, authorization: Annotated[str, Header()] = "") -> None:
        if bearer is not None:
            scheme, _, given = authorization.partition(" ")
            same = hmac.compare_digest(given.encode(), bearer.get_secret_value().encode())
            if scheme.lower() != "bearer" or not same:
                raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
        elif not _is_address(request.url.hostname or ""):
            raise HTTPException(403, "by a host name only with exporters.prometheus.bearer set")

    return authorised


def add_api(app: FastAPI, lookup: Lookup, status: Status, bearer: SecretStr | None) -> None:
    """Add the routes under /api to `app`, and answers for our errors."""
    router = APIRouter(prefix="/api", dependencies=[Depends(guard(bearer))])

    @router.get("/turns")
    async def turns(selection: Chosen) -> Response:
        return Response(lines(await lookup.turns(selection)), media_type=NDJSON)

    @router.get("/turns/{turn_id}")
    async def turn(turn_id: str) -> Response:
        found = await lookup.turn(turn_id)
        if found is None:
            raise HTTPException(404, f"no turn {turn_id}")
        return Response(lines([found]), media_type=NDJSON)

    @router.get("/conversations")
    async def conversations(selection: Chosen) -> Response:
        return Response(lines(await lookup.conversations(selection)), media_type=NDJSON)

    @router.get("/tail")
    async def tail(app: str | None = None) -> StreamingResponse:
        async def stream() -> AsyncIterator[bytes]:
            async for scored in lookup.tail(app):
                yield lines([scored])

        return StreamingResponse(stream(), media_type=NDJSON)

    @router.post("/query")
    async def query(statement: Statement) -> Response:
        return Response(lines(await lookup.query(statement.sql)), media_type=NDJSON)

    @router.get("/status")
    async def status_now() -> Response:
        return Response(msgspec.json.encode(await status()), media_type="application/json")

    @app.exception_handler(AssayError)
    async def ours(_: Request, error: AssayError) -> JSONResponse:
        code = 503 if isinstance(error, Retryable) else 400
        return JSONResponse({"error": str(error)}, code)

    # The framework's own refusals, of an unknown path too, are of the class that ours derive from.
    @app.exception_handler(StarletteHTTPException)
    async def http(_: Request, error: StarletteHTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def wrong(_: Request, error: RequestValidationError) -> JSONResponse:
        faults = (f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors())
        return JSONResponse({"error": "; ".join(faults)}, 422)

    app.include_router(router)
