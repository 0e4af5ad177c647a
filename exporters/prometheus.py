"""`/metrics` and `/health`, for every process that has them."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping

import msgspec
from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry

from assay.health import Check
from exporters.families import render
from exporters.samples import SeriesFamily

OPENMETRICS = "application/openmetrics-text"
_CONTENT_TYPES = {
    True: f"{OPENMETRICS}; version=1.0.0; charset=utf-8",
    False: "text/plain; version=0.0.4; charset=utf-8",
}


def router(
    registry: CollectorRegistry, checks: Mapping[str, Check], *, bearer: str | None = None
) -> APIRouter:
    """The routes over `registry` and the stages' `checks`.

    `/metrics` answers OpenMetrics (with exemplars) or text by the Accept header, and takes the
    key `bearer` when there is one. `/health` answers 200 when every stage moves on, else 503, with
    one object per stage; it is open to all and carries no content.
    """
    routes = APIRouter()

    @routes.get("/metrics", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        if bearer is not None and not _presents(request, bearer):
            return Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})
        openmetrics = OPENMETRICS in request.headers.get("accept", "")
        # Collected in the loop, where the windows change; joined in a thread.
        metrics = list(registry.collect())
        for metric in metrics:
            if isinstance(metric, SeriesFamily):
                await metric.ready(openmetrics=openmetrics)
        page = await asyncio.to_thread(render, metrics, openmetrics=openmetrics)
        return Response(page, headers={"Content-Type": _CONTENT_TYPES[openmetrics]})

    @routes.get("/health", include_in_schema=False)
    async def health() -> Response:
        stages = {name: check() for name, check in checks.items()}
        ok = all(stage.ok for stage in stages.values())
        body = msgspec.json.encode({"ok": ok, "stages": stages})
        return Response(body, 200 if ok else 503, media_type="application/json")

    return routes


def _presents(request: Request, bearer: str) -> bool:
    """Whether the request carries the key; compared in constant time."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(key.strip().encode(), bearer.encode())
