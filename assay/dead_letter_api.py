"""The routes of `assay dead-letter` while an agent runs, which alone may open its stream."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import Response
from pydantic import BaseModel, SecretStr

from assay.api import NDJSON, guard, lines
from assay.dead_letters import DeadLetters


class Numbers(BaseModel):
    """The body of /api/dead-letters/replay."""

    numbers: list[int]


def add_dead_letter_api(app: FastAPI, letters: DeadLetters, bearer: SecretStr | None) -> None:
    """Add the routes under /api/dead-letters to `app`."""
    router = APIRouter(prefix="/api/dead-letters", dependencies=[Depends(guard(bearer))])

    @router.get("")
    async def listed() -> Response:
        return Response(lines(await letters.listed()), media_type=NDJSON)

    @router.get("/{number}")
    async def letter(number: int) -> Response:
        return Response(lines([await letters.letter(number)]), media_type=NDJSON)

    @router.post("/replay")
    async def replay(wanted: Numbers) -> dict[str, Any]:
        return {"count": await letters.replay(wanted.numbers)}

    app.include_router(router)
