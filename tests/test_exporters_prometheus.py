"""The page: strict parsers accept it whatever is in it, and it says what the windows hold."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest
from exporters_data import NOON, score, turn_scores
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from assay import catalogue, series
from assay.health import Health
from assay.records import Score, Tally, TurnScores, encode
from exporters.families import render
from exporters.prometheus import router
from exporters.rollup import Sums, decode_entries
from exporters.samples import QualitySeries
from exporters.windows import Windows

QUALITY = {row.name: row for row in vars(series).values() if isinstance(row, series.Row)}


def page_of(
    *turns: TurnScores, labels: tuple[str, ...] = (), now: float = NOON
) -> tuple[CollectorRegistry, Windows]:
    windows = Windows(catalogue.contract, max_series=1000, clock=lambda: now)
    sums = Sums(labels=labels)
    for turn in turns:
        sums.add(decode_entries(encode(turn)))
    for rollup in sums.rollups():
        windows.add(rollup)
    registry = CollectorRegistry()
    registry.register(QualitySeries(lambda: windows, clock=lambda: now))
    return registry, windows


def harm(value: float, **fields: Any) -> Score:
    return score("violence", "gpt", value=value, passed=value <= 3, direction="lower", **fields)


def samples(registry: CollectorRegistry) -> dict[tuple[str, str, str], float]:
    return {
        (s.name, s.labels.get("window", ""), s.labels.get("level", "")): s.value
        for family in parse_text(render(registry.collect(), openmetrics=False).decode())
        for s in family.samples
    }


MIXED = (
    turn_scores(1, score(value=1.0, passed=True, weight=20.0), harm(2), at=NOON),
    turn_scores(2, score(value=0.0, passed=False, weight=4.0), harm(5), at=NOON, stratum="errors"),
    turn_scores(3, score(outcome="error", outcome_reason="timeout", weight=6.0), at=NOON),
    turn_scores(4, score("latency_seconds", "computed", subject="turn", kind="info", value=2.5)),
    turn_scores(5, score("summarization_verbosity", "gpt", value=-2.0, passed=False), at=NOON),
    turn_scores(6, score("pairwise", "gpt", kind="info", label="CANDIDATE"), at=NOON),
)


def test_both_formats_parse_strictly_and_agree() -> None:
    """The client's own parsers read the page, and find in both formats the same samples."""
    registry, windows = page_of(*MIXED)
    windows.add_tally(Tally("shop", "test", NOON // 60, turns=3, sampled_out=1))
    text = {
        (s.name, frozenset(s.labels.items())): s.value
        for family in parse_text(render(registry.collect(), openmetrics=False).decode())
        for s in family.samples
    }
    page = render(registry.collect(), openmetrics=True).decode()
    assert page.endswith("# EOF\n") and page.count("# EOF") == 1
    families = list(parse_openmetrics(page))
    openmetrics = {
        (s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples
    }
    assert openmetrics == text
    assert len(text) > 60 and all(map(math.isfinite, text.values()))


def test_the_fast_page_says_what_the_clients_renderer_says() -> None:
    """Our renderer and the client's differ in nothing but the order of labels."""
    registry, _ = page_of(*MIXED)
    parsed = [
        sorted(
            (s.name, sorted(s.labels.items()), s.value)
            for family in parse_text(page.decode())
            for s in family.samples
        )
        for page in (
            render(registry.collect(), openmetrics=False),
            generate_latest(registry),
        )
    ]
    assert parsed[0] == parsed[1]


def test_estimates_are_weighted_and_errors_bound_them() -> None:
    """Mean and rate are Hajek ratios; errors counted as fails and passes give the bounds."""
    registry, _ = page_of(*(turn for turn in MIXED[:3]))
    found = {
        (s.name, s.labels.get("window", "")): s.value
        for f in registry.collect()
        for s in f.samples
        if s.labels.get("metric") == "groundedness"
    }
    assert found["assay_score_mean", "5m"] == pytest.approx(20 / 24)
    assert found["assay_defect_rate", "5m"] == pytest.approx(4 / 24)
    assert found["assay_defect_rate_if_errors_fail", "24h"] == pytest.approx(10 / 30)
    assert found["assay_defect_rate_if_errors_pass", "24h"] == pytest.approx(4 / 30)
    assert found["assay_defect_rate_lower", "1h"] < 4 / 24 < found["assay_defect_rate_upper", "1h"]
    assert found["assay_weight_total", ""] == 24
    assert found["assay_weight_squared_total", ""] == 416
    assert found["assay_defect_weight_total", ""] == 4
    assert found["assay_window_turns", "5m"] == 2


@pytest.mark.parametrize("value", range(8))
def test_every_severity_counts_at_its_levels(value: int) -> None:
    """0-1 is below low, 2-3 low, 4-5 medium, 6-7 high: at and above each level, side by side."""
    registry, _ = page_of(turn_scores(1, harm(float(value)), at=NOON))
    found = samples(registry)
    for level, lowest in (("low", 2), ("medium", 4), ("high", 6)):
        assert found["assay_defect_rate_at_severity", "5m", level] == float(value >= lowest)


def test_a_probability_has_no_severity() -> None:
    """The local engine of a harm shows a defect rate and no levels."""
    registry, _ = page_of(turn_scores(1, score("violence", "local", value=0.9, passed=False)))
    assert not [name for name, _, level in samples(registry) if level]


def test_exemplars_carry_trace_ids() -> None:
    """OpenMetrics buckets name a trace that fell into them; text has none."""
    registry, _ = page_of(*MIXED[:2])
    page = render(registry.collect(), openmetrics=True).decode()
    exemplars = {
        s.exemplar.labels["trace_id"]
        for family in parse_openmetrics(page)
        for s in family.samples
        if s.exemplar
    }
    assert exemplars == {f"{1:032x}", f"{2:032x}"}
    assert "trace_id" not in render(registry.collect(), openmetrics=False).decode()


HOSTILE = (
    'quote " here',
    "back\\slash\\",
    "new\nline",
    "cr\r\nlf",
    "",
    "模型",
    "{braces}",
    'x"} 1\n# HELP fake fake\nfake 1',
    "nul\x00byte",
    "x" * 5000,
)


def test_hostile_label_text_cannot_break_the_page() -> None:
    """Quotes, newlines, fake HELP lines, NUL and 5,000 letters stay values (case B82)."""
    turns = [
        turn_scores(i, model=text, app=text or "unknown", at=NOON) for i, text in enumerate(HOSTILE)
    ]
    registry, windows = page_of(*turns, labels=("model",))
    windows.add_tally(Tally("lone \ud800", "", NOON // 60, turns=1))
    for openmetrics, parse in ((False, parse_text), (True, parse_openmetrics)):
        page = render(registry.collect(), openmetrics=openmetrics).decode()
        models = {s.labels.get("model") for f in parse(page) for s in f.samples}
        assert len(models - {None}) == len(HOSTILE)
        assert "fake" not in {f.name for f in parse(page)}


def test_what_is_exposed_is_in_the_one_list() -> None:
    """Every family has its row: name, labels and help are the interface (case B90)."""
    registry, windows = page_of(*MIXED)
    windows.add_tally(Tally("shop", "test", NOON // 60, turns=1))
    shown = set()
    for family in registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        row = QUALITY[name]
        shown.add(name)
        assert family.documentation == row.help
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(row.labels)
    assert {"assay_turn_latency_seconds", "assay_defect_rate_at_severity"} <= shown


async def test_metrics_by_accept_and_key() -> None:
    """OpenMetrics when asked for, text else; a wrong or missing key gives 401."""
    registry, _ = page_of(*MIXED)
    Counter("assay_door", "Of another room.", registry=registry).inc()
    app = FastAPI()
    app.include_router(router(registry, {}, bearer="s3cret"))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for key in (None, "Bearer wrong", "Basic s3cret", "Bearer"):
            headers = {"authorization": key} if key else {}
            assert (await client.get("/metrics", headers=headers)).status_code == 401
        headers = {"authorization": "Bearer s3cret"}
        text = await client.get("/metrics", headers=headers)
        assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
        names = {family.name for family in parse_text(text.text)}
        assert {"assay_door", "assay_score_mean"} <= names
        headers["accept"] = "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"
        page = await client.get("/metrics", headers=headers)
        assert page.headers["content-type"].startswith("application/openmetrics-text")
        assert {"assay_door"} <= {family.name for family in parse_openmetrics(page.text)}


async def test_health_is_progress() -> None:
    """One stage that does not move on makes the process unhealthy, and says which and why."""
    app = FastAPI()
    good, bad = Health(ok=True), Health(ok=False, detail="3 records wait", lag=3)
    app.include_router(router(CollectorRegistry(), {"store": lambda: bad, "windows": lambda: good}))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.get("/health")
    assert answer.status_code == 503
    body = answer.json()
    assert body["ok"] is False and body["stages"]["windows"]["ok"] is True
    assert body["stages"]["store"]["detail"] == "3 records wait"
