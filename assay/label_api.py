"""`POST /v1/labels`: what people say of turns, from any tool of the user's."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, FastAPI, HTTPException
from pydantic import SecretStr

from assay.api import guard
from assay.labels import add_labels, label_of
from assay.store import Store

MOST = 10_000
"""Labels of one request."""


def add_label_api(app: FastAPI, store: Store | None, bearer: SecretStr | None) -> None:
    """Add the route to `app`. A request is one label or a list of them, and is taken whole or not
    at all; labels that are there already change nothing."""
    router = APIRouter(prefix="/v1", dependencies=[Depends(guard(bearer))])

    @router.post("/labels")
    async def labels(rows: Annotated[Any, Body()]) -> dict[str, int]:
        listed = rows if isinstance(rows, list) else [rows]
        if store is None:
            raise HTTPException(404, "there is no store: exporters.store.enabled is false")
        if len(listed) > MOST:
            raise HTTPException(413, f"more than {MOST:,} labels")
        found = []
        for index, row in enumerate(listed):
            if not isinstance(row, dict):
                raise HTTPException(400, f"label {index}: not an object")
            try:
                found.append(label_of(row))
            except ValueError as error:
                raise HTTPException(400, f"label {index}: {error}") from error
        return {"added": await add_labels(store, found), "received": len(found)}

    app.include_router(router)
