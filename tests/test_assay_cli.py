"""The commands: what they print, refuse, and return."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typer.testing import CliRunner, Result

from assay import __version__
from assay.bus.contract import Outgoing
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import TURNS, topics
from assay.catalogue import METRICS
from assay.cli import demo, shop
from assay.cli.doctor import read_capture
from assay.cli.main import app, main
from assay.cli.show import plain, show_rows, show_scores, show_tail, show_turn
from assay.cli.source import Running, answering, find_running, write_running
from assay.config import Config
from assay.errors import ConfigError, Permanent
from assay.lookup import ScoredTurn
from assay.records import Document, Score, Turn, TurnScores, encode
from collector import decode, dialects

CAPTURES = Path(__file__).parent / "data" / "captures"
SPOILED = "a\x1b[2Jb\x07\x9b31m\u202etxt[/red]\ud800"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_CONFIG", raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def exits(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit status of the console script."""
    monkeypatch.setattr(sys, "argv", ["assay", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


def test_the_command_line_loads_nothing_that_it_does_not_need() -> None:
    """`assay --help` answers at once: no server, no scorer, no store is imported for it."""
    code = "import sys, assay.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    heavy = {"fastapi", "uvicorn", "grpc", "deltalake", "nltk", "openai", "pydantic", "numpy"}
    assert heavy & set(done.stdout.split()) == set()


def test_wrong_settings_are_all_listed_and_exit_with_2(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each fault is a line on standard error; metrics are checked in the same go."""
    (here / "assay.yaml").write_text(
        "sampling: {ratio: 50%}\nmetrics: [rogue, ' f1_score ', {f1_score: {threshold: 80}}]\n"
    )
    assert exits("config", "check", monkeypatch=monkeypatch) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "sampling.ratio",
        "metrics.0",
        "metrics.2.f1_score.threshold",
    ]


def test_a_failure_is_one_line_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without data and without an agent, a listing says what to do."""
    assert exits("turns", "list", monkeypatch=monkeypatch) == 1
    assert capsys.readouterr().err == (
        "assay: no data in assay-data and nothing runs: start `assay up`\n"
    )


async def test_a_conversation_is_shown_for_each_app_that_has_one(here: Path) -> None:
    """Turns that came in any order stand by their start; `--app` picks one of two with one id."""
    bus = EmbeddedBus(here / "assay-data", topics())
    await bus.start()
    turns = [
        said("shop", 2, "And the lamp?"),
        said("news", 1, "What is new?"),
        said("shop", 1, "How much is the kettle?"),
    ]
    await bus.publish([Outgoing(TURNS, encode(t), key=t.turn_id.encode()) for t in turns])
    await bus.stop()
    shown = await asyncio.to_thread(run, "conversations", "show", "c-1", "--since", "90d")
    places = [
        shown.output.index(text)
        for text in ("c-1 news", "What is new?", "c-1 shop", "kettle?", "lamp?")
    ]
    assert places == sorted(places)
    only = await asyncio.to_thread(run, "conversations", "show", "c-1", "--app", "shop", "--json")
    assert [json.loads(line)["app"] for line in only.output.splitlines()] == ["shop"]


def said(app: str, second: int, query: str) -> Turn:
    """A turn of the conversation c-1."""
    trace_id = f"{app}{second}".encode().hex().ljust(32, "0")
    at = time.time_ns() - (60 - second) * 10**9
    return Turn(
        turn_id=f"{trace_id}-0",
        trace_id=trace_id,
        app=app,
        conversation_id="c-1",
        query=query,
        started_at=at,
        ended_at=at + 10**9,
        arrived_at=at,
    )


def test_config_check_and_show(here: Path) -> None:
    """Right settings are said to be right; those in force are shown without secrets."""
    assert "the defaults: right" in run("config", "check").output
    (here / "own.yaml").write_text("collector: {api_keys: [CANARY]}\nassembly: {settle: 2s}\n")
    shown = run("config", "show", "-c", "own.yaml", "--json").output
    assert json.loads(shown)["assembly"]["settle"] == 2
    assert "CANARY" not in shown + run("config", "show", "-c", "own.yaml").output


def test_the_version_is_told() -> None:
    """Who reports a fault can say of which version."""
    assert run("--version").output == f"assay {__version__}\n"


def test_only_an_alert_of_the_settings_is_silenced(here: Path) -> None:
    """A mistyped name silences nothing, and is told with the names that there are."""
    (here / "assay.yaml").write_text("alerts: [{name: low, metric: relevance, objective: 0.1}]\n")
    refused = run("alerts", "silence", "lwo").exception
    assert isinstance(refused, Permanent) and "low" in str(refused)


def test_schema_describes_the_records() -> None:
    """A record validates against its printed schema; another name is refused."""
    schema = json.loads(run("schema", "Turn").output)
    turn = Turn(turn_id="a-0", trace_id="a", query="q", documents=(Document(content="d"),))
    jsonschema.validate(json.loads(encode(turn)), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"turn_id": 1}, schema)
    assert set(json.loads(run("schema").output)["$defs"]) >= {"Turn", "TurnScores", "ScoredTurn"}
    assert isinstance(run("schema", "Nothing").exception, Permanent)


def test_the_catalogue_is_listed() -> None:
    """Every metric is a line with its contract and engines; one is found by another name too."""
    rows = [json.loads(line) for line in run("metrics", "list", "--json").output.splitlines()]
    assert [row["name"] for row in rows][: len(METRICS)] == list(METRICS)
    assert {row["name"]: row["engines"] for row in rows}["f1_score"] == ["computed"]
    assert "f1_score" in run("metrics", "show", "builtin.f1_score").output
    assert "scale" in run("metrics", "show", "groundedness").output
    assert run("metrics", "list").exit_code == 0


def test_text_of_traces_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences, direction marks, markup and half characters are shown, not obeyed."""
    turn = Turn(
        turn_id="a-0",
        trace_id="a",
        app=SPOILED,
        query=SPOILED,
        response=SPOILED,
        documents=(Document(id=SPOILED, content=SPOILED),),
        labels={"x": SPOILED},
    )
    entry = Score(metric="refusal", engine="local", value=0.0, passed=False, reason=SPOILED)
    scores = TurnScores(subject_id="a-0", turn_id="a-0", trace_id="a", scores=(entry,))
    scored = ScoredTurn(turn=turn, scores=(scores,))
    show_turn(scored, as_json=False)
    show_tail(iter([scored]), as_json=False)
    out = capsys.readouterr().out
    assert "txt[/red]" in out and "refusal" in out
    assert not any(mark in out for mark in "\x1b\x07\x9b\u202e\ud800")


def test_rows_of_many_columns_are_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    """A row that no line can hold is shown a column a line, so that it can be read."""
    show_rows([{f"column_{n}": n for n in range(30)}], as_json=False)
    assert len(capsys.readouterr().out.splitlines()) == 31


def test_a_failure_without_a_reason_shows_its_details(capsys: pytest.CaptureFixture[str]) -> None:
    """Who reads that a metric failed reads something of why."""
    show_scores([Score(metric="m", engine="e", value=1.5, passed=False, details={"recall": 0.2})])
    assert "recall 0.2" in capsys.readouterr().out


def test_a_terminal_that_lacks_a_character_shows_a_question_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An output of ASCII ends no listing."""
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii") as out:
        monkeypatch.setattr(sys, "stdout", out)
        main(lambda: print("caf\u00e9"))
        out.flush()
        assert out.buffer.getvalue() == b"caf?\n"


def test_plain_cuts_to_one_line() -> None:
    """A cell is one line and never longer than asked."""
    assert plain("a\n b\tc" + "x" * 50, 8) == "a b cxx…"
    assert plain(None) == ""


def test_a_seed_gives_the_same_conversations() -> None:
    """Each kind draws its conversations from the seed alone."""
    for kind in shop.KINDS.values():
        assert kind(random.Random(1)) == kind(random.Random(1))


@pytest.mark.parametrize("text", ["good", "good=x", "nice=1", "good=-1", "good=inf", "good=0", ""])
def test_a_mix_that_is_none_is_refused(text: str) -> None:
    """Unknown kinds and shares that are no numbers are refused with what is allowed."""
    with pytest.raises(ValueError, match=r"allowed|share"):
        shop.parse_mix(text)


def test_a_mix_names_its_kinds() -> None:
    """Kinds that are not named get no share."""
    assert shop.parse_mix("good=3, unsafe=1") == dict.fromkeys(shop.KINDS, 0.0) | {
        "good": 3.0,
        "unsafe": 1.0,
    }


@pytest.mark.parametrize("kind", shop.KINDS)
def test_the_demo_is_read_as_it_was_meant(kind: str) -> None:
    """What the help desk says, looks up and calls comes back from its traces, turn by turn."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    for seed in range(6):
        spans.clear()
        exchanges = shop.KINDS[kind](random.Random(seed))
        demo._converse(provider.get_tracer("t"), exchanges, random.Random(seed))
        read = decode.spans(encode_spans(spans.get_finished_spans()))
        traces: dict[str, list[Any]] = {}
        for span in read:
            traces.setdefault(span.trace_id, []).append(span)
        turns = [turn for trace in traces.values() for turn in dialects.read(trace, []).turns]
        turns.sort(key=lambda turn: turn.started_at)
        assert [turn.query for turn in turns] == [e.query for e in exchanges]
        assert [turn.response for turn in turns] == [e.response for e in exchanges]
        assert len({turn.conversation_id for turn in turns}) == 1
        for turn, exchange in zip(turns, exchanges, strict=True):
            assert [(d.id, d.content) for d in turn.documents] == list(exchange.documents)
            calls = [call.arguments for call in turn.tool_calls]
            assert calls == ([] if exchange.arguments is None else [exchange.arguments])
            assert [bool(c.error) for c in turn.tool_calls] == [bool(exchange.tool_error)] * len(
                calls
            )
            assert [d.name for d in turn.tool_definitions] == ["find_order"]


def test_score_is_a_filter(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rows come out scored in their order; bad ones are named by file and line, and counted."""
    (here / "rows.jsonl").write_bytes(
        b'{"query": "q", "response": "Paris", "ground_truth": "Paris"}\n\n'
        b'{"response": \n'
        b'{"messages": 3}\n'
        b"\xff\n"
        b"[1]\n"
        b'{"response": "Lyon", "ground_truth": "Paris", "id": "second"}\n'
        + b'{"a":' * 5000
        + b'\n{"response": "", "ground_truth": "x"}'
    )
    with pytest.raises(SystemExit) as caught:
        app(["score", "rows.jsonl", "--metrics", " f1_score , exact_match"])
    out, err = capfd.readouterr()
    scores = [msgspec.json.decode(line, type=TurnScores) for line in out.splitlines()]
    assert [[s.value for s in row.scores] for row in scores] == [[1, 1], [0, 0], [None, None]]
    assert [s.outcome for s in scores[2].scores] == ["skipped", "skipped"]
    assert [line.split(": ")[0] for line in err.splitlines()] == [
        "rows.jsonl:3",
        "rows.jsonl:4",
        "rows.jsonl:5",
        "rows.jsonl:6",
        "rows.jsonl:8",
        "assay",
    ]
    assert caught.value.code == 1


@pytest.mark.parametrize("metrics", ["rogue", "f1_score,,bleu_score", "F1_score", ""])
def test_score_refuses_what_is_no_metric(here: Path, metrics: str) -> None:
    """Unknown names, other cases and gaps are refused before a row is read."""
    (here / "rows.jsonl").write_text("{}\n")
    failed = run("score", "rows.jsonl", "--metrics", metrics).exception
    assert isinstance(failed, ConfigError)
    assert failed.faults[0].startswith("--metrics.")


def test_score_reads_standard_input() -> None:
    """`-` is standard input, and the metrics of the settings are the default."""
    row = b'{"query": "q", "response": "I will not do that."}\n'
    done = subprocess.run(
        [sys.executable, "-m", "assay.cli.main", "score", "-"],
        input=row,
        capture_output=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert "refusal" in [entry["metric"] for entry in json.loads(line)["scores"]]


def test_a_running_agent_is_found_by_its_folder(here: Path) -> None:
    """What it left word of is read back; nothing, or something else there, is no agent."""
    config = Config(data_dir=here)
    assert find_running(config) is None
    running = Running(pid=1, api="127.0.0.1:1", http="http://127.0.0.1:2")
    write_running(here, running)
    assert find_running(config) == running
    (here / "running.json").write_text("[]")
    assert find_running(config) is None


@pytest.mark.parametrize("body", [b"{}", b"[]", b"<html>", b'{"pid": 2}'])
def test_another_program_at_the_address_is_no_agent(here: Path, body: bytes) -> None:
    """After a kill, whoever has the address now is not taken for the agent of the folder."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        write_running(here, Running(pid=1, api=f"127.0.0.1:{server.server_port}"))
        assert answering(Config(data_dir=here)) is None
        server.shutdown()
        thread.join()


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that someone else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_doctor_finds_faults_with_their_fixes(here: Path, taken: str) -> None:
    """A taken address, an open address without a key and an open folder are found, with a fix."""
    (here / "data").mkdir(mode=0o755)
    (here / "assay.yaml").write_text(
        f"collector: {{http: '{taken}', grpc: '0.0.0.0:0'}}\ndata_dir: data\n"
        "exporters: {prometheus: {listen: '127.0.0.1:0'}}\n"
    )
    done = run("doctor", "--json")
    found = {row["check"]: row for row in map(json.loads, done.output.splitlines())}
    assert done.exit_code == 1
    assert found["collector.http"]["state"] == "fault"
    assert "set collector.http" in found["collector.http"]["fix"]
    assert (found["collector.grpc"]["state"], found["collector.grpc"]["fix"]) == (
        "warning",
        "set collector.api_keys",
    )
    assert found["data_dir"]["fix"] == "chmod 700 data"
    assert found["settings"]["state"] == "ok"
    assert all(row["fix"] for row in found.values() if row["state"] != "ok")


def test_doctor_reports_wrong_settings(here: Path) -> None:
    """Wrong settings are findings; nothing else is looked at."""
    (here / "assay.yaml").write_text("assembly: {settle: soon}\n")
    done = run("doctor", "--json")
    (row,) = map(json.loads, done.output.splitlines())
    assert (done.exit_code, row["check"], row["state"]) == (1, "settings", "fault")


def test_doctor_reads_captures(here: Path) -> None:
    """Lines of OTLP/JSON requests, packed or not; what is none is refused with file and line."""
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "2", "name": "chat"}
    line = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    (here / "capture.json").write_bytes(line + b"\n\n" + line)
    (here / "capture.json.gz").write_bytes(gzip.compress(line))
    assert [len(read_capture(here / f"capture.json{end}")[0]) for end in ("", ".gz")] == [2, 1]
    (here / "bad.json").write_bytes(line + b"\n{\n")
    for name, message in (("bad.json", "bad.json:2: "), ("none.json", "none.json: No such file")):
        with pytest.raises(Permanent, match=message):
            read_capture(Path(name))


def test_doctor_explains_how_a_capture_is_read(here: Path) -> None:
    """Each span is a row: what was taken of it, and what it is to the turn."""
    capture = gzip.decompress((CAPTURES / "otel-genai-openai.jsonl.gz").read_bytes())
    requests = [row["body"] for row in map(json.loads, capture.splitlines())]
    (here / "capture.json").write_text("\n".join(map(json.dumps, requests)))
    rows = run("doctor", "dialects", "capture.json", "--json").output.splitlines()
    assert {json.loads(row)["kind"] for row in rows} >= {"agent", "model", "retriever", "tool"}
    assert "invoke_workflow" in run("doctor", "dialects", "capture.json").output


def test_the_demo_says_what_was_not_accepted(here: Path) -> None:
    """Spans that the door refuses are no sent ones, and the command fails."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(400)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        done = run("demo", "--count", "2", "--rate", "50", "--endpoint", endpoint)
        server.shutdown()
        thread.join()
    assert isinstance(done.exception, Permanent)
    assert "spans of these were not accepted" in str(done.exception)
