"""The catalogue of metrics."""

import msgspec
import pytest

from assay.catalogue import ALIASES, HARMS, METRICS, SETS, canonical, contract, forms
from assay.catalogue_rows import ROWS
from assay.records import Turn

FIELDS = {field.name for field in msgspec.structs.fields(Turn)}


def test_names_are_unique():
    """A name or alias means one metric; `safety` is a set too, and `builtin.` tells them apart."""
    names = [row.name for row in ROWS] + [alias for row in ROWS for alias in row.aliases]
    assert len(names) == len(set(names))
    assert set(names) & set(SETS) == {"safety"}
    assert canonical("builtin.safety") == "safety"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_contracts_are_sound(row):
    """A contract names fields of the Turn, bounds its buckets by its scale, and may pass."""
    named = {part for need in (*row.needs, *row.uses) for part in need.split("|")}
    assert named <= FIELDS
    assert list(row.buckets) == sorted(row.buckets)
    assert row.labels or row.buckets
    if row.low is not None and row.high is not None:
        assert row.low <= row.buckets[0] <= row.buckets[-1] == row.high
        assert row.threshold is None or row.low <= row.threshold <= row.high
    assert all(row.low <= level <= row.high for level in row.levels)
    if row.kind != "info":
        assert row.threshold is not None


@pytest.mark.parametrize("name", SETS)
def test_sets_hold_metrics(name):
    """A set names metrics of the catalogue, each once."""
    assert set(SETS[name]) <= set(METRICS)
    assert len(SETS[name]) == len(set(SETS[name]))


def test_other_names():
    """`builtin.` and other SDKs' names mean the metric; case counts, blanks around do not."""
    assert canonical("builtin.f1_score") == "f1_score"
    assert canonical(" rouge ") == "rouge_f1_score"
    assert canonical("GroundednessEvaluator") == "groundedness"
    assert canonical("F1_SCORE") is None
    assert {canonical(alias) for alias in ALIASES} <= set(METRICS)


@pytest.mark.parametrize("name", HARMS)
def test_harms_are_asked_of_both_sides(name):
    """A harm in the response is a defect, in the query an attempt that reads only the query."""
    response, query = forms(name)
    assert (response.kind, response.subject) == ("defect", "response")
    assert (query.kind, query.subject, query.needs) == ("attempt", "query", ("query",))
    assert [response.levels[v] for v in (0, 1, 2, 3, 4, 5, 6, 7)] == [
        "very low",
        "very low",
        "low",
        "low",
        "medium",
        "medium",
        "high",
        "high",
    ]


def test_local_harms_are_probabilities():
    """The local engine's harm has the scale of a probability and no levels; a judge's has them."""
    local = contract("violence", "local", "query")
    assert (local.low, local.high, local.threshold, local.levels) == (0.0, 1.0, 0.5, {})
    assert contract("violence", "gpt-x").threshold == 3.0
    assert contract("unheard", "local") is None
    assert contract("refusal", "local", "query") is None
