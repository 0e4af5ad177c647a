"""What `assay status` makes of the series: the reports of cascades and of the judge."""

from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from assay import series
from assay.cli.status import cascades, collect, judge


def samples(engine="cascade", **values):
    labels = dict.fromkeys(series.SERIES_LABELS, "") | {"app": "shop", "metric": "groundedness"}
    labels |= {"engine": engine, "subject": "response", "window": "24h"}
    rows = {
        "turns": series.WINDOW_TURNS,
        "judged": series.CASCADE_JUDGED,
        "rate": series.DEFECT_RATE,
        "upper": series.DEFECT_RATE_UPPER,
        "saved": series.JUDGE_CALLS_SAVED,
    }
    return {rows[n].name: [Sample(rows[n].name, labels, value)] for n, value in values.items()}


def test_cascade_tells_its_width_and_what_it_saved():
    """The row says how many evenly drawn turns would have given the same interval."""
    (row,) = cascades(samples(turns=1000, judged=100, rate=0.05, upper=0.07, saved=0.6))
    assert row == {
        "app": "shop",
        "metric": "groundedness",
        "subject": "response",
        "turns": 1000,
        "judged": 100,
        "defect_rate": 0.05,
        "half_width": 0.02,
        "even_sample": 250,
        "saved": 0.6,
    }


def test_rate_outside_zero_to_one_has_a_row_without_savings():
    """An estimate below 0 cannot be compared with an even sample, and is shown all the same."""
    (row,) = cascades(samples(turns=100, judged=9, rate=-0.1, upper=0.1))
    assert row["even_sample"] is row["saved"] is None


def test_other_engines_are_no_cascades():
    """Only the engine `cascade` has a row, and only where something was scored."""
    assert cascades(samples("local", turns=10, rate=0.1, upper=0.2)) == []
    assert cascades(samples(judged=0)) == []


def test_the_judge_is_told_with_its_failures_cost_and_budget():
    """Calls by how they ended, tokens by kind, and the least share that the budget pays for; no row
    where there is no judge."""
    registry = CollectorRegistry()
    assert judge(collect(registry)) == []
    results = series.instrument(registry, series.JUDGE_REQUESTS)
    results.labels("ok").inc(3)
    results.labels("auth").inc(2)
    series.instrument(registry, series.JUDGE_TOKENS).labels("input").inc(1200)
    series.instrument(registry, series.JUDGE_COST).inc(0.25)
    series.instrument(registry, series.JUDGE_IN_FLIGHT).set(1)
    series.instrument(registry, series.JUDGE_RATIO).set(0.5)
    assert judge(collect(registry)) == [
        {
            "calls": {"ok": 3, "auth": 2},
            "in_flight": 1,
            "input_tokens": 1200,
            "cost_usd": 0.25,
            "budget_share": 0.5,
        }
    ]
