"""Dead letters of a running agent, over its API and by the commands."""

from __future__ import annotations

import asyncio
import base64
import json
import os

import pytest
from fastapi import FastAPI
from typer.testing import CliRunner

from assay.api import add_api
from assay.bus.contract import Outgoing
from assay.bus.dead_letter import dead_letter
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import DEAD_LETTER, TURNS, topics
from assay.cli.main import app as commands
from assay.cli.source import Running, write_running
from assay.dead_letter_api import add_dead_letter_api
from assay.dead_letters import DeadLetters
from assay.lookup import Lookup
from assay.serving import HttpServer


@pytest.fixture
async def bus(tmp_path, monkeypatch):
    """A stream with one letter, and the API of the process that owns it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "assay-data"
    bus = EmbeddedBus(folder, topics())
    await bus.start()
    await bus.publish([Outgoing(TURNS, b"\xff{", b"k", 0, {"schema": "1"})])
    (record,) = [record async for record in bus.read(TURNS)]
    await bus.publish([dead_letter(record, stage="local", reason="unreadable")])

    async def status():
        return {"pid": os.getpid()}

    app = FastAPI()
    add_api(app, Lookup(bus, None), status, None)
    add_dead_letter_api(app, DeadLetters(bus), None)
    server = HttpServer(app, "127.0.0.1:0", "test")
    await server.start()
    write_running(folder, Running(pid=os.getpid(), api=server.address))
    yield bus
    await server.stop()
    await bus.stop()


async def assay(*arguments):
    return await asyncio.to_thread(CliRunner().invoke, commands, ["dead-letter", *arguments])


async def test_the_commands_ask_the_agent_that_runs(bus):
    """Listing, showing with the bytes as they came, putting back with the headers as they were."""
    (listed,) = map(json.loads, (await assay("list", "--json")).output.splitlines())
    assert listed | {"timestamp": 0} == {
        "number": 0,
        "timestamp": 0,
        "stage": "local",
        "reason": "unreadable",
        "origin": f"{TURNS}/0/0",
        "bytes": 2,
    }
    shown = json.loads((await assay("show", "0", "--json")).output)
    assert base64.b64decode(shown["value_base64"]) == b"\xff{"
    assert shown["headers"]["original-schema"] == "1"
    assert b"\n\xff{\n" in (await assay("show", "0")).stdout_bytes
    assert "1 records were put back" in (await assay("replay", "0")).output
    again = [record async for record in bus.read(TURNS)]
    assert [(r.value, r.headers) for r in again] == [(b"\xff{", {"schema": "1"})] * 2


async def test_a_number_that_is_not_there_is_told(bus):
    """By both commands, with a status of failure, and nothing is put back."""
    for command in ("show", "replay"):
        result = await assay(command, "7")
        assert result.exit_code != 0
        assert "no dead letter 7" in result.output or "no dead letter 7" in str(result.exception)
    assert len([record async for record in bus.read(DEAD_LETTER)]) == 1
    assert len([record async for record in bus.read(TURNS)]) == 1
