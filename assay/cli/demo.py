"""`assay demo`: the simulated help desk, instrumented with the OpenTelemetry SDK as an app is.

Each exchange is one trace in the GenAI conventions: the agent's span over a retrieval, a tool call
and the model calls. Times are made up to lie in the past, so that nothing has to wait for them.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context
from rich.console import Console

from assay.cli.shop import KINDS, ORDER_TOOL, SYSTEM, Exchange
from assay.cli.source import find_running
from assay.config import Config
from assay.errors import Permanent

MODEL = "gpt-4o-mini"
SECOND = 10**9
PAUSE = 5 * SECOND
"""Between an answer and the next question."""
START_TIMEOUT = 20.0


def run(
    config: Config,
    path: Path | None,
    *,
    endpoint: str | None,
    rate: float,
    conversations: int | None,
    mix: Mapping[str, float],
    seed: int,
    app: str,
) -> None:
    """Send `conversations` (none: until interrupted) at `rate` a second to the door `endpoint`
    (none: that of the running agent, else of the settings read from `path`).

    Starts `assay up` beside it when nothing answers there, and ends it again afterwards. Raises
    Permanent when that does not come up, and at the end when spans were not accepted.
    """
    console = Console(stderr=True, highlight=False)
    endpoint = (endpoint or _door(config)).rstrip("/")
    agent = None if answers(endpoint) else _start_agent(endpoint, path, console)
    provider = TracerProvider(resource=Resource.create({"service.name": app}))
    keys = config.collector.api_keys
    headers = {"authorization": f"Bearer {keys[0].get_secret_value()}"} if keys else {}
    exporter = _Exporter(endpoint=f"{endpoint}/v1/traces", headers=headers)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
    sent = dict.fromkeys(KINDS, 0)
    console.print(f"Sending conversations of [bold]{app}[/] to {endpoint}. Ctrl-C stops.")
    try:
        _send(provider.get_tracer("fernhill.helpdesk"), sent, rate, conversations, mix, seed)
    except KeyboardInterrupt:
        pass
    finally:
        provider.shutdown()
        console.print(
            "Sent " + ", ".join(f"{count} {kind}" for kind, count in sent.items() if count)
        )
        if agent is not None:
            _end_agent(agent, config, console)
    if exporter.refused:
        raise Permanent(f"{exporter.refused} spans of these were not accepted by {endpoint}")


class _Exporter(OTLPSpanExporter):
    """Counts the spans that the door did not take, whatever it was asked again."""

    refused = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        if result is not SpanExportResult.SUCCESS:
            self.refused += len(spans)
        return result


def _door(config: Config) -> str:
    running = find_running(config)
    if running is not None and running.http is not None:
        return running.http
    if config.collector.http is None:
        raise Permanent("collector.http is off: name a door with --endpoint")
    return f"http{'s' if config.collector.tls else ''}://{config.collector.http}"


def answers(endpoint: str) -> bool:
    """Whether an OTLP door answers at `endpoint`."""
    request = urllib.request.Request(  # noqa: S310 - the user's own address
        f"{endpoint}/v1/traces", b"{}", {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=2):  # noqa: S310
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


def _start_agent(endpoint: str, config: Path | None, console: Console) -> subprocess.Popen[bytes]:
    console.print(f"Nothing answers at {endpoint}: starting `assay up`.")
    command = [sys.executable, "-m", "assay.cli.main", "up"]
    agent = subprocess.Popen(command + (["--config", str(config)] if config else []))  # noqa: S603
    ends = time.monotonic() + START_TIMEOUT
    while agent.poll() is None and time.monotonic() < ends:
        if answers(endpoint):
            return agent
        time.sleep(0.1)
    agent.terminate()
    agent.wait()
    raise Permanent(f"`assay up` did not open {endpoint}: see its messages above")


def _end_agent(agent: subprocess.Popen[bytes], config: Config, console: Console) -> None:
    console.print(f"Scoring what was sent, for {config.assembly.settle + 2:.0f} s.")
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(config.assembly.settle + 2)
    agent.terminate()
    agent.wait()


def _send(
    tracer: Tracer,
    sent: dict[str, int],
    rate: float,
    conversations: int | None,
    mix: Mapping[str, float],
    seed: int,
) -> None:
    random_ = random.Random(seed)
    due = time.monotonic()
    while conversations is None or sum(sent.values()) < conversations:
        kind = random_.choices(list(mix), list(mix.values()))[0]
        _converse(tracer, KINDS[kind](random_), random_)
        sent[kind] += 1
        due += random_.expovariate(rate)
        time.sleep(max(0.0, due - time.monotonic()))


def _converse(tracer: Tracer, exchanges: list[Exchange], random_: random.Random) -> None:
    """Send the traces of a conversation whose last answer has just been given."""
    conversation = str(uuid.UUID(int=random_.getrandbits(128), version=4))
    took = [int(random_.lognormvariate(0.2, 0.5) * SECOND) + SECOND // 2 for _ in exchanges]
    start = time.time_ns() - sum(took) - PAUSE * (len(exchanges) - 1)
    history: list[dict[str, Any]] = []
    for exchange, duration in zip(exchanges, took, strict=True):
        _trace(tracer, exchange, conversation, history, start, start + duration, random_)
        start += duration + PAUSE
        history += [
            _message("user", _text(exchange.query)),
            _message("assistant", _text(exchange.response)),
        ]


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _message(role: str, part: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"role": role, "parts": [part], **more}


def _trace(
    tracer: Tracer,
    exchange: Exchange,
    conversation: str,
    history: list[dict[str, Any]],
    start: int,
    end: int,
    random_: random.Random,
) -> None:
    asked = _message("user", _text(exchange.query))
    answered = _message("assistant", _text(exchange.response), finish_reason="stop")
    root = tracer.start_span(
        "invoke_agent helpdesk",
        start_time=start,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "helpdesk",
            "gen_ai.conversation.id": conversation,
            "gen_ai.input.messages": json.dumps([asked]),
            "gen_ai.output.messages": json.dumps([answered]),
        },
    )
    context = set_span_in_context(root)
    messages = [_message("system", _text(SYSTEM)), *history, asked]
    if exchange.documents:
        retrieval = tracer.start_span(
            "retrieval pages",
            context,
            SpanKind.CLIENT,
            start_time=start,
            attributes={
                "gen_ai.operation.name": "retrieval",
                "gen_ai.data_source.id": "pages",
                "gen_ai.retrieval.query.text": exchange.query,
                "gen_ai.retrieval.documents": json.dumps(
                    [
                        {"id": name, "score": round(0.9 / rank, 3), "content": text}
                        for rank, (name, text) in enumerate(exchange.documents, 1)
                    ]
                ),
            },
        )
        retrieval.end(start + SECOND // 10)
        pages = "\n".join(f"[{name}] {text}" for name, text in exchange.documents)
        messages[-1] = _message("user", _text(f"Pages:\n{pages}\n\nQuestion: {exchange.query}"))
    middle = start + SECOND // 4
    if exchange.arguments is not None:
        call = {
            "type": "tool_call",
            "id": f"call_{random_.getrandbits(48):012x}",
            "name": ORDER_TOOL["name"],
            "arguments": exchange.arguments,
        }
        calls = _message("assistant", call, finish_reason="tool_call")
        _model_call(tracer, context, conversation, messages, calls, start + 1, middle)
        result = exchange.result or json.dumps({"error": exchange.tool_error})
        _tool_call(tracer, context, call, exchange, result, middle)
        response = {"type": "tool_call_response", "id": call["id"], "response": result}
        messages = [*messages, _message("assistant", call), _message("tool", response)]
    _model_call(tracer, context, conversation, messages, answered, middle + SECOND // 5, end)
    root.end(end)


def _model_call(
    tracer: Tracer,
    context: Any,
    conversation: str,
    messages: list[dict[str, Any]],
    output: dict[str, Any],
    start: int,
    end: int,
) -> None:
    span = tracer.start_span(
        f"chat {MODEL}",
        context,
        SpanKind.CLIENT,
        start_time=start,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.response.model": MODEL,
            "gen_ai.conversation.id": conversation,
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([output]),
            "gen_ai.tool.definitions": json.dumps([ORDER_TOOL]),
            "gen_ai.response.finish_reasons": [output["finish_reason"]],
            "gen_ai.usage.input_tokens": len(json.dumps(messages)) // 4,
            "gen_ai.usage.output_tokens": len(json.dumps(output)) // 4,
        },
    )
    span.end(end)


def _tool_call(
    tracer: Tracer,
    context: Any,
    call: dict[str, Any],
    exchange: Exchange,
    result: str,
    start: int,
) -> None:
    span = tracer.start_span(
        f"execute_tool {call['name']}",
        context,
        start_time=start,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call["name"],
            "gen_ai.tool.call.id": call["id"],
            "gen_ai.tool.call.arguments": json.dumps(call["arguments"]),
            "gen_ai.tool.call.result": result,
        },
    )
    if exchange.tool_error:
        span.set_attribute("error.type", "ToolError")
        span.set_status(Status(StatusCode.ERROR, exchange.tool_error))
    span.end(start + SECOND // 8)
