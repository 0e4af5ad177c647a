"""Traffic for the benchmarks: five-span turns of about 2 kB a span, sent from a process of its own.

    python tests/benchmarks/traffic.py URL TURNS_A_SECOND SECONDS TURNS_A_REQUEST

prints what was sent as JSON.
"""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SPANS = 5
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


class Sent(NamedTuple):
    """What a sender did."""

    turns: int
    size: int
    """Bytes of the bodies."""
    refused: int
    """Requests that were told to come again."""
    accepted: list[tuple[float, int]]
    """Per request that was taken in: when it was begun (monotonic seconds), and its turns."""


def template(rng: random.Random) -> list[bytes]:
    """One five-span trace as bytes, in the pieces between which its id stands."""

    def prose(sentences: int) -> str:
        return " ".join(rng.choices(SENTENCES, k=sentences))

    def parts(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    question, documents = prose(1), [prose(12) for _ in range(3)]
    answer = prose(6)
    ids = [rng.randbytes(8) for _ in range(SPANS)]
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
    return body.SerializeToString().split(PLACEHOLDER)


def bodies(turns: int, seed: int) -> Iterator[bytes]:
    """Requests of `turns` traces each, no two traces alike, without end."""
    rng = random.Random(seed)
    templates = [template(rng) for _ in range(TEMPLATES)]
    while True:
        yield b"".join(rng.randbytes(16).join(rng.choice(templates)) for _ in range(turns))


def send(url: str, rate: float, seconds: float, turns: int) -> Sent:
    """Send `rate` turns a second for `seconds`, `turns` in a request."""
    host = url.removeprefix("http://").partition("/")[0]
    lock = threading.Lock()
    ready = bodies(turns, seed=7)
    started = time.monotonic()

    def sender(_: int) -> Sent:
        connection = http.client.HTTPConnection(host, timeout=60)
        accepted: list[tuple[float, int]] = []
        size = refused = 0
        while (now := time.monotonic() - started) < seconds:
            ahead = len(accepted) * turns - now * rate / SENDERS
            if ahead >= 0:
                time.sleep(max(0.002, ahead * SENDERS / rate))
                continue
            with lock:
                body = next(ready)
            began = time.monotonic()
            connection.request("POST", "/v1/traces", body, HEADERS)
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                accepted.append((began, turns))
                size += len(body)
            else:
                refused += 1
                time.sleep(0.2)
        connection.close()
        return Sent(len(accepted) * turns, size, refused, accepted)

    with ThreadPoolExecutor(SENDERS) as pool:
        all_sent = list(pool.map(sender, range(SENDERS)))
    return Sent(
        sum(sent.turns for sent in all_sent),
        sum(sent.size for sent in all_sent),
        sum(sent.refused for sent in all_sent),
        sorted(one for sent in all_sent for one in sent.accepted),
    )


def send_apart(url: str, rate: float, seconds: float, turns: int = 20) -> Sent:
    """As `send`, from a process of its own."""
    arguments: Sequence[object] = (url, rate, seconds, turns)
    done = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return Sent(*json.loads(done.stdout))


if __name__ == "__main__":
    print(json.dumps(send(sys.argv[1], *map(float, sys.argv[2:4]), int(sys.argv[4]))))
