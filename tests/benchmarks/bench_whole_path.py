"""The whole path on one machine: accept, assemble, read, score, export and store.

Run: python tests/benchmarks/bench_whole_path.py [seconds] [turns a second]. Turns of five spans
(agent, retriever, tool, two model calls) of about 2 kB a span go from another process to an
`assay up` with the default metrics, everything sampled. Printed: what was sent, how far the stages
were behind at the end, how long they took to catch up, the memory, the processor time of each
part, and the time from a root span's arrival to its sample. The limit is `LIMIT` spans a second
with bounded lag and under 600 MB.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assay.cli.source import RUNNING

LIMIT = 5_000
TRACES_PER_REQUEST = 20
TEMPLATES = 200
SENDERS = 8
HEADERS = {"content-type": "application/x-protobuf"}
PLACEHOLDER = b"\xa5" * 16
SENTENCES = (
    "The Aurora desk lamp has five brightness levels and draws nine watts at most.",
    "Opened kettles can only be exchanged, unused ones are refunded within thirty days.",
    "Delivery takes three to five working days and is free above fifty euros.",
    "The warranty covers the light module and the hinge for two years.",
    "A parcel that does not arrive is sent again at our cost.",
    "Shelves carry twenty kilograms on each board when they are fixed to the wall.",
    "Please keep the receipt as proof of purchase, a photo of it is enough.",
    "Returns are picked up at home when the box is heavier than thirty kilograms.",
)


def template(rng: random.Random) -> bytes:
    """One five-span trace, its id a placeholder."""

    def prose(sentences: int) -> str:
        return " ".join(rng.choices(SENTENCES, k=sentences))

    def parts(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    question, documents = prose(1), [prose(12) for _ in range(3)]
    answer = prose(6)
    ids = [rng.randbytes(8) for _ in range(5)]
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 400,
        "gen_ai.usage.output_tokens": 90,
    }
    spans: list[tuple[str, bytes, dict[str, Any]]] = [
        (
            "invoke_agent helpdesk",
            b"",
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "helpdesk",
                "gen_ai.input.messages": parts("user", question),
                "gen_ai.output.messages": parts("assistant", answer),
            },
        ),
        (
            "retrieval kb",
            ids[0],
            {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.retrieval.query.text": question,
                "gen_ai.retrieval.documents": json.dumps(
                    [{"id": f"d{i}", "score": 0.5, "content": d} for i, d in enumerate(documents)]
                ),
            },
        ),
        (
            "execute_tool find_order",
            ids[0],
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "find_order",
                "gen_ai.tool.call.id": "call_1",
                "gen_ai.tool.call.arguments": '{"order_id": "ORD-1042"}',
                "gen_ai.tool.call.result": json.dumps({"status": "shipped", "note": prose(4)}),
            },
        ),
        ("chat gpt-4o-mini", ids[0], chat | {"gen_ai.input.messages": parts("user", prose(14))}),
        (
            "chat gpt-4o-mini",
            ids[0],
            chat
            | {
                "gen_ai.input.messages": parts("user", "\n".join(documents) + question),
                "gen_ai.output.messages": parts("assistant", answer),
            },
        ),
    ]
    body = ExportTraceServiceRequest()
    resource = body.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "bench"
    scope = resource.scope_spans.add()
    start = time.time_ns()
    for index, (name, parent, attributes) in enumerate(spans):
        span = scope.spans.add(
            trace_id=PLACEHOLDER,
            span_id=ids[index],
            parent_span_id=parent,
            name=name,
            start_time_unix_nano=start + index,
            end_time_unix_nano=start + 10**9 - index,
        )
        for key, value in attributes.items():
            field = span.attributes.add(key=key).value
            if isinstance(value, int):
                field.int_value = value
            else:
                field.string_value = value
    return body.SerializeToString()


def send(url: str, rate: float, seconds: float) -> tuple[int, int, int]:
    """Send traces at `rate` a second for `seconds`: traces, bytes, refused requests."""
    rng = random.Random(7)
    templates = [template(rng) for _ in range(TEMPLATES)]
    host = url.removeprefix("http://").partition("/")[0]
    started = time.monotonic()

    def sender(seed: int) -> tuple[int, int, int]:
        rng = random.Random(seed)
        connection = http.client.HTTPConnection(host)
        sent = size = refused = 0
        while (now := time.monotonic() - started) < seconds:
            ahead = sent - now * rate / SENDERS
            if ahead >= 0:
                time.sleep(max(0.002, ahead * SENDERS / rate))
                continue
            body = b"".join(
                rng.choice(templates).replace(PLACEHOLDER, rng.randbytes(16))
                for _ in range(TRACES_PER_REQUEST)
            )
            connection.request("POST", "/v1/traces", body, HEADERS)
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                sent += TRACES_PER_REQUEST
                size += len(body)
            else:
                refused += 1
                time.sleep(0.2)
        connection.close()
        return sent, size, refused

    with ThreadPoolExecutor(SENDERS) as pool:
        sums = list(pool.map(sender, range(SENDERS)))
    return sum(s[0] for s in sums), sum(s[1] for s in sums), sum(s[2] for s in sums)


def samples(api: str) -> dict[str, float]:
    """Sums of the samples of each name, of the plain text page."""
    with urllib.request.urlopen(f"http://{api}/metrics", timeout=30) as page:
        sums: dict[str, float] = {}
        for line in page.read().decode().splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                name = name.partition("{")[0]
                sums[name] = sums.get(name, 0.0) + float(value)
        return sums


def processes(root: int) -> dict[int, tuple[float, float]]:
    """Processor seconds and resident MB of a process and what it started."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rpartition(") ")[2].split()
            group, pid = int(stat[2]), int(entry.name)
            if group == root:
                seconds = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
                found[pid] = (seconds, int(stat[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        except OSError:
            continue
    return found


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else LIMIT / 5
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "assay.yaml")
        config.write_text(
            'collector: {http: "127.0.0.1:0", grpc: null}\n'
            'exporters: {prometheus: {listen: "127.0.0.1:0"}}\n'
        )
        agent = subprocess.Popen(
            [sys.executable, "-m", "assay.cli.main", "up"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            assert agent.stdout is not None
            agent.stdout.readline()
            running = json.loads(Path(folder, "assay-data", RUNNING).read_text())
            measure(running, agent.pid, rate, seconds)
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait(60)


def measure(running: dict[str, Any], pid: int, rate: float, seconds: float) -> None:
    peak = 0.0
    done = threading.Event()
    behind: list[tuple[float, float, float]] = []
    started = time.monotonic()

    def watch() -> None:
        nonlocal peak
        while not done.wait(2.0):
            peak = max(peak, sum(mb for _, mb in processes(pid).values()))
            page = samples(running["api"])
            behind.append(
                (
                    time.monotonic() - started,
                    page.get("assay_bus_lag_records", 0.0),
                    page.get("assay_turns_total", 0.0),
                )
            )

    watcher = threading.Thread(target=watch)
    watcher.start()
    sender = subprocess.run(
        [sys.executable, __file__, "--send", running["http"], str(rate), str(seconds)],
        capture_output=True,
        text=True,
        check=True,
    )
    sent, size, refused = json.loads(sender.stdout)
    ended = time.monotonic()
    page = samples(running["api"])
    while page.get("assay_turns_total", 0.0) < sent or page["assay_bus_lag_records"] > 0:
        if time.monotonic() - ended > 120:
            break
        time.sleep(0.5)
        page = samples(running["api"])
    caught_up = time.monotonic() - ended
    done.set()
    watcher.join()
    spans = sent * 5 / seconds
    print(f"sent {sent} turns, {spans:,.0f} spans/s ({spans / LIMIT:.2f} of the limit {LIMIT:,}), ")
    print(f"  {size / sent / 5:.0f} bytes a span, {refused} requests refused")
    print(
        f"turns counted {page.get('assay_turns_total', 0):.0f}, caught up {caught_up:.1f} s after"
    )
    print("  (settle is 6 s, the store commits every 10 s)")
    print(f"peak resident memory of all processes {peak:.0f} MB (limit 600)")
    for process, (cpu, mb) in sorted(processes(pid).items()):
        print(f"  process {process}: {cpu / seconds:.2f} cores, {mb:.0f} MB")
    print("lag (records on the bus, turns counted) every few seconds:")
    for at, lag, turns in behind[:: max(1, len(behind) // 12)]:
        print(f"  {at:5.0f} s  {lag:7.0f}  {turns:9.0f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        print(json.dumps(send(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))))
    else:
        main()
