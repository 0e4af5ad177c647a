"""Importers: every form of file gives the turns that the door would have given; exports of other
tools give the same turns as their traces; what is broken is named and left out."""

from __future__ import annotations

import base64
import copy
import datetime
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard
from deltalake import QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

from assay.config import Config
from assay.errors import Permanent
from assay.records import Turn
from collector import decode, otlp_json
from collector.dialects import read
from collector.importers import Importer, Problem
from collector.importers.files import documents
from collector.spans import Span

CAPTURES = Path(__file__).parent / "data" / "captures"


def bodies(name: str, *scenarios: str) -> list[dict[str, Any]]:
    lines = gzip.decompress((CAPTURES / f"{name}.jsonl.gz").read_bytes()).splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        row["body"]
        for row in rows
        if row["signal"] == "traces" and (not scenarios or row["scenario"] in scenarios)
    ]


def turns_of(
    folder: Path, *files: Path, config: Config | None = None
) -> tuple[list[Turn], Importer, list[Problem]]:
    problems: list[Problem] = []
    with Importer(config or Config(), folder / "spool", problems.append) as importer:
        importer.take_in(list(files))
        found = sorted(importer.turns(), key=lambda turn: turn.turn_id)
    assert not (folder / "spool").exists()
    return found, importer, problems


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def live_turns(requests: list[dict[str, Any]]) -> list[Turn]:
    """The turns as the dialects read them."""
    spans = spans_of(requests)
    by_trace: dict[str, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    found = [turn for own in by_trace.values() for turn in read(own).turns]
    return sorted(found, key=lambda turn: turn.turn_id)


def spans_of(requests: list[dict[str, Any]]) -> list[Span]:
    parsed = [otlp_json.parse_traces(json.dumps(body).encode()) for body in requests]
    return [span for request in parsed for span in decode.spans(request)]


def essence(turns: list[Turn]) -> list[tuple[Any, ...]]:
    return [
        (
            turn.trace_id,
            turn.query,
            turn.response,
            [document.content for document in turn.documents],
            [call.name for call in turn.tool_calls],
            turn.model,
            turn.usage.output_tokens,
            turn.started_at // 1000,
            turn.ended_at // 1000,
            turn.conversation_id,
        )
        for turn in turns
    ]


FORMS = ("lines", "list", "pretty", "protobuf", "lengths", "lengths zstd", "gzip", "zstd", "folder")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_file_gives_the_same_turns(form: str, tmp_path: Path) -> None:
    """JSON, JSON lines, lists, protobuf, requests after their length, packed or not, folders."""
    requests = bodies("openinference-openai", "rag", "chat", "split_rag")
    lines = b"\n".join(json.dumps(body).encode() for body in requests) + b"\n"
    merged = {"resourceSpans": [g for body in requests for g in body["resourceSpans"]]}
    packed = [
        otlp_json.parse_traces(json.dumps(body).encode()).SerializeToString() for body in requests
    ]
    zstd = zstandard.ZstdCompressor().compress
    data = {
        "lines": lines,
        "list": json.dumps(requests).encode(),
        "pretty": b"\xef\xbb\xbf" + json.dumps(merged, indent=2).encode(),
        "protobuf": otlp_json.parse_traces(json.dumps(merged).encode()).SerializeToString(),
        "lengths": b"".join(len(p).to_bytes(4, "big") + p for p in packed),
        "lengths zstd": b"".join(len(p).to_bytes(4, "big") + p for p in map(zstd, packed)),
        "gzip": gzip.compress(lines),
        "zstd": zstd(lines),
    }
    if form == "folder":
        (tmp_path / "in").mkdir()
        for number, body in enumerate(requests):
            written(tmp_path / "in", f"{number}.json", json.dumps(body).encode())
        path = tmp_path / "in"
    else:
        path = written(tmp_path, "file", data[form])
    found, importer, problems = turns_of(tmp_path, path)
    assert problems == [] and not importer.dropped
    assert essence(found) == essence(live_turns(requests)) and len(found) >= 2
    assert all(turn.inclusion_probability == 1.0 for turn in found)


def test_logs_in_the_same_files_join_their_spans(tmp_path: Path) -> None:
    """Content on log records is read as at the door."""
    rows = gzip.decompress((CAPTURES / "otel-openai-v2.jsonl.gz").read_bytes()).splitlines()
    lines = [json.dumps(json.loads(row)["body"]).encode() for row in rows]
    found, _, problems = turns_of(tmp_path, written(tmp_path, "x", b"\n".join(lines)))
    assert problems == [] and any(turn.query and turn.response for turn in found)


def test_what_is_broken_is_named_and_left_out(tmp_path: Path) -> None:
    """Broken JSON, strangers and bad ids cost themselves alone, and are named by line."""
    (good,) = bodies("openinference-openai", "chat")
    bad_id = json.loads(json.dumps(good).replace(spans_of([good])[0].trace_id, "00" * 16))
    lines = [json.dumps(good), '{"resourceSpans": [', '{"a": 1}', json.dumps(bad_id)]
    path = written(tmp_path, "x.jsonl", "\n".join(lines).encode())
    found, importer, problems = turns_of(tmp_path, path)
    assert len(found) == 1
    assert [(problem.line, problem.file) for problem in problems] == [
        (2, str(path)),
        (3, str(path)),
    ]
    assert importer.dropped["unreadable"] == 1 and importer.dropped["invalid_trace_id"] > 0
    with pytest.raises(Permanent, match="no such file"):
        turns_of(tmp_path, tmp_path / "none")


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_of_a_packed_file_that_is_cut_the_beginning_is_read(pack: Any, tmp_path: Path) -> None:
    """The lines before the cut give their turns, and the place of the cut is named."""
    lines = [json.dumps(body) for body in bodies("openinference-openai", "chat", "rag", "tool")]
    filler = [json.dumps({"resourceMetrics": [], "n": random.random()}) for _ in range(40_000)]
    packed = pack("\n".join([*lines, *filler]).encode())
    path = written(tmp_path, "cut", packed[: len(packed) // 2])
    found, _, (problem,) = turns_of(tmp_path, path)
    assert len(found) >= 3
    assert problem.line > len(lines) and "packed is broken" in problem.reason


@pytest.mark.parametrize("end", [b"", b"\xff\xff\xff\xffPAR1", b"PAR1", b"\x04\0\0\0PAR2"])
def test_what_only_begins_as_parquet_is_refused(end: bytes, tmp_path: Path) -> None:
    """By name, whatever its end claims."""
    with pytest.raises(Permanent, match="no whole parquet file"):
        turns_of(tmp_path, written(tmp_path, "x.parquet", b"PAR1xxxx" + end))


SPAN = {
    "trace_id": "ab" * 16, "span_id": "cd" * 8, "parent_span_id": None, "name": "chat",
    "start_time_unix_nano": 10**18, "end_time_unix_nano": 10**18 + 5,
    "status": {"code": "OK", "message": ""}, "attributes": {"mlflow.spanInputs": '{"q": "a"}'},
    "events": [{"name": "exception", "attributes": {"a": "b"}}],
}  # fmt: skip
EXPORTS: dict[str, dict[str, Any]] = {
    "phoenix": {
        "name": "chat", "span_kind": "LLM", "parent_id": None, "status_code": "OK",
        "context": {"trace_id": "ab" * 16, "span_id": "cd" * 8},
        "start_time": "2026-01-02T03:04:05Z", "end_time": "2026-01-02T03:04:06Z",
        "attributes": {"input": {"value": "q"}, "llm": {"input_messages": [{"message": {}}]}},
        "events": [{"name": "exception", "timestamp": "2026-01-02T03:04:05Z", "attributes": {}}],
    },
    "mlflow": {
        "info": {"trace_id": "tr-" + "ab" * 16, "trace_metadata": {"a": "b"}, "tags": {"a": "b"}},
        "data": {"spans": [SPAN]},
    },
    "langfuse": {
        "id": "t", "name": "n", "timestamp": "2026-01-02T03:04:05Z", "sessionId": "s",
        "input": {"q": "a"}, "output": ["b"], "tags": ["x"], "metadata": {"k": 1},
        "observations": [
            {"id": "o", "traceId": "t", "type": "GENERATION", "startTime": "2026-01-02T03:04:05Z",
             "endTime": None, "model": "m", "usageDetails": {"input": 1}, "input": "q"},
        ],
        "scores": [{"name": "thumb", "value": 1}],
    },
    "otlp": {
        "resourceSpans": [
            {"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]},
             "scopeSpans": [{"scope": {"name": "n"}, "spans": [
                 {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "chat", "kind": 3,
                  "startTimeUnixNano": "1000", "endTimeUnixNano": 2000, "status": {"code": 1},
                  "attributes": [{"key": "a", "value": {"arrayValue": {"values": []}}}]}]}]},
        ],
    },
}  # fmt: skip
ODD = (None, True, 3, -1e308, 10**40, "", "x", "\ud800", [], [[]], ["x"], {}, {"a": 1}, [None])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in `value` with each of its keys."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
    inner = [found for _, one in pairs if isinstance(one, dict | list) for found in places(one)]
    return [(value, key) for key, _ in pairs] + inner


@given(st.sampled_from(sorted(EXPORTS)), st.data())
def test_an_export_that_is_formed_otherwise_costs_itself_alone(name: str, data: Any) -> None:
    """Whatever stands wherever: the document is read or named, and the one behind it is read."""
    import tempfile

    odd = copy.deepcopy(EXPORTS[name])
    for _ in range(data.draw(st.integers(1, 2))):
        spots = places(odd)
        if spots:
            container, key = data.draw(st.sampled_from(spots))
            container[key] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    (good,) = bodies("openinference-openai", "chat")
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps(odd), json.dumps(good)]
        path = written(Path(folder), "x.jsonl", "\n".join(lines).encode())
        found, _, problems = turns_of(Path(folder), path)
    assert "openinference" in {turn.dialect for turn in found}
    assert {problem.line for problem in problems} <= {0, 1}


def test_imported_turns_are_redacted_as_live_ones(tmp_path: Path) -> None:
    """What the settings hide is hidden here too."""
    (good,) = bodies("openinference-openai", "chat")
    text = json.dumps(good).replace("Aurora", "anna@example.com Aurora")
    config = Config.model_validate({"data_dir": tmp_path, "collector": {"redact": ["email"]}})
    found, _, _ = turns_of(tmp_path, written(tmp_path, "x", text.encode()), config=config)
    assert "anna@" not in str(found) and "<EMAIL_" in str(found[0].query)


def iso(nanoseconds: int) -> str:
    when = datetime.datetime.fromtimestamp(nanoseconds // 1000 / 1e6, datetime.UTC)
    return when.isoformat().replace("+00:00", "Z")


def nested(attributes: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested objects and lists, as Phoenix exports them."""
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        node = found
        *path, last = key.split(".")
        for name in path:
            node = node.setdefault(name, {})
        node[last] = value
    return {key: listed(value) for key, value in found.items()}


def listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() for key in value):
        return [listed(value[key]) for key in sorted(value, key=int)]
    return {key: listed(inner) for key, inner in value.items()}


def phoenix(span: Span, *, flat: bool) -> dict[str, Any]:
    kind = span.attributes.get("openinference.span.kind")
    rest = {k: v for k, v in span.attributes.items() if k != "openinference.span.kind"}
    return {
        "name": span.name,
        "span_kind": kind,
        "context": {"trace_id": span.trace_id, "span_id": span.span_id},
        "parent_id": span.parent_id or None,
        "start_time": iso(span.start),
        "end_time": iso(span.end),
        "status_code": "ERROR" if span.failed else "OK",
        "status_message": span.status_message,
        "attributes": rest if flat else nested(rest),
        "events": [],
    }


@pytest.mark.parametrize("flat", [True, False])
def test_spans_of_phoenix_give_the_turns_of_their_traces(flat: bool, tmp_path: Path) -> None:
    """Flat or nested attributes, ISO times."""
    requests = bodies("openinference-openai", "rag", "chat", "tool")
    rows = [phoenix(span, flat=flat) for span in spans_of(requests)]
    path = written(tmp_path, "x.json", json.dumps(rows).encode())
    found, _, problems = turns_of(tmp_path, path)
    assert problems == []
    assert essence(found) == essence(live_turns(requests))


def test_parquet_of_phoenix_is_read(tmp_path: Path) -> None:
    """The table that Phoenix saves: a column per attribute, empty where a span has none."""
    requests = bodies("openinference-openai", "chat")
    (span,) = spans_of(requests)
    row = {
        "name": span.name,
        "span_kind": "LLM",
        "context.trace_id": span.trace_id,
        "context.span_id": span.span_id,
        "start_time": iso(span.start),
        "end_time": iso(span.end),
        "status_code": "OK",
        **{f"attributes.{k}": str(v) for k, v in span.attributes.items() if "token" not in k},
        "attributes.llm.token_count.completion": 27,
    }
    select = ", ".join(
        (str(v) if isinstance(v, int) else "'" + v.replace("'", "''") + "'") + f' AS "{k}"'
        for k, v in row.items()
    )
    path = tmp_path / "spans.parquet"
    sql = f"COPY (SELECT {select}, NULL AS parent_id) TO '{path}' STORED AS PARQUET"
    QueryBuilder().execute(sql).read_all()
    found, _, problems = turns_of(tmp_path, path)
    assert problems == [] and essence(found)[0][1:3] == essence(live_turns(requests))[0][1:3]


def test_traces_of_mlflow_give_the_turns_of_their_spans(tmp_path: Path) -> None:
    """MLflow's own trace documents, ids in base64."""
    requests = bodies("mlflow", "rag", "chat", "tool")
    by_trace: dict[str, list[Span]] = {}
    for span in spans_of(requests):
        by_trace.setdefault(span.trace_id, []).append(span)

    def packed(text: str) -> str:
        return base64.b64encode(bytes.fromhex(text)).decode()

    lines = [
        json.dumps(
            {
                "info": {"trace_id": f"tr-{trace_id}", "trace_metadata": {}, "tags": {}},
                "data": {
                    "spans": [
                        {
                            "trace_id": packed(trace_id),
                            "span_id": packed(span.span_id),
                            "parent_span_id": packed(span.parent_id) if span.parent_id else None,
                            "name": span.name,
                            "start_time_unix_nano": span.start,
                            "end_time_unix_nano": span.end,
                            "status": {"code": "STATUS_CODE_OK"},
                            "attributes": span.attributes,
                        }
                        for span in spans
                    ]
                },
            }
        )
        for trace_id, spans in by_trace.items()
    ]
    path = written(tmp_path, "x.jsonl", "\n".join(lines).encode())
    found, _, problems = turns_of(tmp_path, path)
    assert problems == []
    assert essence(found) == essence(live_turns(requests))


def test_traces_of_langfuse_give_the_turns_of_their_observations(tmp_path: Path) -> None:
    """The REST form, one trace or a page of them; sessions and models are kept."""
    requests = bodies("langfuse", "rag", "chat")
    by_trace: dict[str, list[Span]] = {}
    for span in spans_of(requests):
        by_trace.setdefault(span.trace_id, []).append(span)

    def observation(span: Span) -> dict[str, Any]:
        attributes = span.attributes
        usage = json.loads(attributes.get("langfuse.observation.usage_details", "{}"))

        def content(name: str) -> Any:
            value = attributes.get(f"langfuse.observation.{name}")
            try:
                return json.loads(value)
            except (TypeError, ValueError):
                return value

        return {
            "id": span.span_id,
            "traceId": span.trace_id,
            "type": str(attributes.get("langfuse.observation.type", "span")).upper(),
            "name": span.name,
            "startTime": iso(span.start),
            "endTime": iso(span.end),
            "parentObservationId": span.parent_id or None,
            "model": attributes.get("langfuse.observation.model.name"),
            "input": content("input"),
            "output": content("output"),
            "usageDetails": {
                "input": usage.get("prompt_tokens"),
                "output": usage.get("completion_tokens"),
            },
            "level": "DEFAULT",
        }

    traces = [
        {
            "id": trace_id,
            "name": "helpdesk",
            "timestamp": iso(min(span.start for span in spans)),
            "sessionId": "s-1",
            "input": None,
            "output": None,
            "observations": [observation(span) for span in spans],
        }
        for trace_id, spans in by_trace.items()
    ]
    page = written(tmp_path, "x.json", json.dumps({"data": traces, "meta": {"page": 1}}).encode())
    found, _, problems = turns_of(tmp_path, page)
    assert problems == []
    assert [row[1:7] for row in essence(found)] == [
        row[1:7] for row in essence(live_turns(requests))
    ]
    assert {turn.conversation_id for turn in found} == {"s-1"}
    assert {turn.app for turn in found} == {"helpdesk"}


def test_a_trace_of_langfuse_with_several_roots_is_one_turn(tmp_path: Path) -> None:
    """Input and output of the trace stand above observations that have no parent."""
    made = {
        "id": "my-trace",
        "name": "bot",
        "timestamp": "2026-01-02T03:04:05.678Z",
        "input": "How long is the warranty?",
        "output": "Two years.",
        "observations": [
            {"id": f"o{n}", "traceId": "my-trace", "type": "SPAN", "name": f"step {n}",
             "startTime": f"2026-01-02T03:04:0{n}.000Z", "endTime": None}
            for n in (6, 7)
        ],
    }  # fmt: skip
    path = written(tmp_path, "x.json", json.dumps(made).encode())
    found, _, problems = turns_of(tmp_path, path)
    assert problems == [] and len(found) == 1
    assert (found[0].query, found[0].response) == ("How long is the warranty?", "Two years.")


@given(st.binary(max_size=400))
def test_no_file_breaks_the_reader(data: bytes) -> None:
    """Any bytes give documents, problems, or one refusal."""
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        problems: list[Problem] = []
        try:
            for _ in documents(Path(file.name), problems.append):
                pass
        except Permanent:
            pass
