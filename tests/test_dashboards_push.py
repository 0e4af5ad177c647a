"""Pushing into Grafana: what is created, that a second push changes nothing, and the dry run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from assay.cli.grafana_push import push
from assay.config import Config, load
from assay.errors import Permanent
from assay.serving import HttpServer

SETTINGS = """
exporters: {{grafana: {{url: "{url}", token: glsa_x, prometheus: "http://prometheus:9090"}}}}
alerts:
  - {{name: ungrounded, metric: groundedness, objective: 0.05, regression: true, notify: oncall}}
notify:
  oncall: {{webhook: "http://hook/secret", template: slack}}
"""


class Grafana:
    """Answers as Grafana's API documents: by uid, 404 for what is not there."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.url = ""

    async def answer(self, request: Request) -> Response:
        path, method = request.url.path, request.method
        if request.headers.get("authorization") != "Bearer glsa_x":
            return JSONResponse({"message": "Unauthorized"}, 401)
        if method == "GET":
            if path == "/api/v1/provisioning/contact-points":
                points = [v for k, v in self.kept.items() if "contact-points" in k]
                hidden = [p | {"settings": {"url": "[REDACTED]"}} for p in points]
                return JSONResponse(hidden)
            found = self.kept.get(path)
            return JSONResponse(found) if found else JSONResponse({"message": "no"}, 404)
        body = await request.json()
        self.writes.append(f"{method} {path}")
        match path:
            case "/api/dashboards/db":
                board = body["dashboard"]
                stored = {"dashboard": board | {"id": 1, "version": 3}, "meta": {}}
                self.kept[f"/api/dashboards/uid/{board['uid']}"] = stored
            case "/api/datasources" | "/api/folders":
                kind = "/api/datasources/uid" if "datasources" in path else path
                self.kept[f"{kind}/{body['uid']}"] = body | {"id": 4, "orgId": 1}
            case _:
                uid = body.get("uid") or path.rpartition("/")[2]
                base = path if method == "POST" else path.rpartition("/")[0]
                self.kept[f"{base}/{uid}"] = body | {"id": 9, "provenance": ""}
        return JSONResponse(body, 200 if method == "PUT" else 201)


@pytest.fixture
async def grafana() -> AsyncIterator[Grafana]:
    found, app = Grafana(), FastAPI()
    app.add_api_route("/{path:path}", found.answer, methods=["GET", "POST", "PUT"])
    server = HttpServer(app, "127.0.0.1:0", "grafana")
    await server.start()
    found.url = f"http://{server.address}"
    yield found
    await server.stop()


def settings(folder: Path, url: str) -> Config:
    path = folder / "assay.yaml"
    path.write_text(SETTINGS.format(url=url))
    return load(path)


async def pushed(config: Config, *, dry_run: bool = False) -> list[str]:
    return await asyncio.to_thread(lambda: list(push(config, dry_run=dry_run)))


async def test_a_push_creates_everything_and_a_second_changes_nothing(
    tmp_path: Path, grafana: Grafana
) -> None:
    """Folder, source, six boards, contact point, two rules; then only what Grafana hides is set."""
    config = settings(tmp_path, grafana.url)
    lines = await pushed(config)
    assert [line.partition(":")[0] for line in lines] == ["created"] * 11
    written = len(grafana.writes)
    assert written == 11
    again = await pushed(config)
    assert [line for line in again if not line.startswith("unchanged")] == [
        "updated: contact point assay oncall"
    ]
    assert len(grafana.kept) == 11
    assert len(grafana.writes) == written + 1
    rule = next(v for k, v in grafana.kept.items() if "alert-rules" in k)
    assert rule["folderUID"] == "assay"
    assert rule["data"][0]["model"]["expr"].startswith("assay_defect_rate_lower")
    assert rule["notification_settings"] == {"receiver": "assay oncall"}


async def test_a_dry_run_writes_nothing(tmp_path: Path, grafana: Grafana) -> None:
    """It tells what would be, and Grafana is as it was."""
    lines = await pushed(settings(tmp_path, grafana.url), dry_run=True)
    assert lines[0] == "would be created: folder Assay"
    assert grafana.writes == []


async def test_a_changed_board_is_put_back(tmp_path: Path, grafana: Grafana) -> None:
    """What someone changed by hand is as the code has it after the next push."""
    config = settings(tmp_path, grafana.url)
    await pushed(config)
    grafana.kept["/api/dashboards/uid/assay-judge"]["dashboard"]["title"] = "mine"
    assert "updated: board Assay / Judge" in await pushed(config)


async def test_a_refusal_says_what_grafana_said(tmp_path: Path, grafana: Grafana) -> None:
    """A wrong token is a fault with Grafana's status, and no secret in it."""
    path = tmp_path / "assay.yaml"
    path.write_text(SETTINGS.format(url=grafana.url).replace("glsa_x", "glsa_wrong"))
    with pytest.raises(Permanent, match="401") as failed:
        await pushed(load(path))
    assert "glsa_wrong" not in str(failed.value)
    with pytest.raises(Permanent, match="needs url, token and prometheus"):
        await pushed(load(None))
