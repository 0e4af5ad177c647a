"""Many processes of the agent over one broker: started, killed, counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_broker import free_port
from patience import settled

from assay.bus.kafka import KafkaBus
from assay.cli.wiring import topics_of
from assay.config import Config

READY = 300.0
"""Seconds in which a process must say that it is ready."""


@dataclass
class Member:
    """One process of a stage."""

    kind: str
    folder: Path
    arguments: list[str]
    settings: dict[str, Any]
    under: list[str] = field(default_factory=list)
    """The command that runs the program, where it is not run directly."""
    process: asyncio.subprocess.Process | None = None
    starts: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(self) -> None:
        """Start and return when it says that it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "assay.yaml").write_text(json.dumps(self.settings))
        with (self.folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(*self.under, sys.executable, "-m", "assay.cli.main", *self.arguments),
                cwd=self.folder,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1
        assert self.process.stdout is not None
        greeting = await asyncio.wait_for(self.process.stdout.readline(), READY)
        assert b"ready" in greeting, f"{self.kind}: {(self.folder / 'log').read_text()[-3000:]}"

    async def end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
        await asyncio.wait_for(process.wait(), 60)

    async def kill_and_restart(self) -> None:
        async with self.lock:
            await self.end(signal.SIGKILL)
            await self.start()


class Fleet:
    """The processes, their settings and the topics that they share."""

    def __init__(self, folder: Path, bootstrap: str, prefix: str) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.kafka = {
            "bootstrap": bootstrap,
            "prefix": prefix,
            "partitions": 6,
            "options": {
                "session_timeout_ms": 6000,
                "heartbeat_interval_ms": 1000,
                "transaction_timeout_ms": 6000,
            },
        }
        self.members: list[Member] = []
        self._doors: dict[str, int] = {}

    def add(self, kind: str, *arguments: str, metrics: list[str] | None = None) -> Member:
        """A member, not started."""
        name = f"{kind}-{len(self.members)}"
        listen = free_port()
        door = free_port() if kind == "collect" else None
        settings = {
            "bus": {"kafka": self.kafka},
            "collector": {"http": f"127.0.0.1:{door}" if door else None, "grpc": None},
            "assembly": {"settle": "500ms", "idle": "1s"},
            "exporters": {
                "prometheus": {"listen": f"127.0.0.1:{listen}"},
                "store": {"url": str(self.store)},
            },
        } | ({"metrics": metrics} if metrics else {})
        member = Member(kind, self.folder / name, [kind, *arguments], settings)
        self.members.append(member)
        return member

    def of(self, kind: str) -> list[Member]:
        return [member for member in self.members if member.kind == kind]

    def bus(self) -> KafkaBus:
        config = Config.model_validate({"bus": {"kafka": self.kafka}})
        assert config.bus.kafka is not None
        return KafkaBus(config.bus.kafka, topics_of(config))

    async def drained(self, bus: KafkaBus) -> None:
        """Wait until every group has done all there is, four looks in a row."""

        async def look() -> dict[tuple[str, str], int]:
            stats = await bus.topic_stats()
            return {(t, g): n for t, s in stats.items() for g, n in s.lag.items() if n}

        for _ in range(4):
            lag = await settled(look, lambda lag: not lag)
            assert not lag, f"it did not drain: {lag}"
            await asyncio.sleep(1.0)

    async def end(self, number: signal.Signals) -> None:
        await asyncio.gather(*(member.end(number) for member in self.members))


def url_of(member: Member) -> str:
    return f"http://{member.settings['collector']['http']}/v1/traces"


def metrics_of(member: Member) -> str:
    return f"http://{member.settings['exporters']['prometheus']['listen']}/metrics"


def seed_of(name: str) -> int:
    """The seed of this run: given by the environment, else fresh."""
    return int(os.environ.get(name, "0")) or random.SystemRandom().randrange(10**6)
