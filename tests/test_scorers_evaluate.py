"""Evaluation: every form of data and mapping, bad rows with their line, targets, summaries."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_drive import StandInProcess

from assay.config import Config
from assay.errors import ConfigError, Permanent
from assay.records import Score
from scorers import evaluate as evaluating
from scorers.evaluate import Evaluation, Result
from scorers.evaluate_data import MAX_CELL, BadLine, DataRow, read_rows
from scorers.evaluate_mapping import Mapper, Missing
from scorers.evaluate_report import check_report, record, write_report
from scorers.evaluate_run import EvaluationRuns
from scorers.evaluate_summary import shortfalls, summarise
from scorers.evaluate_target import FunctionTarget, HttpTarget, ModelTarget, Sampling, Target
from scorers.judge import judge_of


@pytest.fixture(scope="module")
def standin() -> Iterator[StandInProcess]:
    process = StandInProcess()
    yield process
    process.stop()


def read(path: Path) -> tuple[list[DataRow], list[BadLine]]:
    bad: list[BadLine] = []
    return list(read_rows(path, bad.append)), bad


async def run(
    rows: list[dict[str, Any]],
    *metrics: Any,
    target: Target | None = None,
    maps: tuple[str, ...] = (),
    config: Config | None = None,
    processes: int | None = None,
) -> tuple[list[Result], list[BadLine]]:
    config = config or Config(metrics=list(metrics))
    bad: list[BadLine] = []
    judge = judge_of(config, cache=False)
    evaluation = Evaluation(
        config, judge, run_id="r", report=bad.append, mapper=Mapper(maps), target=target,
        processes=processes,
    )  # fmt: skip
    data = [DataRow(n + 1, str(row.get("id", n)), row) for n, row in enumerate(rows)]
    try:
        return [result async for result in evaluation.results(data)], bad
    finally:
        if judge is not None:
            await judge.stop()


GOOD = {"query": "Capital?", "response": "Paris it is", "ground_truth": "Paris"}


def test_bad_rows_are_named_by_line_and_the_rest_is_read(tmp_path: Path) -> None:
    """Broken JSON, a wrong encoding, a huge cell, a row that is no object: each with its line."""
    path = tmp_path / "d.jsonl"
    lines = [
        json.dumps(GOOD).encode(),
        b'{"query": "x", "response',
        b'{"query": "caf\xe9", "response": "y"}',
        json.dumps({"query": "q", "response": "y" * (2 * MAX_CELL)}).encode(),
        b"[1, 2]",
        b"",
        json.dumps(GOOD | {"id": "seven"}).encode(),
    ]
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    rows, bad = read(path)
    assert [(row.line, row.name) for row in rows] == [(1, "0"), (7, "seven")]
    assert [row.line for row in bad] == [2, 3, 4, 5]
    reasons = " | ".join(row.reason for row in bad)
    for words in ("broken JSON", "not UTF-8", "longer than 5,000,000", "not an object"):
        assert words in reasons
    assert "yyyy" not in reasons


def test_csv_cells_may_hold_lines_and_rows_their_own_faults(tmp_path: Path) -> None:
    """Quoted lines, missing cells, undecodable bytes, empty cells; lines are those of the file."""
    path = tmp_path / "d.CSV"
    path.write_bytes(
        b'\xef\xbb\xbfid,query,response\r\na,"one\r\ntwo",yes\r\nb,short\r\n'
        b"c,caf\xe9,x\r\nd,,empty query\r\n\r\ne,q,r\r\n"
    )
    rows, bad = read(path)
    assert [(row.line, row.name, dict(row.values)) for row in rows] == [
        (2, "a", {"id": "a", "query": "one\r\ntwo", "response": "yes"}),
        (6, "d", {"id": "d", "response": "empty query"}),
        (8, "e", {"id": "e", "query": "q", "response": "r"}),
    ]
    assert [row.line for row in bad] == [4, 5]
    assert "2 cells, and 3 columns" in bad[0].reason and "'query': not UTF-8" in bad[1].reason


def test_a_list_of_objects_is_a_data_set_too(tmp_path: Path) -> None:
    """A file that begins with a bracket is one JSON list; a broken one is one bad line."""
    path = tmp_path / "d.json"
    path.write_text(json.dumps([GOOD, GOOD], indent=1))
    assert [row.line for row in read(path)[0]] == [1, 2]
    path.write_text('[{"query": 1},\n oops]')
    rows, bad = read(path)
    assert rows == [] and bad[0].line == 2
    with pytest.raises(Permanent, match="No such file"):
        read(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("d.csv", b'query;response\r\nWhat, then?;"So; so"\r\n'),
        ("d.csv", b"query\tresponse\tnote, if any\nWhat, then?\tSo; so\tx\n"),
        ("d.tsv", b"query\tresponse\nWhat, then?\tSo; so\n"),
        ("d.csv", b',query,response,\n7,"What, then?",So; so,\n'),
        ("d.csv.gz", gzip.compress(b'query,response\n"What, then?",So; so\n', mtime=0)),
        ("d.jsonl.gz", gzip.compress(b'{"query": "What, then?", "response": "So; so"}\n', mtime=0)),
        ("d.json", b'{\n "query": "What, then?",\n "response": "So; so"\n}\n'),
        ("d.jsonl", b'{"query": "What, then?", "response": "So; so", "n": NaN}\r\n'),
    ],
)
def test_forms_that_other_programs_write_are_read(tmp_path: Path, name: str, data: bytes) -> None:
    """Semicolons, tabs, a column without a name, gzip, one object over lines, NaN as absent."""
    path = tmp_path / name
    path.write_bytes(data)
    ((row,), bad) = read(path)
    assert bad == [] and (row.values["query"], row.values["response"]) == ("What, then?", "So; so")
    assert row.values.get("n") is None


@pytest.mark.parametrize(
    ("name", "data", "reason", "rows"),
    [
        ("d.csv", "query,response\nq,r\n".encode("utf-16"), "UTF-16", 0),
        ("d.jsonl", json.dumps(GOOD).encode("utf-16"), "UTF-16", 0),
        ("d.csv", "qu\xe9,response\nq,r\n".encode("latin-1"), "not UTF-8", 0),
        ("d.csv", b"response,response\nq,r\n", "several columns are named 'response'", 0),
        ("d.json", b'{\n "query": oops\n}', "2: broken JSON", 0),
        (
            "d.jsonl.gz",
            gzip.compress((json.dumps(GOOD) + "\n").encode() * 999, mtime=0)[:-20],
            "packed",
            1,
        ),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    tmp_path: Path, name: str, data: bytes, reason: str, rows: int
) -> None:
    """In one line, not one for each row; what stands before a broken place is read."""
    path = tmp_path / name
    path.write_bytes(data)
    found, (bad,) = read(path)
    assert reason in f"{bad.line}: {bad.reason}" and (len(found) > 0) == rows


def test_rows_with_the_same_id_keep_names_of_their_own(tmp_path: Path) -> None:
    """So that two runs over the file pair each of them with itself."""
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(GOOD | {"id": name}) + "\n" for name in "aba"))
    assert [row.name for row in read(path)[0]] == ["a", "b", "a/2"]


@given(st.binary(max_size=300), st.sampled_from([".jsonl", ".csv", ".tsv"]))
def test_no_file_breaks_the_reader(data: bytes, ending: str) -> None:
    """Any bytes are rows or bad lines."""
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=ending) as file:
        file.write(data)
        file.flush()
        rows, bad = read(Path(file.name))
    assert all(row.line > 0 for row in [*rows, *bad])


@pytest.mark.parametrize(
    "expression",
    ["${data.q.text}", "${data$q.text}", "{{item.q.text}}", "{{ item.q.text }}", "q.text"],
)
def test_every_spelling_of_a_column_means_the_same(expression: str) -> None:
    """Columns, nested ones too, in the spellings of several tools."""
    found = Mapper([f"query={expression}"]).apply({"q": {"text": "hello"}}, {})
    assert found["query"] == "hello"


def test_outputs_templates_and_missing_columns() -> None:
    """Outputs of a target, text around references, list places, JSON text; what is not there."""
    mapper = Mapper(
        [
            "response=${run.outputs.answer}",
            "also=${target.answer}",
            "again={{sample.answer}}",
            "query=Q: {{item.q}} ({{item.n}})",
            "first=docs.0.text",
        ]
    )
    row = {"q": "why", "n": 3, "docs": '[{"text": "d"}]', "answer": "of the data"}
    found = mapper.apply(row, {"answer": "out"})
    assert (found["response"], found["also"], found["again"]) == ("out", "out", "out")
    assert (found["query"], found["first"]) == ("Q: why (3)", "d")
    with pytest.raises(Missing, match="column 'q' is missing"):
        mapper.apply({}, {"answer": "x"})
    with pytest.raises(ConfigError) as caught:
        Mapper(["=x", "query", "query=${env.SECRET}", "query="])
    assert len(caught.value.faults) == 4


async def test_rows_of_all_forms_are_scored_in_order() -> None:
    """Plain, messages with citations, a conversation, Vertex: scores in the order of the file."""
    answer = {"role": "assistant", "content": "At 9.", "context": {"citations": [{"content": "9"}]}}
    talk = [{"role": "user", "content": "Open?"}, answer]
    rows = [
        GOOD,
        {"messages": talk},
        {"conversation": {"messages": talk * 2}},
        {"instruction": "i", "context": "c", "prediction": "p q", "reference": "p q"},
        {"query": "q", "response": " "},
        {"query": "q", "response": {"content": "", "tool_calls": [{"name": "t", "arguments": {}}]}},
    ]
    found, bad = await run(rows, "fluency", "f1_score")
    assert [result.line for result in found] == [1, 2, 3, 4, 6]
    assert bad == [BadLine(5, "the response is empty")]
    by_line = {result.line: result.scores.scores for result in found}
    assert [s.value for s in by_line[4] if s.metric == "f1_score"] == [1.0]
    assert [s.subject for s in by_line[3]] == ["response", "response", "conversation"]
    assert {s.outcome for s in by_line[2] if s.metric == "f1_score"} == {"skipped"}


async def test_a_row_without_a_response_is_bad_only_where_one_is_needed() -> None:
    """Metrics on the query alone take rows that hold nothing else."""
    found, bad = await run([{"query": "q"}], "f1_score")
    assert found == [] and "no response" in bad[0].reason
    found, bad = await run([{"query": "q"}], "direct_attack_attempt")
    assert bad == [] and found[0].scores.scores[0].outcome == "scored"


async def test_many_rows_are_scored_on_all_cores_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's scores equal those of this process, in the same order."""
    rows = [GOOD | {"response": f"Paris {n}" + " it is" * (n % 5)} for n in range(40)]
    plain, _ = await run(rows, "f1_score", "fluency")
    monkeypatch.setattr(evaluating, "POOL_FROM", 10)
    pooled, _ = await run(rows, "f1_score", "fluency", processes=1)
    values = [[s.value for s in result.scores.scores] for result in plain]
    assert [[s.value for s in result.scores.scores] for result in pooled] == values


async def test_a_conversation_is_judged_as_a_whole(standin: StandInProcess) -> None:
    """Satisfaction is asked once of all turns, also where the last one has no answer yet."""
    standin.script(overrides={"score": 2})
    config = Config.model_validate(
        {
            "judge": {"base_url": standin.base_url, "model": "gpt-4o-mini"},
            "metrics": [{"customer_satisfaction": {"ratio": 0.1}}],
            "sampling": {"ratio": 0.1},
        }
    )
    said = [("user", "Open?"), ("assistant", "At 9."), ("user", "On Sunday? Useless!")]
    row = {"messages": [{"role": role, "content": text} for role, text in said]}
    found, bad = await run([row], config=config)
    assert bad == []
    (score,) = found[0].scores.scores
    assert (score.subject, score.value, score.passed) == ("conversation", 2.0, False)
    (request,) = standin.received()["requests"]
    assert all(text in request["messages"][-1]["content"] for _, text in said)


async def test_the_judge_and_local_engines_answer_side_by_side(standin: StandInProcess) -> None:
    """One plan with both: each score in the plan's order, the judge's under its model's name."""
    standin.script()
    config = Config.model_validate(
        {
            "judge": {"base_url": standin.base_url, "model": "gpt-4o-mini"},
            "metrics": [{"coherence": {"engine": "judge", "ratio": 0.1}}, "f1_score"],
        }
    )
    found, _ = await run([GOOD] * 3, config=config)
    assert [[s.engine for s in result.scores.scores] for result in found] == [
        ["gpt-4o-mini", "computed"]
    ] * 3
    assert {s.weight for result in found for s in result.scores.scores} == {1.0}


def answer(row: dict[str, Any]) -> dict[str, Any]:
    """A flow that tests evaluate."""
    if row["query"] == "break":
        raise RuntimeError("secret")
    return {"answer": f"to {row['query']}"}


async def answer_text(row: dict[str, Any]) -> str:
    return "text to " + str(row["query"])


async def test_a_function_answers_and_its_faults_are_bad_rows() -> None:
    """Outputs are mapped; plain and async; a fault costs its row alone and tells no content."""
    target = FunctionTarget("test_scorers_evaluate:answer")
    rows = [{"query": "one"}, {"query": "break"}, {"query": "two"}]
    found, bad = await run(rows, "fluency", target=target, maps=("response=${target.answer}",))
    assert [result.turn.response for result in found] == ["to one", "to two"]
    assert bad == [BadLine(2, "the target raised RuntimeError")]
    found, _ = await run(
        rows[:1], "fluency", target=FunctionTarget("test_scorers_evaluate:answer_text")
    )
    assert found[0].turn.response == "text to one"
    assert found[0].turn.ended_at >= found[0].turn.started_at > 0
    with pytest.raises(Permanent, match="cannot be imported"):
        FunctionTarget("test_scorers_evaluate:nothing")


class _App(BaseHTTPRequestHandler):
    tries = 0

    def do_POST(self) -> None:
        row = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).tries += 1
        status = 503 if row["query"] == "busy" and type(self).tries < 3 else 200
        status = 400 if row["query"] == "bad" else status
        body = json.dumps({"response": "echo " + row["query"]}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


async def test_an_endpoint_answers_and_is_tried_again_while_busy() -> None:
    """A 503 is retried, a 400 is a bad row."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _App)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    target = HttpTarget(f"http://127.0.0.1:{server.server_port}/chat")
    try:
        rows = [{"query": "busy"}, {"query": "bad"}]
        found, bad = await run(rows, "fluency", target=target)
    finally:
        await target.stop()
        await asyncio.to_thread(server.shutdown)
        server.server_close()
    assert [result.turn.response for result in found] == ["echo busy"]
    assert bad == [BadLine(2, "the target answered 400")]


async def test_a_model_is_asked_with_its_prompt_and_examples(standin: StandInProcess) -> None:
    """System prompt, examples, question and parameters go out; usage and model come back."""
    standin.script(replies=[{"content": "An answer.", "usage": None}])
    target = ModelTarget(
        "m-1",
        base_url=standin.base_url,
        api_key="k",
        system="Be brief.",
        examples=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        sampling=Sampling(temperature=0.5, max_tokens=20),
    )
    try:
        found, bad = await run([{"query": "q"}], "fluency", target=target)
    finally:
        await target.stop()
    assert bad == []
    (request,) = standin.received()["requests"]
    assert [m["content"] for m in request["messages"]] == ["Be brief.", "a", "b", "q"]
    assert (request["temperature"], request["max_tokens"]) == (0.5, 20) and "top_p" not in request
    turn = found[0].turn
    assert (turn.model, turn.usage.output_tokens) == ("m-1", 100) and turn.response


def _result(name: str, *scores: Score) -> Result:
    from assay.records import Turn, TurnScores

    turn = Turn(turn_id=name, trace_id="", query="=1+1", response="<b>x</b>")
    return Result(
        name=name,
        line=1,
        turn=turn,
        scores=TurnScores(subject_id=name, turn_id=name, trace_id="", scores=scores),
    )


def _score(value: float | None, passed: bool | None, **fields: Any) -> Score:
    return Score(metric="m", engine="local", value=value, passed=passed, **fields)


def test_the_summary_leaves_out_what_was_not_scored() -> None:
    """Means and rates are over scored rows; errors show in the bound beside the rate."""
    rows = [_result(str(n), _score(float(n), n > 1)) for n in range(8)]
    rows += [_result("e", _score(None, None, outcome="error", outcome_reason="timeout"))]
    rows += [_result("s", _score(None, None, outcome="skipped"))]
    (summary,) = summarise(rows)
    assert (summary.rows, summary.scored, summary.pass_rate) == (10, 8, 0.75)
    assert summary.mean is not None and summary.mean.value == 3.5
    assert summary.mean.upper == pytest.approx(3.5 + 2.3646 * math.sqrt(6 / 8), abs=1e-3)
    assert summary.defect_rate is not None
    assert summary.defect_rate.lower == pytest.approx(0.0715, abs=1e-3)
    assert summary.if_errors_fail == pytest.approx(3 / 9)
    assert summary.outcomes == {"scored": 8, "error": 1, "skipped": 1}
    assert summary.unscored == {"error (timeout)": 1, "skipped": 1}
    assert shortfalls([summary], {"*": 0.75}) == []
    assert len(shortfalls([summary], {"*": 0.8})) == len(shortfalls([summary], {"m": 0.8})) == 1
    assert shortfalls([summary], {"other": 0.1}) == ["other: was not scored"]


def test_a_bound_is_not_reached_when_nothing_was_scored() -> None:
    """A bound on all metrics fails where no row was good, and where no metric has a verdict."""
    unscored = summarise([_result("s", _score(None, None, outcome="skipped"))])
    assert shortfalls([], {"*": 0.1}) == shortfalls(unscored, {"*": 0.1}) != []


def test_reports_show_text_as_text(tmp_path: Path) -> None:
    """JSON, CSV and a page: markup and formulas of the data stay words."""
    runs = EvaluationRuns(tmp_path)
    made = runs.create("a <i>", "", {"k": "v"})
    results = [_result("1", _score(1.0, False, reason="<script>", threshold=3.0))]
    made.summaries = summarise(results)
    for ending in ("json", "csv", "html"):
        write_report(tmp_path / f"r.{ending}", made, results)
    page = (tmp_path / "r.html").read_text()
    assert "&lt;script&gt;" in page and "<script>" not in page and "<b>x" not in page
    assert "'=1+1" in (tmp_path / "r.csv").read_text()
    (row,) = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert row["results"][0] | {"type": ""} == record(results[0].scores.scores[0]) | {"type": ""}
    assert row["results"][0]["label"] == "fail" and row["results"][0]["threshold"] == 3.0
    with pytest.raises(ConfigError, match="allowed endings"):
        check_report(Path("r.pdf"))


def test_a_page_lists_no_more_failures_than_a_browser_shows(tmp_path: Path) -> None:
    """Beyond the bound it says how many there are, and where."""
    made = EvaluationRuns(tmp_path).create("a", "", {})
    results = [_result(str(n), _score(1.0, False)) for n in range(1007)]
    write_report(tmp_path / "r.html", made, results)
    page = (tmp_path / "r.html").read_text()
    assert page.count("<td>m (local)</td>") == 1000 and "7 more" in page


def test_runs_are_found_again(tmp_path: Path) -> None:
    """By id, by how it begins, by name (the latest); only finished ones are listed."""
    runs = EvaluationRuns(tmp_path)
    first, second = runs.create("n", "", {}), runs.create("n", "", {})
    assert runs.list() == [] and runs.find("n") is None
    runs.save(first)
    second.created_at = first.created_at + 1
    runs.save(second)
    assert runs.find("n") == second and runs.find(first.run_id) == first
    assert (tmp_path / "evaluations").is_dir()
