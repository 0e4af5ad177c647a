"""The alerts over HTTP: read them, silence them, start their baselines anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from fastapi import APIRouter, HTTPException, Response
from fastapi.params import Depends
from pydantic import BaseModel, Field

from exporters.alerting.alerts import Alerts

MOST_SILENCES = 1000


class SilenceRequest(BaseModel):
    """The body of POST /api/silences."""

    matches: dict[str, str] = Field(min_length=1, max_length=16)
    seconds: float = Field(gt=0, le=366 * 86400)
    comment: str = Field("", max_length=1000)


def alerts_router(
    alerts: Callable[[], Alerts | None],
    dependencies: Sequence[Depends],
    clock: Callable[[], float] = time.time,
) -> APIRouter:
    """Routes under /api. They answer 503 while another process owns the alerts."""
    routes = APIRouter(prefix="/api", dependencies=list(dependencies))

    def owned() -> Alerts:
        found = alerts()
        if found is None:
            raise HTTPException(503, "another process owns the alerts")
        return found

    @routes.get("/alerts")
    async def listed() -> Response:
        return _json(described(owned()))

    @routes.post("/silences")
    async def silence(request: SilenceRequest) -> Response:
        silences = owned().silences
        if len(silences.every) >= MOST_SILENCES:
            raise HTTPException(400, "there are too many silences")
        return _json(silences.add(request.matches, clock() + request.seconds, request.comment))

    @routes.delete("/silences/{silence_id}")
    async def end_silence(silence_id: str) -> Response:
        if owned().silences.every.pop(silence_id, None) is None:
            raise HTTPException(404, f"no silence {silence_id}")
        return Response(status_code=204)

    @routes.post("/baselines")
    async def rebase() -> Response:
        owned().rebase()
        return Response(status_code=204)

    return routes


def described(alerts: Alerts) -> dict[str, Any]:
    """Alerts, tests and silences as plain values."""
    return {
        "alerts": [
            {
                "id": fingerprint,
                "state": alert.state,
                "silenced": alerts.silences.covers(alert.labels),
                "labels": alert.labels,
                "annotations": alert.annotations,
                "since": alert.since,
                "fired": alert.fired or None,
                "resolved": alert.resolved or None,
            }
            for fingerprint, alert in alerts.lifecycle.alerts.items()
        ],
        "regression": [
            {
                "alert": rule.alert,
                **msgspec.structs.asdict(watch.key),
                "evidence": value,
                "baseline": watch.null_rate,
            }
            for rule, watch, value in alerts.evidence()
        ],
        "silences": msgspec.to_builtins(list(alerts.silences.every.values())),
    }


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
