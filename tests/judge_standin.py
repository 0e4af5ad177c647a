"""A stand-in for an OpenAI-compatible endpoint: a process of its own, scripted over HTTP.

    python judge_standin.py --script '{"latency": 0.2, "limit": 64, "share_429": 0.2}'

It prints its port. `POST /script` replaces its behaviour, `GET /requests` gives what it received.
Without a scripted reply it answers each request with an object that satisfies the request's JSON
schema; `level` chooses which value of an enumeration, `overrides` sets keys wherever they occur.
A scripted reply is {"status", "body", "headers", "content", "finish_reason", "usage", "mode"}; the
modes `hang` and `close` never answer. The last reply repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from typing import Any

import uvloop

CHECKED = re.compile(r"<<<(?:claim|criterion) (\d+) ")
DOCUMENT = re.compile(r"<<<document (\d+) ")


class StandIn:
    def __init__(self, script: dict[str, Any]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.running = 0
        self.most = 0
        self.set(script)

    def set(self, script: dict[str, Any]) -> None:
        self.script = script
        self.served = 0
        self.calls = 0
        self.requests.clear()
        self.headers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
                raw = await reader.readexactly(int(headers.get("content-length", "0")))
                if not await self.answer(first.split(" ")[1], headers, raw, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def answer(
        self, path: str, headers: dict[str, str], raw: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        if path == "/script":
            self.set(json.loads(raw))
            return await self.send(writer, 200, {})
        if path == "/requests":
            facts = {"requests": self.requests, "headers": self.headers, "calls": self.calls}
            return await self.send(writer, 200, facts)
        body = json.loads(raw)
        self.calls += 1
        if self.script.get("record", True):
            self.requests.append(body)
            self.headers.append(headers)
        status, answer, extra = self.verdict(body)
        if answer == "close":
            return False
        if answer == "hang":
            await asyncio.sleep(3600)
        if status == 200:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(self.script.get("latency", 0.0))
            self.running -= 1
        return await self.send(writer, status, answer, extra)

    def verdict(self, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        script = self.script
        for name in script.get("refuse", ()):
            if name in body or name == _format(body):
                param = name if name in body else "response_format"
                error = {"message": f"Unsupported parameter: '{param}'", "param": param}
                return 400, {"error": error}, {}
        replies = script.get("replies")
        if replies:
            reply = replies[min(self.served, len(replies) - 1)]
            self.served += 1
            if reply.get("mode"):
                return 0, reply["mode"], {}
            if "body" in reply or reply.get("status", 200) != 200:
                return reply.get("status", 200), reply.get("body", {}), reply.get("headers", {})
            return 200, self.completion(body, reply), reply.get("headers", {})
        draw = random.random()
        for share, status in (("share_429", 429), ("share_500", 500)):
            if draw < script.get(share, 0.0):
                return status, {"error": {"message": "no"}}, script.get("headers", {})
            draw -= script.get(share, 0.0)
        if draw < script.get("share_hang", 0.0):
            return 0, "hang", {}
        if self.running >= script.get("limit", 10**9):
            return 429, {"error": {"message": "slow down"}}, script.get("headers", {})
        return 200, self.completion(body, {}), {}

    def completion(self, body: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
        content = reply.get("content")
        if content is None:
            content = json.dumps(self.filled(body))
        message = {"role": "assistant", "content": content, "refusal": reply.get("refusal")}
        if reply.get("content") is None and body.get("tools"):
            message["tool_calls"] = [self.call(body["tools"][0]["function"])]
        choice = {
            "message": message,
            "finish_reason": reply.get("finish_reason", "stop"),
            "logprobs": reply.get("logprobs"),
        }
        usage = reply.get("usage") or {"prompt_tokens": 1000, "completion_tokens": 100}
        count = body.get("n", 1) if self.script.get("choices", True) else 1
        choices = [{"index": index, **choice} for index in range(count)]
        return {
            "id": "c",
            "object": "chat.completion",
            "model": body["model"],
            "choices": choices,
            "usage": usage,
        }

    def call(self, function: dict[str, Any]) -> dict[str, Any]:
        arguments = json.dumps(self.fill(function["parameters"], []))
        called = {"name": function["name"], "arguments": arguments}
        return {"id": "t", "type": "function", "function": called}

    def filled(self, body: dict[str, Any]) -> Any:
        form = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if form is None:
            return self.script.get("overrides", {}) | {"reason": "ok"}
        text = body["messages"][-1]["content"]
        numbers = CHECKED.findall(text) or DOCUMENT.findall(text)
        return self.fill(form, numbers)

    def fill(self, schema: dict[str, Any], numbers: list[str]) -> Any:
        match schema.get("type"):
            case "object":
                overrides = self.script.get("overrides", {})
                return {
                    name: overrides.get(name, self.fill(inner, numbers))
                    for name, inner in schema["properties"].items()
                }
            case "array":
                inner = schema["items"]
                if "n" in inner.get("properties", {}):
                    return [self.fill(inner, numbers) | {"n": int(n)} for n in numbers]
                return [self.fill(inner, numbers)] if inner.get("type") == "object" else []
            case "boolean":
                return bool(self.script.get("truth", False))
            case "string" if "enum" not in schema:
                return "ok"
            case "number":
                return self.script.get("number", 0.8)
        values = schema.get("enum", [1])
        return values[self.script.get("level", -1)]

    async def send(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        body: Any,
        extra: dict[str, str] | None = None,
    ) -> bool:
        data = json.dumps(body).encode()
        lines = [
            f"HTTP/1.1 {status} X",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
        ]
        lines += [f"{name}: {value}" for name, value in (extra or {}).items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        await writer.drain()
        return True


def _format(body: dict[str, Any]) -> str:
    form = body.get("response_format", {})
    return "object_schema" if "schema" in form else str(form.get("type", ""))


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", default="{}")
    stand_in = StandIn(json.loads(parser.parse_args().script))
    server = await asyncio.start_server(stand_in.serve, "127.0.0.1", 0, limit=2**24, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
