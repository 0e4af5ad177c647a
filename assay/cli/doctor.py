"""`assay doctor`: what could keep this installation from working, each with what to do about it."""

from __future__ import annotations

import gzip
import resource
import shutil
import socket
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from rich.text import Text

from assay.cli.show import plain, print_lines, table
from assay.cli.source import Remote, answering
from assay.config import Config, load
from assay.config_values import split_address
from assay.errors import AssayError, ConfigError, Permanent

LEAST_HANDLES = 1024
LEAST_DISK = 10**9
LOOPBACK = ("127.", "localhost", "::1")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    check: str
    state: Literal["ok", "warning", "fault"]
    detail: str
    fix: str = ""


def run(path: Path | None, as_json: bool) -> int:
    """Look at everything and print what was found; 1 when there is a fault, else 0."""
    found = list(findings(path))
    if as_json:
        print_lines(found)
    else:
        colours = {"ok": "green", "warning": "yellow", "fault": "red"}
        table(
            ("check", "state", "found", "what to do"),
            ((f.check, Text(f.state, colours[f.state]), plain(f.detail), f.fix) for f in found),
        )
    return int(any(finding.state == "fault" for finding in found))


def findings(path: Path | None) -> Iterator[Finding]:
    """One finding after the other; only the settings' own when they are wrong."""
    from assay.cli.wiring import check_plan

    try:
        config = load(path, checks=[check_plan])
    except ConfigError as error:
        for fault in error.faults:
            yield _fault("settings", fault, "correct it; `assay config check` looks again")
        return
    yield _ok("settings", str(path) if path is not None else "the defaults")
    try:
        remote = answering(config)
    except AssayError as error:
        yield _fault("agent", str(error), "set it")
        return
    if remote is None:
        yield _warning("agent", "does not run", "`assay up`")
    else:
        yield _agent(remote)
    yield from _addresses(config, running=remote is not None)
    yield from _data_folder(config)
    yield _handles()
    if remote is None:
        yield from _log(config)
    if config.judge is not None:
        yield from _judge(config.judge.base_url)


def _agent(remote: Remote) -> Finding:
    troubled = [row for row in remote.status().get("stages", ()) if row.get("detail")]
    if troubled:
        detail = "; ".join(f"{row['stage']}: {row['detail']}" for row in troubled)
        say = _warning if all(row.get("ok") for row in troubled) else _fault
        return say("agent", detail, "look at its log")
    return _ok("agent", f"runs, API at {remote.address}")


def _ok(check: str, detail: str) -> Finding:
    return Finding(check=check, state="ok", detail=detail)


def _fault(check: str, detail: str, fix: str) -> Finding:
    return Finding(check=check, state="fault", detail=detail, fix=fix)


def _warning(check: str, detail: str, fix: str) -> Finding:
    return Finding(check=check, state="warning", detail=detail, fix=fix)


def _addresses(config: Config, *, running: bool) -> Iterator[Finding]:
    doors = {"collector.http": config.collector.http, "collector.grpc": config.collector.grpc}
    keys = {
        "collector.http": bool(config.collector.api_keys),
        "collector.grpc": bool(config.collector.api_keys),
        "exporters.prometheus.listen": config.exporters.prometheus.bearer is not None,
    }
    listen = {"exporters.prometheus.listen": config.exporters.prometheus.listen}
    for key, address in (doors | listen).items():
        if address is None:
            continue
        host, port = split_address(address)
        if not running and not _free(host, port):
            fix = f"end the process that holds it, or set {key} to another address"
            yield _fault(key, f"{address} cannot be listened on", fix)
        elif not host.startswith(LOOPBACK) and not keys[key]:
            setting = "collector.api_keys" if key in doors else "exporters.prometheus.bearer"
            yield _warning(key, f"{address} is open to the network without a key", f"set {setting}")
        else:
            yield _ok(key, address)


def _free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError:
        return False
    return True


def _data_folder(config: Config) -> Iterator[Finding]:
    folder = config.data_dir
    if folder.is_dir():
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & 0o077:
            yield _warning("data_dir", f"{folder} is open to others", f"chmod 700 {folder}")
        else:
            yield _ok("data_dir", str(folder))
    else:
        yield _ok("data_dir", f"{folder} will be made")
    existing = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(existing).free
    size = config.bus.max_size
    if free < LEAST_DISK:
        yield _fault("disk", f"{free / 1e9:.1f} GB free", "give it room, or move data_dir")
    elif free < size:
        yield _warning(
            "disk",
            f"{free / 1e9:.1f} GB free, and the stream may take {size / 1e9:.1f} GB",
            "lower bus.max_size, or give it room",
        )
    else:
        yield _ok("disk", f"{free / 1e9:.1f} GB free")
    yield from _clock(folder)


def _clock(folder: Path) -> Iterator[Finding]:
    """The stream orders by this machine's clock: it must not stand before what it has written."""
    written = [p.stat().st_mtime for p in folder.glob("*") if p.is_file()]
    ahead = max(written, default=0.0) - time.time()
    if ahead > 5:
        yield _fault(
            "clock",
            f"stands {ahead:.0f} s before the newest file of {folder}",
            "set the clock, and keep it by NTP",
        )
    else:
        yield _ok("clock", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))


def _handles() -> Finding:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < LEAST_HANDLES:
        return _warning("open files", f"at most {limit}", f"ulimit -n {LEAST_HANDLES}")
    return _ok("open files", f"at most {limit}")


def _log(config: Config) -> Iterator[Finding]:
    from assay.cli.source import Local
    from assay.lookup import Selection

    if not config.data_dir.is_dir():
        return
    try:
        Local(config).turns(Selection(since=1.0, limit=1))
        yield _ok("stream", "can be read")
    except AssayError as error:
        yield _fault("stream", str(error), "see the message")


def _judge(base_url: str) -> Iterator[Finding]:
    parts = urlsplit(base_url)
    place = f"{parts.scheme}://{parts.hostname}"
    try:
        with urllib.request.urlopen(f"{base_url}/models", timeout=5):  # noqa: S310 - as configured
            yield _ok("judge", f"{place} answers")
    except urllib.error.HTTPError as error:
        yield _ok("judge", f"{place} answers ({error.code} without a key)")
    except (OSError, ValueError):
        yield _fault("judge", f"{place} cannot be reached", "correct judge.base_url")


def explain_capture(file: Path, as_json: bool) -> None:
    """Print how each span of a capture was read. Raises Permanent when it is no capture."""
    from collector.dialects import explain

    rows = explain(*read_capture(file))
    if as_json:
        print_lines(rows)
        return
    table(
        ("trace", "span", "kind", "read as", "taken", "use"),
        (
            (
                row.trace_id[:8],
                plain(row.name, 50),
                row.kind,
                ", ".join(row.layouts),
                ", ".join(row.taken),
                row.use,
            )
            for row in rows
        ),
    )


def read_capture(file: Path) -> tuple[list[Any], list[Any]]:
    """The spans and log records of OTLP/JSON export requests, one a line. Raises Permanent, naming
    file and line, for what is none."""
    from collector import decode, otlp_json

    spans: list[Any] = []
    logs: list[Any] = []
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    if b"resourceLogs" in line or b"resource_logs" in line:
                        logs += decode.logs(otlp_json.parse_logs(line))
                    else:
                        spans += decode.spans(otlp_json.parse_traces(line))
                except AssayError as error:
                    raise Permanent(f"{file}:{number}: {error}") from error
    except OSError as error:
        raise Permanent(f"{file}: {error.strerror or error}") from error
    return spans, logs
