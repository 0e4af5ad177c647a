"""Labels and calibration: what people say is stored once, agreement is measured as defined, and the
corrected rate covers the truth."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from exporters_data import SECOND, turn_scores
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from assay.calibration import (
    Confusion,
    Pair,
    calibrate,
    calibrations,
    corrected,
    kappa,
    rogan_gladen,
    spearman,
)
from assay.label_api import add_label_api
from assay.labels import add_labels, label_of
from assay.records import Score
from assay.store import Source, Store
from exporters.corrected import CorrectedRates


@pytest.mark.parametrize(
    ("row", "value", "passed"),
    [
        ({"value": 4}, 4.0, True),
        ({"value": "2"}, 2.0, False),
        ({"value": "fail"}, None, False),
        ({"value": True}, None, True),
        ({"value": 5, "passed": "no"}, 5.0, False),
        ({"passed": "PASS"}, None, True),
        ({"metric": "violence", "value": 5}, 5.0, False),
        ({"metric": "summarization_verbosity", "value": -2}, -2.0, False),
        ({"metric": "repeated_tool_call", "value": 1}, 1.0, False),
        ({"metric": "own", "value": 3}, 3.0, None),
    ],
)
def test_a_label_is_a_value_or_a_verdict(
    row: dict[str, Any], value: float | None, passed: bool | None
) -> None:
    """Words and numbers; the metric's threshold and direction make a verdict of a number."""
    label = label_of({"turn_id": "t", "metric": "groundedness"} | row)
    assert (label.value, label.passed) == (value, passed)


def test_what_is_no_label_is_said() -> None:
    """What is missing or wrong is named; aliases of a metric are the metric."""
    for row, words in (
        ({"metric": "groundedness", "value": 1}, "turn_id"),
        ({"turn_id": "t", "metric": "groundedness"}, "value or passed"),
        ({"turn_id": "t", "metric": "m", "passed": "perhaps"}, "pass or fail"),
        ({"turn_id": "t", "metric": "m", "value": 1, "labelled_at": "noon"}, "ISO 8601"),
    ):
        with pytest.raises(ValueError, match=words):
            label_of(row)
    row = {"turn_id": "t", "metric": "GroundednessEvaluator", "value": 1}
    assert (
        label_of(row | {"labelled_at": "2026-01-01T00:00:00Z"}).labelled_at == 1767225600 * SECOND
    )
    assert label_of(row).metric == "groundedness"


@given(st.dictionaries(st.sampled_from(["turn_id", "metric", "value", "passed"]), st.text()))
def test_any_row_is_a_label_or_refused(row: dict[str, Any]) -> None:
    """No text breaks the reader."""
    with contextlib.suppress(ValueError):
        assert label_of(row).turn_id


async def test_labels_are_stored_once(tmp_path: Path) -> None:
    """The same label again adds nothing; another person's does."""
    store = Store(str(tmp_path / "store"))
    labels = [label_of({"turn_id": "t", "metric": "fluency", "value": n}) for n in (1, 2, 2)]
    assert await add_labels(store, labels) == 2
    assert await add_labels(store, labels) == 0
    other = label_of({"turn_id": "t", "metric": "fluency", "value": 1, "who": "eve"})
    assert await add_labels(store, [other]) == 1
    assert len(await store.query("SELECT * FROM labels")) == 3


async def test_labels_that_come_at_once_are_all_kept(tmp_path: Path) -> None:
    """Writers that meet, also of several processes, lose nothing of each other's."""
    stores = [Store(str(tmp_path / "store")) for _ in range(2)]
    assert await stores[0].query("SELECT * FROM labels") == []
    batches = [
        [label_of({"turn_id": f"{k}-{n}", "metric": "fluency", "value": 1}) for n in range(5)]
        for k in range(4)
    ]
    await asyncio.gather(*(add_labels(stores[k % 2], own) for k, own in enumerate(batches)))
    assert len(await stores[0].query("SELECT DISTINCT label_id FROM labels")) == 20


async def test_labels_come_over_the_api(tmp_path: Path) -> None:
    """One or many; a bad one refuses the request with its place; without a store there is none."""
    store = Store(str(tmp_path / "store"))
    good = {"turn_id": "t", "metric": "fluency", "value": 1}
    for kept, posts in (
        (store, [(good, 200), ([good, good], 200), ([good, {}], 400), ("x", 400)]),
        (None, [(good, 404)]),
    ):
        app = FastAPI()
        add_label_api(app, kept, None)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for body, status in posts:
                answer = await client.post("/v1/labels", json=body)
                assert answer.status_code == status, answer.text
                if status == 400:
                    assert "label " in answer.text
    assert len(await store.query("SELECT * FROM labels")) == 1


async def _labelled(store: Store, n: int, share_wrong: float) -> None:
    """`n` scored turns of today, every tenth a defect; the scorer is wrong on some; labels on the
    first half."""
    rng = random.Random(2)
    rows, labels = [], []
    for index in range(n):
        defect = index % 10 == 0
        fails = defect != (rng.random() < share_wrong)
        score = Score(
            metric="groundedness", engine="local", value=1.0 if fails else 5.0, passed=not fails
        )
        scores = turn_scores(index, score, at=time.time() - 60)
        rows.append((scores, score))
        if index < n // 2:
            labels.append(
                label_of({"turn_id": scores.turn_id, "metric": "groundedness",
                          "value": 1 if defect else 5})
            )  # fmt: skip
    await store.append("scores", [Source("s", range(n), rows, n)])
    await add_labels(store, labels)


async def test_a_scorer_is_calibrated_from_the_store(tmp_path: Path) -> None:
    """Labels meet the live scores of their turns; the correction undoes the scorer's errors."""
    store = Store(str(tmp_path / "store"))
    await _labelled(store, 1000, 0.1)
    (found,) = await calibrations(store, metric="groundedness", app="shop")
    assert (found.scored, found.confusion.n, found.engine) == (1000, 500, "local")
    assert found.observed is not None and found.observed.value > 0.15
    assert found.corrected is not None and found.corrected.lower < 0.1 < found.corrected.upper
    assert found.spearman == pytest.approx(found.kappa, abs=0.1)
    assert await calibrations(store, app="other") == []
    assert await calibrations(store, since=int(time.time() * SECOND)) == []


async def test_the_corrected_rate_is_exposed_while_labels_are_fresh(tmp_path: Path) -> None:
    """A gauge per app, metric and engine; gone when no fresh label is left."""
    store = Store(str(tmp_path / "store"))
    registry = CollectorRegistry()
    rates = CorrectedRates(store, registry)
    await rates.refresh()
    names = {"app": "shop", "metric": "groundedness", "engine": "local"}
    assert registry.get_sample_value("assay_defect_rate_corrected", names) is None
    await _labelled(store, 400, 0.05)
    await rates.start()
    await rates.stop()
    await rates.stop()
    await rates.refresh()
    value = registry.get_sample_value("assay_defect_rate_corrected", names)
    lower = registry.get_sample_value("assay_defect_rate_corrected_lower", names)
    assert value is not None and lower is not None and lower < value < 0.2
    assert registry.get_sample_value("assay_labelled_turns", names) == 200


def test_agreement_is_measured_as_defined() -> None:
    """Cohen's own example; ranks with ties; what cannot be measured is none."""
    found = Confusion(both_fail=20, scorer_fails=5, people_fail=10, both_pass=15)
    assert kappa(found) == pytest.approx(0.4)
    assert kappa(Confusion()) is None and kappa(Confusion(both_pass=5)) is None
    assert spearman([(1, 1), (2, 2), (2, 3), (4, 4)]) == pytest.approx(0.9486833)
    assert spearman([(1, 1), (1, 2), (1, 3)]) is None and spearman([(1, 1)]) is None
    pairs = [Pair(True, True)] * 3 + [Pair(True, False)] + [Pair(False, False)] * 6
    row = calibrate("m", "e", pairs, scored=10, weight=10.0, squares=10.0, failed=4.0)
    assert (row.precision, row.recall, row.specificity) == (0.75, 1.0, 6 / 7)
    assert row.accuracy == 0.9 and row.observed is not None and row.observed.value == 0.4


def test_what_the_labels_do_not_say_is_not_corrected() -> None:
    """A verdict without labels, or a scorer no better than chance, gives no estimate."""
    assert corrected(Confusion(both_fail=5), 0.2, 100) is None
    assert corrected(Confusion(both_pass=5), 0.0, 100) is not None
    assert rogan_gladen(Confusion(both_fail=1, people_fail=9, scorer_fails=9), 0.2, 100) is None
    assert rogan_gladen(Confusion(both_fail=5), 0.2, 100) is None


@pytest.mark.parametrize("prevalence", [0.05, 0.1, 0.25])
def test_the_corrected_interval_covers_the_truth(prevalence: float) -> None:
    """With 20 labelled defects expected, 93 to 97.5 % over scorers between 0.6 and 0.95, also where
    failures are labelled twice as often; the plain rate is off by far more than its interval."""
    rng = random.Random(9)
    size, n = 5000, int(20 / prevalence)
    held: dict[str, list[bool]] = {"fair": [], "failures first": [], "plain": []}
    for _ in range(2500):
        sensitivity, specificity = rng.uniform(0.6, 0.95), rng.uniform(0.6, 0.95)
        failing = prevalence * sensitivity + (1 - prevalence) * (1 - specificity)
        share = sum(rng.random() < failing for _ in range(200)) / 200
        share = failing + (share - failing) * (200 / size) ** 0.5
        for name, favour in (("fair", 1.0), ("failures first", 2.0)):
            odds = failing * favour / (failing * favour + 1 - failing)
            failed = sum(rng.random() < odds for _ in range(n))
            right = prevalence * sensitivity / failing
            missed = prevalence * (1 - sensitivity) / (1 - failing)
            both = sum(rng.random() < right for _ in range(failed))
            people = sum(rng.random() < missed for _ in range(n - failed))
            limits = corrected(
                Confusion(
                    both_fail=both,
                    scorer_fails=failed - both,
                    people_fail=people,
                    both_pass=n - failed - people,
                ),
                share,
                size,
            )
            assert limits is not None
            held[name].append(limits.lower <= prevalence <= limits.upper)
        held["plain"].append(abs(share - prevalence) < 2 * (share * (1 - share) / size) ** 0.5)
    coverage = {name: sum(rows) / len(rows) for name, rows in held.items()}
    assert 0.93 <= coverage["fair"] <= 0.975
    assert 0.93 <= coverage["failures first"] <= 0.975
    assert coverage["plain"] < 0.5
