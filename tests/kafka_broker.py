"""Apache Kafka itself on a free loopback port: one node (KRaft), its data in a temporary folder.

The server's jars are copied by Maven into a cache folder, once.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

VERSION = "4.1.0"
START = 90.0
"""Seconds that the broker has to come up."""

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>assay</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""
_LOG4J = """Configuration:
  status: ERROR
  Appenders:
    Console: {name: out, PatternLayout: {pattern: "%d %p %c %m%n"}}
  Loggers:
    Root: {level: WARN, AppenderRef: {ref: out}}
"""


class Missing(Exception):
    """This machine cannot run the broker, and why."""


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "assay-tests"


def missing() -> str | None:
    """Why this machine cannot run the broker; none when it can, if Maven finds the jars."""
    needed = ["java"] if (_cache() / f"kafka-{VERSION}").is_dir() else ["java", "mvn"]
    absent = [program for program in needed if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


def jars() -> Path:
    """The folder of the server's jars, filled on the first call. Raises Missing."""
    if (reason := missing()) is not None:
        raise Missing(reason)
    cache = _cache()
    folder = cache / f"kafka-{VERSION}"
    if folder.is_dir():
        return folder
    work = cache / f"fetch-{os.getpid()}"
    work.mkdir(parents=True, exist_ok=True)
    try:
        (work / "pom.xml").write_text(_POM)
        done = subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"],
            cwd=work,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode:
            raise Missing(f"mvn could not copy the broker's jars: {done.stdout[-400:]}")
        try:
            (work / "libs").rename(folder)
        except OSError:
            if not folder.is_dir():  # another session was not faster
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Broker:
    """One broker and controller in one process; `stop` and `start` keep data and port."""

    name = f"Apache Kafka {VERSION} (KRaft), one node"

    def __init__(
        self,
        folder: Path,
        *,
        listeners: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        format_options: Sequence[str] = (),
    ) -> None:
        """`listeners` are further ones by their protocol; `settings` the server's own besides."""
        self.folder = folder
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._controller = free_port()
        self._listeners = {"PLAINTEXT": self.port, **(listeners or {})}
        self._settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._classpath = f"{jars()}/*"
        self._properties = folder / "server.properties"
        (folder / "log4j2.yaml").write_text(_LOG4J)
        self._write_properties()
        self._run("kafka.tools.StorageTool", "format", "-t", "QXNzYXlUZXN0Q2x1c3Rlcg",
                  *format_options, "-c")  # fmt: skip

    def _write_properties(self) -> None:
        addresses = {name: f"{name}://127.0.0.1:{port}" for name, port in self._listeners.items()}
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": ",".join(
                [*addresses.values(), f"CONTROLLER://127.0.0.1:{self._controller}"]
            ),
            "advertised.listeners": ",".join(addresses.values()),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in addresses)]
            ),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.folder / "data",
            "num.partitions": "1",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "share.coordinator.state.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "log.cleaner.dedupe.buffer.size": "8000000",
            "log.segment.bytes": "64000000",
            **self._settings,
        }
        self._properties.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))

    def _command(self, main: str, *args: str) -> list[str]:
        return [
            "java",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.yaml'}",
            "-cp",
            self._classpath,
            main,
            *args,
            str(self._properties),
        ]

    def _run(self, main: str, *args: str) -> None:
        done = subprocess.run(
            self._command(main, *args), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start and return when it answers."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka"), stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                running = self._process.poll() is None
                if not running or time.monotonic() > deadline:
                    text = (self.folder / "broker.log").read_text()[-2000:]
                    raise AssertionError(f"the broker did not start:\n{text}") from None
                time.sleep(0.1)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(60)
