"""Debian's Prometheus and Alertmanager, and a webhook's receiver, on free ports."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

WAIT = 60.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


class Hooks:
    """Receives webhooks: `received` holds (moment, path, body)."""

    def __init__(self) -> None:
        received = self.received = []  # type: list[tuple[float, str, Any]]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append((time.time(), self.path, json.loads(body)))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def alerts(self, path: str, status: str) -> list[tuple[float, dict[str, Any]]]:
        """Alerts of a status that came in at a path, with when."""
        return [
            (at, alert)
            for at, where, body in self.received
            if where == path
            for alert in body["alerts"]
            if alert["status"] == status
        ]

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Program:
    """A program that serves HTTP until it is stopped."""

    def __init__(self, command: list[str], folder: Path, ready: str) -> None:
        self._log = (folder / f"{Path(command[0]).name}.log").open("wb")
        self._process = subprocess.Popen(command, cwd=folder, stdout=self._log, stderr=self._log)
        ends = time.monotonic() + WAIT
        while True:
            try:
                urllib.request.urlopen(ready, timeout=2).close()
                return
            except OSError:
                assert self._process.poll() is None, f"{command[0]} ended: see {folder}"
                assert time.monotonic() < ends, f"{command[0]} does not answer"
                time.sleep(0.2)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(WAIT)
        self._log.close()


class Alertmanager(Program):
    def __init__(self, path: str, folder: Path, hook: str) -> None:
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        settings = {
            "route": {
                "receiver": "hook",
                "group_by": ["alertname", "app"],
                "group_wait": "1s",
                "group_interval": "1s",
            },
            "receivers": [
                {"name": "hook", "webhook_configs": [{"url": hook, "send_resolved": True}]}
            ],
        }
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(settings))
        command = [
            path,
            "--config.file=alertmanager.yml",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
        ]
        super().__init__(command, folder, f"http://{self.address}/-/ready")


class Prometheus(Program):
    """Scrapes `target` as job `assay` and evaluates `rules` every second."""

    def __init__(
        self, path: str, folder: Path, target: str, rules: Path, alertmanager: str | None = None
    ) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        settings: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "assay", "static_configs": [{"targets": [target]}]}],
        }
        if alertmanager is not None:
            targets = [{"static_configs": [{"targets": [alertmanager]}]}]
            settings["alerting"] = {"alertmanagers": targets}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        command = [
            path,
            "--config.file=prometheus.yml",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address={self.address}",
        ]
        super().__init__(command, folder, f"http://{self.address}/-/ready")

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The samples of an instant query. Raises when Prometheus cannot parse it."""
        url = f"http://{self.address}/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success"
        result: list[dict[str, Any]] = found["data"]["result"]
        return result
