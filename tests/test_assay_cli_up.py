"""The wiring of `assay up`, inside this process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from assay import series
from assay.cli.source import RUNNING, find_running
from assay.cli.status import collect, ledger, rates, total
from assay.cli.up import configured_by, contract_of, run
from assay.cli.wiring import check_plan
from assay.config import Config, load
from assay.errors import ConfigError, Permanent
from scorers.registry import resolve


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "assay.yaml"
    path.write_text(
        f"data_dir: {tmp_path / 'data'}\n"
        "collector: {http: '127.0.0.1:0', grpc: '127.0.0.1:0'}\n"
        "exporters: {prometheus: {listen: '127.0.0.1:0'}}\n"
        "metrics: [latency_seconds]\n"
    )
    return load(path, {})


async def test_it_runs_says_where_and_runs_again(config: Config) -> None:
    """Every stage is healthy; the folder tells where it listens while it runs; it can restart."""
    for _ in range(2):
        async with run(config) as running:
            assert find_running(config) == running
            async with httpx.AsyncClient(base_url=f"http://{running.api}") as client:
                health = (await client.get("/health")).json()
                status = (await client.get("/api/status")).json()
                page = (await client.get("/metrics")).text
        assert health["ok"] and status["healthy"]
        assert set(health["stages"]) >= {"windows", "combiner", "store", "local", "assembler"}
        assert status["http"] == running.http
        assert 'assay_bus_bytes{kind="used"}' in page
        assert not (config.data_dir / RUNNING).exists()


async def test_a_second_one_on_the_same_folder_is_refused(config: Config) -> None:
    """One process owns the folder; the refusal names it, and the first goes on."""
    async with run(config) as running:
        with pytest.raises(Permanent, match="is in use by process"):
            async with run(config):
                pass
        assert find_running(config) == running


async def test_a_failed_start_leaves_nothing_behind(config: Config) -> None:
    """When the last door cannot open, what had started is stopped, and a right start works."""
    async with run(config) as running:
        door = config.collector.model_copy(update={"http": running.http.removeprefix("http://")})  # type: ignore[union-attr]
        other = config.model_copy(
            update={"collector": door, "data_dir": config.data_dir.with_name("other")}
        )
        before = len(asyncio.all_tasks())
        with pytest.raises(Permanent, match=r"collector\.http: cannot listen"):
            async with run(other):
                pass
        assert len(asyncio.all_tasks()) == before
    async with run(other):
        pass


async def test_with_a_judge_its_group_runs_beside_the_local_one(config: Config) -> None:
    """Judge metrics are asked under their model's name; without the block they are refused."""
    judge = {"base_url": "http://127.0.0.1:9/v1", "model": "m-1"}
    metrics = [{"groundedness": {"engine": "judge", "threshold": 4}}, "latency_seconds"]
    judged = Config.model_validate(config.model_dump() | {"judge": judge, "metrics": metrics})
    async with run(judged) as running, httpx.AsyncClient() as client:
        health = (await client.get(f"http://{running.api}/health")).json()
    assert health["ok"] and {"judge", "local"} <= set(health["stages"])
    with pytest.raises(ConfigError, match="needs a judge"):
        check_plan(judged.model_copy(update={"judge": None}))
    check_plan(judged)


async def test_wrong_metrics_stop_the_start(config: Config) -> None:
    """A plan that cannot be made is refused before anything is touched."""
    wrong = config.model_copy(update={"metrics": ["rogue"]})
    with pytest.raises(ConfigError, match="rogue"):
        async with run(wrong):
            pass
    assert not config.data_dir.exists()


def test_each_app_is_asked_what_its_settings_say(config: Config) -> None:
    """Apps that the settings do not name are asked the base; thresholds are the settings' own."""
    own = Config.model_validate(
        {
            "metrics": [{"f1_score": {"threshold": 0.9}}],
            "apps": {"shop": {"metrics": ["exact_match"]}},
        }
    )
    plan = resolve(own)
    configured = configured_by([plan])
    assert [c.metric for c in configured("any")] == ["f1_score"]
    assert [c.metric for c in configured("shop")] == ["f1_score", "exact_match"]
    metric = contract_of([plan])("f1_score", "computed", "response")
    assert metric is not None
    assert metric.threshold == 0.9
    assert contract_of([plan])("gleu_score", "computed", "response") is not None
    assert contract_of([plan])("nothing", "computed", "response") is None


def test_the_ledger_shows_what_is_missing() -> None:
    """Outcomes add up to the eligible turns of the app, or the difference is shown."""
    registry = CollectorRegistry()
    turns = series.instrument(registry, series.TURNS)
    turns.labels("shop", "", "kept").inc(8)
    turns.labels("shop", "", "sampled_out").inc(2)
    entries = series.instrument(registry, series.EVALUATIONS)
    labels = dict.fromkeys(series.SERIES_LABELS, "") | {
        "app": "shop",
        "metric": "relevance",
        "engine": "local",
        "subject": "response",
    }
    entries.labels(**labels, outcome="scored", reason="").inc(7)
    entries.labels(**labels, outcome="sampled_out", reason="turn").inc(2)
    (row,) = ledger(collect(registry))
    assert (row["turns"], row["missing"]) == (10, 1)
    assert row["outcomes"] == {"sampled_out": 2, "scored": 7}


def test_rates_are_those_of_the_last_hour() -> None:
    """A row per series with what its window shows; one without a scored turn has none."""
    registry = CollectorRegistry()
    labels = dict.fromkeys(series.SERIES_LABELS, "") | {"app": "shop", "metric": "relevance"}
    turns = series.instrument(registry, series.WINDOW_TURNS)
    turns.labels(**labels, window="1h").set(12)
    turns.labels(**labels, window="24h").set(90)
    turns.labels(**labels | {"metric": "fluency"}, window="1h").set(0)
    series.instrument(registry, series.DEFECT_RATE).labels(**labels, window="1h").set(0.25)
    (row,) = rates(collect(registry))
    assert (row["metric"], row["turns"], row["defect_rate"], row["mean"]) == (
        "relevance",
        12,
        0.25,
        None,
    )
    assert total(collect(registry), series.WINDOW_TURNS) == 102
    assert rates({}) == ledger({}) == []
