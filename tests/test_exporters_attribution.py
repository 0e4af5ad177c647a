"""Which slices made a rate move."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from exporters_data import score, turn_scores
from hypothesis import given
from hypothesis import strategies as st

from assay.store import Source, Store
from exporters.alerting.explainer import Explainer
from exporters.alerting.lifecycle import State
from exporters.attribution import Count, explanation, split

weights = st.floats(0.1, 1000)


@given(
    st.lists(st.tuples(weights, st.floats(0, 1), weights, st.floats(0, 1)), min_size=1, max_size=6)
)
def test_mix_and_within_are_the_whole_move(slices: list[tuple[float, float, float, float]]) -> None:
    """The split is exact, whatever the slices do."""
    counts = []
    for i, (w0, p0, w1, p1) in enumerate(slices):
        counts += [Count(str(i), False, w0, w0 * p0, 1), Count(str(i), True, w1, w1 * p1, 1)]
    found = split("model", counts)
    assert found is not None
    assert found.mix + found.within == pytest.approx(found.after - found.before, abs=1e-9)


def test_a_change_of_mix_is_no_change_of_the_app() -> None:
    """When only the shares move, all of the move is mix."""
    counts = [
        Count("easy", False, 90, 1.8, 90), Count("hard", False, 10, 3, 10),
        Count("easy", True, 50, 1.0, 50), Count("hard", True, 50, 15, 50),
    ]  # fmt: skip
    found = split("operation", counts)
    assert found is not None
    assert found.within == pytest.approx(0)
    assert found.mix == pytest.approx(found.after - found.before)
    text = explanation([found])
    assert "100% of it by another mix of operation" in text
    assert "hard explains" in text


def test_the_dimension_that_tells_most_is_named() -> None:
    """A new version that fails explains the move; languages, all alike, do not."""
    versions = [
        Count("1.0", False, 100, 4, 100),
        Count("1.0", True, 50, 2, 50), Count("1.1", True, 50, 25, 50),
    ]  # fmt: skip
    languages = [
        Count("en", False, 50, 2, 50), Count("de", False, 50, 2, 50),
        Count("en", True, 50, 13.5, 50), Count("de", True, 50, 13.5, 50),
    ]  # fmt: skip
    found = [split("language", languages), split("version", versions)]
    text = explanation([one for one in found if one is not None])
    assert "version: 1.1 explains 100%" in text


def test_nothing_to_say_is_nothing() -> None:
    """One period alone, or no move, gives no explanation."""
    assert split("model", [Count("a", True, 1, 1, 1)]) is None
    same = split("model", [Count("a", False, 1, 0.5, 1), Count("a", True, 1, 0.5, 1)])
    assert same is not None
    assert explanation([same]) == ""


async def test_an_alert_is_explained_from_the_store(tmp_path: Path) -> None:
    """The rows of the store, before and after, name the version that fails."""
    store = Store(str(tmp_path / "store"))
    now = time.time()
    records = []
    for i in range(400):
        after = i >= 200
        bad = after and i % 2 == 0
        records.append(
            turn_scores(
                i,
                score(value=0.0 if bad else 1.0, passed=not bad),
                at=now - (60 if after else 7200),
                version="1.1" if bad else "1.0",
            )
        )
    rows = [(record, record.scores[0]) for record in records]
    await store.append("scores", [Source("t-0", range(400), rows, 400)])
    labels = {"cause": "objective", "app": "shop", "environment": "test",
              "metric": "groundedness", "engine": "local"}  # fmt: skip
    alert = State(labels, {}, None, 0, 0, "firing", since=now - 30, seen=now)
    explainer = Explainer(store.query)
    explainer.begin(alert)
    found: dict[str, Any] = {}
    async with asyncio.timeout(60):
        while not (found := alert.annotations):  # noqa: ASYNC110 - set by a task
            await asyncio.sleep(0.05)
    await explainer.stop()
    assert "version: 1.1 explains 100%" in found["explanation"]
