"""What tests of the judge share: the stand-in's process, settings, prompts and a turn."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from assay.config import Config
from assay.records import Document, Message, ToolCall, ToolDefinition, Turn
from scorers.judge import Judge, judge_of
from scorers.judging.budget import Budget
from scorers.judging.client import JudgeClient
from scorers.judging.library import load_library
from scorers.plan import Entry
from scorers.registry import resolve
from scorers.scorer import Verdict

CASES = Path(__file__).parent / "data" / "cases"
LIBRARY = load_library()
MODEL = "gpt-4o-mini"
TURN = Turn(
    turn_id="0" * 32 + "-0",
    trace_id="0" * 32,
    query="How long is the warranty on the kettle?",
    response="The kettle has a two-year warranty.",
    documents=(
        Document(id="a", title="Kettles", content="24 months warranty from the delivery date."),
        Document(id="b", content="Returns are accepted within 30 days."),
    ),
    system="You are the assistant of a shop.",
    messages=(
        Message(role="user", content="Hello"),
        Message(role="assistant", content="Hello, how can I help?"),
    ),
    ground_truth="Two years.",
    baseline_response="One year, I think.",
    tool_calls=(ToolCall(name="lookup", arguments={"item": "kettle"}, result={"months": 24}),),
    tool_definitions=(ToolDefinition(name="lookup", parameters={"type": "object"}),),
)


class StandInProcess:
    """The stand-in endpoint as a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "judge_standin.py")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = f"http://127.0.0.1:{self._process.stdout.readline().strip()}"
        self.base_url = f"{self.address}/v1"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def script(self, **behaviour: Any) -> None:
        """Replace the behaviour and forget the requests."""
        data = json.dumps(behaviour).encode()
        urllib.request.urlopen(f"{self.address}/script", data=data).close()

    def received(self) -> dict[str, Any]:
        """Calls, and the requests with their headers."""
        with urllib.request.urlopen(f"{self.address}/requests") as response:
            facts: dict[str, Any] = json.load(response)
        return facts


def config_of(base_url: str, *metrics: Any, prices: Any = None, **judge: Any) -> Config:
    """Settings with a judge at `base_url`; each metric a name or a mapping of its options."""
    listed = [
        {metric: {"engine": "judge"}} if isinstance(metric, str) else metric for metric in metrics
    ]
    block = {"base_url": base_url, "model": MODEL, "timeout": 2.0, "give_up_after": 10.0}
    return Config.model_validate(
        {"judge": block | judge, "metrics": listed, "prices": prices or {}}
    )


def open_judge(config: Config, *, partitions: int = 1) -> tuple[Judge, tuple[Entry, ...]]:
    """A judge without a cache, and its entries; the budget is divided over `partitions`."""
    if config.judge is not None and config.judge.prompts is None:
        budget = Budget(config.judge.budget, partitions=partitions)
        judge = Judge(JudgeClient(config.judge, config.prices, budget=budget), LIBRARY)
    else:
        found = judge_of(config, cache=False)
        assert found is not None
        judge = found
    return judge, resolve(config, judge.scorers()).entries("app")


async def verdicts(
    base_url: str, *metrics: Any, turn: Turn = TURN, **judge_settings: Any
) -> dict[str, Verdict]:
    """The verdicts on `turn` by metric; of a metric asked of two subjects, `metric subject`."""
    judge, entries = open_judge(config_of(base_url, *metrics, **judge_settings))
    try:
        found = await judge.verdicts(turn, entries)
    finally:
        await judge.stop()
    names = [entry.metric.name for entry in entries]
    return {
        name if names.count(name) == 1 else f"{name} {entry.metric.subject}": verdict
        for name, entry, verdict in zip(names, entries, found, strict=True)
    }


async def verdict(base_url: str, metric: Any, **more: Any) -> Verdict:
    """The one verdict on one metric."""
    found = await verdicts(base_url, metric, **more)
    (only,) = found.values()
    return only


def own_prompt(folder: Path, name: str = "warranty", **changes: Any) -> Path:
    """A folder with one own prompt, a number from 0 to 1 unless changed."""
    file = {
        "name": name,
        "version": "1",
        "family": "quality",
        "question": "How right is the answer?",
        "inputs": {"required": ["query", "response", "context"]},
        "scale": {"kind": "number", "low": 0, "high": 1},
        "threshold": 0.5,
        "messages": [
            {"role": "system", "content": "{{ rules }}\n\n{{ scale }}\n\n{{ answer }}"},
            {"role": "user", "content": "{{ query }}\n\n{{ context }}\n\n{{ response }}"},
        ],
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(file | changes))
    return folder
