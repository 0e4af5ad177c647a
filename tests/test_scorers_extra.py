"""The optional engines, with tiny models made here and an endpoint of our own."""

import asyncio
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from assay.config import Config, effective
from assay.errors import ConfigError
from assay.records import Document, Turn
from scorers.extra import onnx as onnx_module
from scorers.extra.embed import EmbedOptions, relevance
from scorers.extra.moderation import ModerationOptions, content_safety, violence
from scorers.extra.nli import NliOptions, groundedness
from scorers.registry import resolve
from scorers.scoring import to_score

WORDS = ["[PAD]", "[UNK]", "[SEP]", "kettle", "warranty", "years", "lasts", "two", "snake", "five"]


def save(folder, rows, *, pooled, labels=None):
    """A model of one table, a row a word: its rows, or with `pooled` their mean."""
    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel({w: n for n, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", pair="$A [SEP] $B:1 [SEP]:1", special_tokens=[("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    table = numpy_helper.from_array(np.array(rows, np.float32), "table")
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["out" if not pooled else "all"])]
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["all", "axis"], ["out"], keepdims=0))
    inputs = ["input_ids", "attention_mask"]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "t"]) for name in inputs],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [table, numpy_helper.from_array(np.array([1]), "axis")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    names = {str(at): label for at, label in enumerate(labels or [])}
    (folder / "config.json").write_text(json.dumps({"id2label": names}))
    return folder


@pytest.fixture
def sentence_model(tmp_path):
    """Words of the shop point one way, the snake another; others and fillers nowhere."""
    rows = [[0.0, 0.0] if w[0] == "[" else [1.0, 0.0] for w in WORDS]
    rows[WORDS.index("snake")] = [0.0, 1.0]
    return save(tmp_path / "sentences", rows, pooled=False)


@pytest.fixture
def nli_model(tmp_path):
    """Entails unless the pair speaks of a snake."""
    rows = [[0.0, 2.0] for _ in WORDS]
    rows[WORDS.index("snake")] = [9.0, 2.0]
    return save(tmp_path / "nli", rows, pooled=True, labels=["CONTRADICTION", "ENTAILMENT"])


def turn(response, query="kettle warranty", *documents):
    contents = tuple(Document(content=text) for text in documents)
    return Turn(turn_id="a-0", trace_id="a", query=query, response=response, documents=contents)


def test_relevance_by_embeddings(sentence_model):
    """A response near the query passes with little confidence, one far from it surely fails."""
    score = relevance.bind(EmbedOptions(model=str(sentence_model)))
    near, far = score(turn("two years warranty")), score(turn("snake snake"))
    assert near.value > 4.5
    assert near.confidence <= 0.75
    assert near.details["cosine"] == pytest.approx(1.0)
    assert far.value < 2
    assert far.confidence > 0.8


@pytest.mark.parametrize("response", ["", "x" * 10_000, "🎵", "kettle " * 3000])
def test_relevance_of_odd_texts(sentence_model, response):
    """Empty, unknown and long texts have a value."""
    options = EmbedOptions(model=str(sentence_model), multilingual=True)
    assert 1.0 <= relevance.bind(options)(turn(response)).value <= 5.0


def test_other_languages_are_skipped_unless_the_model_reads_them(sentence_model, nli_model):
    """An English model scores no Chinese text."""
    chinese = turn("保修期为两年。", "保修期多久？", "保修期为两年。")
    for metric, kind, model in (
        (relevance, EmbedOptions, sentence_model),
        (groundedness, NliOptions, nli_model),
    ):
        assert metric.bind(kind(model=str(model)))(chinese).outcome_reason == "language"
        told = metric.bind(kind(model=str(model), multilingual=True))(chinese)
        assert told.outcome_reason != "language"


def test_groundedness_by_entailment(nli_model):
    """The worst sentence decides, with the passage that comes nearest to entailing it."""
    score = groundedness.bind(NliOptions(model=str(nli_model)))
    text = "kettle lasts five years."
    assert score(turn("warranty lasts two years.", "q", text)).value > 4
    found = score(turn("warranty lasts two years. snake lasts five years.", "q", text))
    assert found.value < 1.5
    assert found.details == {"unsupported": ["snake lasts five years."], "passages": [text]}
    assert score(turn("Why?", "q", text)).outcome == "skipped"


@pytest.mark.parametrize("engine", ["embed", "nli"])
def test_missing_extra_is_a_fault_with_its_fix(monkeypatch, engine):
    """Without the packages the start names the extra to install, and the key."""
    monkeypatch.setattr(onnx_module, "find_spec", lambda name: None)
    metric = {"embed": "relevance", "nli": "groundedness"}[engine]
    with pytest.raises(ConfigError) as raised:
        resolve(Config.model_validate({"metrics": [{metric: {"engine": engine}}]}))
    (fault,) = raised.value.faults
    assert f"pip install 'assay-monitor[{engine}]'" in fault
    assert fault.startswith(f"metrics.0.{metric}.options: ")


def test_wrong_models_are_faults(tmp_path, nli_model):
    """A folder without its files, none at all, and one without the class are told apart."""
    (tmp_path / "empty").mkdir()
    (nli_model / "config.json").write_text('{"id2label": {"0": "good"}}')
    for model, fault in (
        ("", "model is required"),
        (str(tmp_path / "empty"), "has no tokenizer.json"),
        (str(tmp_path / "none"), "is no folder"),
        (str(nli_model), "names no class entailment"),
    ):
        settings = {"groundedness": {"engine": "nli", "options": {"model": model}}}
        with pytest.raises(ConfigError, match=fault):
            resolve(Config.model_validate({"metrics": [settings]}))


class Endpoint:
    """A moderation endpoint on a free port."""

    def __init__(self):
        self.asked = []
        self.status = 200
        self.body = {}

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        self.asked.append((head, json.loads(await reader.readexactly(length))))
        body = json.dumps(self.body).encode()
        writer.write(
            f"HTTP/1.1 {self.status} x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        writer.close()


def result(flags, scores):
    one = {"flagged": True, "categories": flags, "category_scores": scores}
    return {"id": "m", "model": "m", "results": [one]}


async def test_moderation_tells_every_harm_in_one_request():
    """Flags decide the side of one half, scores the value; a text is sent once for all harms."""
    async with Endpoint() as endpoint:
        endpoint.body = result(
            {"violence": True, "hate": False}, {"violence": 0.2, "hate": 0.7, "self-harm": 0.1}
        )
        settings = {"content_safety": {"engine": "moderation"}}
        settings["content_safety"]["options"] = {"base_url": endpoint.url, "api_key": "k"}
        entries = resolve(Config.model_validate({"metrics": [settings]})).base
        one = turn("a knife")
        verdicts = await asyncio.gather(*(entry.function(one) for entry in entries))
        scores = [to_score(one, e, v, run="live") for e, v in zip(entries, verdicts, strict=True)]
        passed = {(s.metric, s.subject): s.passed for s in scores}
        assert passed["violence", "response"] is False
        assert passed["hate_unfairness", "response"] is True
        assert passed["self_harm", "response"] is True
        assert passed["content_safety", "response"] is False
        assert {s.engine for s in scores} == {"moderation"}
        assert len(endpoint.asked) == 2  # The response and the query.
        assert "authorization: bearer k" in endpoint.asked[0][0]


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "auth"), (403, "auth"), (400, "unparsable"), (200, "unparsable")]
)
async def test_moderation_that_fails_is_an_outcome(status, reason):
    """A refusal and an answer that is none are errors with a closed reason; a later try may do."""
    async with Endpoint() as endpoint:
        endpoint.status, endpoint.body = status, {"results": []}
        ask = violence.bind(ModerationOptions(base_url=endpoint.url, model=f"{status}"))
        verdict = await ask(turn("a"))
        assert (verdict.outcome, verdict.outcome_reason) == ("error", reason)
        endpoint.status, endpoint.body = 200, result({"violence": False}, {"violence": 0.9})
        assert (await ask(turn("a"))).value == pytest.approx(0.499)


def test_moderation_needs_an_address_and_hides_the_key():
    """No text goes anywhere without an address; the key is never shown."""
    with pytest.raises(ValueError, match="base_url is required"):
        content_safety.bind(ModerationOptions())
    options = {"base_url": "http://x/v1", "api_key": "private"}
    settings = {"violence": {"engine": "moderation", "options": options}}
    assert "private" not in str(effective(Config.model_validate({"metrics": [settings]})))
