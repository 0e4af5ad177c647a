"""Which scorers there are, and what the settings select."""

import pickle
import sys
from types import ModuleType

import msgspec
import pytest

from assay.catalogue import METRICS, SETS
from assay.config import Config
from assay.errors import ConfigError, Permanent
from assay.records import Turn
from scorers.plan import Entry
from scorers.registry import add, registered, resolve, scorers_of
from scorers.scorer import load, scored, scorer

TURN = Turn(turn_id="t", trace_id="0" * 32, query="Hello there", response="Hello")


@pytest.fixture
def own(monkeypatch):
    """A module of a user with two scorers."""
    module = ModuleType("own_scorers")

    @scorer("tone", version="1", summary="Is it polite?", needs=("response",), threshold=0.5)
    def tone(turn):
        return scored("please" in turn.response)

    @scorer("exact_match", version="9")
    def rival(turn):
        return scored(0)

    module.tone, module.rival, module.number = tone, rival, 5
    for name in ("tone", "rival"):
        found = msgspec.structs.replace(getattr(module, name), reference=f"own_scorers:{name}")
        setattr(module, name, found)
    monkeypatch.setitem(sys.modules, "own_scorers", module)
    return module


def faults(**settings):
    with pytest.raises(ConfigError) as caught:
        resolve(Config(**settings))
    return caught.value.faults


def keys(entries):
    return [entry.key for entry in entries]


def test_every_scorer_answers_a_metric_of_the_catalogue():
    """Ours load from one list, each under its own key, found again by its reference."""
    found = registered()
    assert {key[0] for key in found} <= set(METRICS)
    assert all(load(s.reference) is s for s in found.values())


def test_two_scorers_for_one_key_are_refused(own):
    """The same metric, subject and engine cannot be answered twice."""
    found = scorers_of(["scorers.computed.similarity"])
    with pytest.raises(Permanent, match="exact_match"):
        add(found, own.rival)


def test_the_default_set():
    """Without settings the default set is scored, harms on both sides, by engines without a key."""
    plan = resolve(Config())
    assert {key[0] for key in keys(plan.base)} >= set(SETS["default"])
    assert ("violence", "query", "local") in keys(plan.base)
    assert {entry.engine for entry in plan.base} == {"computed", "local"}
    assert len(keys(plan.base)) == len(set(keys(plan.base)))


def test_settings_reach_the_entry():
    """Engine, ratio, threshold, condition and options of the settings are those of the entry."""
    plan = resolve(
        Config(
            metrics=[
                " rouge ",
                {
                    "rouge_f1_score": {
                        "ratio": 0.5,
                        "threshold": 0.7,
                        "when": "documents",
                        "options": {"rouge_type": "rougeL"},
                    }
                },
                {"groundedness": {"engine": "local"}},
            ],
            apps={"shop": {"metrics": [{"groundedness": {"threshold": 4}}, "builtin.f1_score"]}},
            prices={"m": {"input": 1, "output": 2}},
        )
    )
    rouge, groundedness = plan.base
    assert (rouge.ratio, rouge.metric.threshold, rouge.options.rouge_type) == (0.5, 0.7, "rougeL")
    assert rouge.when(TURN) is False
    assert plan.entries("elsewhere") == plan.base
    shop = {entry.metric.name: entry for entry in plan.entries("shop")}
    assert list(shop) == ["rouge_f1_score", "groundedness", "f1_score"]
    assert shop["groundedness"].metric.threshold == 4
    assert groundedness.metric.threshold == 3


def test_the_price_table_reaches_the_cost():
    """`prices` of the settings are the options of `cost_usd`."""
    (entry,) = resolve(Config(metrics=["cost_usd"], prices={"m": {"input": 1, "output": 2}})).base
    assert entry.options.prices["m"].output == 2


def test_all_faults_at_once():
    """Every fault is named with its key, what stands there and what is allowed."""
    found = faults(
        metrics=[
            "rogue",
            "F1_score",
            {"f1_score": {"threshold": 80}},
            {"f1_score": {"engine": "local"}},
            {"f1_score": {"when": "documents >"}},
            {"f1_score": {"options": {"k": 1}}},
            {"rouge_f1_score": {"options": {"rouge_typ": "rouge1"}}},
            {"rouge_f1_score": {"options": {"rouge_type": "rouge9"}}},
            "similarity",
            {"nlp": {"threshold": 1}},
            "no_such_module:scorer",
            {"protected_material": {"options": {"min_words": 3}}},
        ],
        apps={"shop": {"metrics": ["nonsense"]}},
    )
    text = "\n".join(found)
    for expected in (
        "metrics.0: no metric or set is named 'rogue'; did you mean rouge",
        "metrics.1: no metric or set is named 'F1_score'; did you mean f1_score?",
        "metrics.2.f1_score.threshold: got the number 80; allowed for f1_score: 0 to 1",
        "metrics.3.f1_score: engine 'local' does not answer f1_score; allowed: computed",
        "metrics.4.f1_score.when: ",
        "metrics.5.f1_score.options: f1_score takes no options",
        "metrics.6.rouge_f1_score.options.rouge_typ: unknown option; allowed: rouge_type, stemmer",
        "metrics.7.rouge_f1_score.options: ",
        "metrics.8: similarity by the judge needs a judge, and none is configured",
        "metrics.9.nlp: nlp is a set",
        "metrics.10: no_such_module cannot be imported: ModuleNotFoundError",
        "metrics.11.protected_material.options: ",
        "apps.shop.metrics.0: no metric or set is named 'nonsense'",
    ):
        assert expected in text
    assert len(found) == 13


def test_judge_metrics_of_a_set_are_left_out():
    """A set selects what can be answered; the same metric by name is refused without a judge."""
    names = {key[0] for key in keys(resolve(Config(metrics=["qa"])).base)}
    assert names == set(SETS["qa"]) - {"similarity"}
    assert "similarity" in faults(metrics=["similarity"])[0]


def test_own_scorers(own):
    """`module:name` selects a user's scorer, with its own contract; a rival of ours is refused."""
    plan = resolve(Config(metrics=["own_scorers:tone", {"own_scorers:tone": {"threshold": 1}}]))
    (entry,) = plan.base
    assert (entry.metric.name, entry.metric.threshold, entry.engine) == ("tone", 1, "computed")
    assert "already answers exact_match" in faults(metrics=["own_scorers:rival"])[0]
    assert "no scorer named number" in faults(metrics=["own_scorers:number"])[0]


def test_a_plan_travels_to_another_process(own):
    """A plan pickles by reference and scores the same."""
    plan = resolve(
        Config(metrics=["default", "own_scorers:tone", {"f1_score": {"when": "not documents"}}])
    )
    copy = pickle.loads(pickle.dumps(plan))
    assert keys(copy.base) == keys(plan.base)
    assert copy.base[-1].when(TURN) is True
    assert copy.part(lambda entry: entry.engine == "local").base[0].engine == "local"


def test_async_scorers_wait():
    """An async function is known as one that waits."""

    @scorer("slow", version="1")
    async def slow(turn):
        return scored(1)

    assert Entry(slow, slow.metric).waits
