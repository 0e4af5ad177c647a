"""`/metrics` and `/health`, for every process that has them."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Iterable, Mapping

import msgspec
from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from assay.health import Check


class _Snapshot:
    """Families as they were collected; what a renderer takes for a registry."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> list[Metric]:
        return self._metrics


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
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        # Collected in the loop, where the windows change; rendered in a thread, which takes longer.
        page = await asyncio.to_thread(encode, _Snapshot(registry.collect()))
        return Response(page, headers={"Content-Type": content_type})

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
