"""Where a listing reads from: the API of the agent that owns the data folder, else its files."""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from assay.config import Config
from assay.errors import Permanent, Retryable
from assay.lookup import Conversation, Lookup, ScoredTurn, Selection

T = TypeVar("T")
RUNNING = "running.json"
TIMEOUT = 30.0


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What a running `assay up` leaves in its data folder, so that others find it."""

    pid: int
    api: str
    """host:port"""
    http: str | None = None
    """URL of the OTLP/HTTP door."""
    grpc: str | None = None
    """host:port of the OTLP/gRPC door."""


class Source(Protocol):
    """Reads one agent's data. Every method raises `Permanent` for what it cannot answer."""

    def turns(self, selection: Selection) -> list[ScoredTurn]: ...

    def turn(self, turn_id: str) -> ScoredTurn | None: ...

    def conversations(self, selection: Selection) -> list[Conversation]: ...

    def query(self, sql: str) -> list[dict[str, Any]]: ...

    def tail(self, app: str | None) -> Iterator[ScoredTurn]: ...

    def status(self) -> dict[str, Any]: ...


def open_source(config: Config) -> Source:
    """The API when something answers there, else the brokers where the stream is on Kafka, else the
    files. Raises `Permanent` without any."""
    remote = answering(config)
    if remote is not None:
        return remote
    if config.bus.kafka is not None:
        from assay.cli.brokers import Brokers

        return Brokers(config)
    if not config.data_dir.is_dir():
        raise Permanent(f"no data in {config.data_dir} and nothing runs: start `assay up`")
    return Local(config)


def find_running(config: Config) -> Running | None:
    """What the data folder says of its owner; it may have died since."""
    try:
        return msgspec.json.decode((config.data_dir / RUNNING).read_bytes(), type=Running)
    except (OSError, msgspec.DecodeError):
        return None


def answering(config: Config) -> Remote | None:
    """The API of the process that the data folder names, when that process answers there. Raises
    `Permanent` when it wants a key that the settings do not have."""
    running = find_running(config)
    if running is None:
        return None
    remote = Remote(running.api, config)
    try:
        return remote if remote.status().get("pid") == running.pid else None
    except (Unreachable, NotFound, ValueError):
        # Nobody, or another program that has the address now.
        return None


class Unreachable(Permanent):
    """Nothing answers at the address."""


class Remote:
    """The API at `address`."""

    def __init__(self, address: str, config: Config) -> None:
        self.address = address
        self._base = f"http://{address}/api"
        bearer = config.exporters.prometheus.bearer
        self._headers = {"content-type": "application/json"}
        if bearer is not None:
            self._headers["authorization"] = f"Bearer {bearer.get_secret_value()}"

    def turns(self, selection: Selection) -> list[ScoredTurn]:
        return self._list("turns", ScoredTurn, _parameters(selection))

    def turn(self, turn_id: str) -> ScoredTurn | None:
        try:
            return self._list(f"turns/{urllib.parse.quote(turn_id, safe='')}", ScoredTurn)[0]
        except NotFound:
            return None

    def conversations(self, selection: Selection) -> list[Conversation]:
        return self._list("conversations", Conversation, _parameters(selection))

    def dead_letters(self) -> list[dict[str, Any]]:
        """As `DeadLetters.listed`."""
        return self._list("dead-letters", dict)

    def query(self, sql: str) -> list[dict[str, Any]]:
        body = json.dumps({"sql": sql}).encode()
        with self._open("query", body=body, timeout=None) as answer:
            return [json.loads(line) for line in answer]

    def tail(self, app: str | None) -> Iterator[ScoredTurn]:
        with self._open("tail", {"app": app}, timeout=None) as answer:
            while line := self._line(answer):
                yield msgspec.json.decode(line, type=ScoredTurn)
        raise Unreachable("the agent went away")

    def _line(self, answer: Any) -> bytes:
        try:
            line: bytes = answer.readline()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable("the agent went away") from error
        return line

    def status(self) -> dict[str, Any]:
        with self._open("status", timeout=5.0) as answer:
            status = json.load(answer)
        return status if isinstance(status, dict) else {}

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The decoded answer of a route that is no listing; none when it has nothing to say."""
        sent = None if body is None else json.dumps(body).encode()
        with self._open(path, body=sent, method=method) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def _list(self, path: str, kind: type[T], parameters: dict[str, Any] | None = None) -> list[T]:
        with self._open(path, parameters) as answer:
            return [msgspec.json.decode(line, type=kind) for line in answer]

    def _open(
        self,
        path: str,
        parameters: dict[str, Any] | None = None,
        *,
        body: bytes | None = None,
        timeout: float | None = TIMEOUT,
        method: str | None = None,
    ) -> Any:
        given = {k: v for k, v in (parameters or {}).items() if v is not None}
        url = f"{self._base}/{path}?{urllib.parse.urlencode(given)}"
        request = urllib.request.Request(  # noqa: S310 - http, as built
            url, body, self._headers, method=method
        )
        try:
            return urllib.request.urlopen(request, timeout=timeout)  # noqa: S310
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"nothing answers at {self._base}: {error}") from None


class NotFound(Permanent):
    """The API has no such thing."""


def _refusal(error: urllib.error.HTTPError) -> Permanent | Retryable:
    try:
        text = str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        text = f"the API answered {error.code}"
    if error.code == 404:
        return NotFound(text)
    if error.code == 401:
        return Permanent("the API wants a key: set exporters.prometheus.bearer as its owner has it")
    return Retryable(text) if error.code >= 500 else Permanent(text)


def _parameters(selection: Selection) -> dict[str, Any]:
    return {
        "since": selection.since,
        "app": selection.app,
        "conversation": selection.conversation_id,
        "limit": selection.limit,
    }


class Local:
    """The files of a data folder that nobody owns."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def turns(self, selection: Selection) -> list[ScoredTurn]:
        return self.ask(lambda lookup: lookup.turns(selection))

    def turn(self, turn_id: str) -> ScoredTurn | None:
        return self.ask(lambda lookup: lookup.turn(turn_id))

    def conversations(self, selection: Selection) -> list[Conversation]:
        return self.ask(lambda lookup: lookup.conversations(selection))

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self.ask(lambda lookup: lookup.query(sql))

    def tail(self, app: str | None) -> Iterator[ScoredTurn]:
        raise self._nothing_runs()

    def status(self) -> dict[str, Any]:
        raise self._nothing_runs()

    def _nothing_runs(self) -> Permanent:
        return Permanent(f"nothing runs on the data folder {self._config.data_dir}: `assay up`")

    def ask(self, question: Callable[[Lookup], Awaitable[T]]) -> T:
        """The answer, from the stream and the store opened for it."""
        from assay.cli.wiring import open_bus, open_store

        async def ask() -> T:
            bus = open_bus(self._config)
            await bus.start()
            try:
                return await question(Lookup(bus, open_store(self._config)))
            finally:
                await bus.stop()

        return asyncio.run(ask())


def write_running(folder: Path, running: Running) -> None:
    """Leave word of this process in its data folder."""
    temporary = folder / f"{RUNNING}.{running.pid}"
    temporary.write_bytes(msgspec.json.encode(running))
    temporary.replace(folder / RUNNING)
