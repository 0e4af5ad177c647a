"""Tries every snippet of docs/instrument.md as it is written: `make snippets [ONLY=langfuse]`.

Each gets an environment of its own under `--into`, filled by the snippet's own `pip install` or
`npm install` line, and its own settings. A stand-in provider answers on loopback and takes the OTLP
in. A snippet has passed when its spans read as one turn with the question, the answer and the
model.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import venv
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector import decode, dialects

PAGE = Path(__file__).parents[2] / "docs/instrument.md"
SNIPPET = re.compile(
    r"```sh\n(?P<shell>(?:(?!```).)*)```(?:(?!```).)*?"
    r"<!-- tried: (?P<name>[\w-]+) -->\n```(?P<language>python|js)\n(?P<code>.*?)```",
    re.DOTALL,
)
QUESTION = "How long is the warranty on a kettle?"
ANSWER = "Two years, from the day of purchase."
FIELD = "[[ ## answer ## ]]"
"""How DSPy asks for an answer, and is given it."""
PUBLIC = "http://127.0.0.1:4318"


class StandIn(BaseHTTPRequestHandler):
    """Answers chat completions, and keeps the traces that are posted."""

    protocol_version = "HTTP/1.1"
    bodies: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        body = self._body()
        if "chat/completions" not in self.path:
            if self.path.endswith("/v1/traces"):
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                self.bodies.append(body)
            self._send("application/x-protobuf", b"")
        elif json.loads(body).get("stream"):
            parts = [_chunk({"role": "assistant", "content": ANSWER}), _chunk({}, "stop")]
            lines = [f"data: {json.dumps(part)}\n\n" for part in parts]
            self._send("text/event-stream", ("".join(lines) + "data: [DONE]\n\n").encode())
        else:
            text = f"{FIELD}\n{ANSWER}" if FIELD.encode() in body else ANSWER
            message = {"role": "assistant", "content": text}
            whole = _reply({"index": 0, "message": message, "finish_reason": "stop"})
            self._send("application/json", json.dumps(whole).encode())

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


def _reply(choice: dict[str, object], kind: str = "chat.completion") -> dict[str, object]:
    usage = {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21}
    named = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "gpt-4o-mini"}
    return {**named, "choices": [choice], "usage": usage}


def _chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _reply(choice, "chat.completion.chunk")


def attempt(name: str, shell: str, language: str, code: str, into: Path, url: str) -> str | None:
    """Run one snippet; None when it passed, else what is wrong."""
    home = into / name
    python = str(home / "bin/python")
    command = [python, "-c", code] if language == "python" else ["node", "snippet.mjs"]
    if language == "python" and not home.exists():
        venv.create(home, with_pip=True)
    elif language == "js":
        home.mkdir(exist_ok=True)
        (home / "snippet.mjs").write_text(code)
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SERVICE_NAME": "my-app"}
    for line in shell.splitlines():
        words = shlex.split(line)
        if words[:2] == ["pip", "install"]:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *words[2:]], check=True)
        elif words[:2] == ["npm", "install"]:
            subprocess.run(["npm", "install", "--silent", *words[2:]], cwd=home, check=True)
        elif words[:1] == ["export"]:
            pairs = (word.partition("=") for word in words[1:])
            settings |= {key: value.replace(PUBLIC, url) for key, _, value in pairs}
    settings |= {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": f"{url}/v1"}
    StandIn.bodies.clear()
    done = subprocess.run(
        command,
        env={**os.environ, **settings},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if done.returncode:
        return done.stderr[-600:]
    spans = []
    for body in list(StandIn.bodies):
        spans += decode.spans(ExportTraceServiceRequest.FromString(body))
    turns = dialects.read(spans).turns
    told = [(turn.query, (turn.response or "").strip(), bool(turn.model)) for turn in turns]
    return None if told == [(QUESTION, ANSWER, True)] else f"{len(spans)} spans, turns {told}"


def main() -> int:
    """The number of snippets that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, required=True, help="folder of the environments")
    parser.add_argument("only", nargs="*", help="names of snippets; all of them when none is given")
    wanted = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    failed = 0
    for found in SNIPPET.finditer(PAGE.read_text()):
        name = found["name"]
        if wanted.only and name not in wanted.only:
            continue
        wrong = attempt(name, found["shell"], found["language"], found["code"], wanted.into, url)
        print(f"{name}: {'passed' if wrong is None else wrong}", flush=True)
        failed += wrong is not None
    server.shutdown()
    return failed


if __name__ == "__main__":
    sys.exit(main())
