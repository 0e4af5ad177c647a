"""The one list of series: names, units and labels keep to the rules of the field."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from assay import series

ROWS = [row for row in vars(series).values() if isinstance(row, series.Row)]
IDS = {"user", "user_id", "session", "trace_id", "conversation_id", "turn_id", "span_id"}


def test_names_are_unique() -> None:
    """No two rows share a name."""
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_keeps_the_naming_rules(row: series.Row[Counter]) -> None:
    """A row is named, typed, described and labelled as Prometheus asks."""
    assert re.fullmatch(r"assay_[a-z0-9]+(_[a-z0-9]+)*", row.name)
    assert row.name.endswith("_total") == (row.kind is Counter)
    assert not row.unit or row.name.removesuffix("_total").endswith("_" + row.unit)
    assert row.help.endswith(".") and "\n" not in row.help
    assert len(set(row.labels)) == len(row.labels) and not set(row.labels) & IDS
    assert row.kind is Histogram or not row.buckets
    assert list(row.buckets) == sorted(set(row.buckets))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_instrument_exposes_the_row_as_named(row: series.Row[Counter]) -> None:
    """What is exposed carries the row's own name."""
    registry = CollectorRegistry()
    made = series.instrument(registry, row)
    if row.labels:
        made = made.labels(*("x" for _ in row.labels))
    exposed = row.name if row.kind is not Histogram else row.name + "_count"
    text = generate_latest(registry).decode()
    assert re.search(rf"^{exposed}(\{{|\s)", text, re.MULTILINE)


def test_a_name_registers_once() -> None:
    """A second instrument of the same name in one registry is refused."""
    registry = CollectorRegistry()
    row = series.Row(Gauge, "assay_probe", "A probe.")
    series.instrument(registry, row)
    with pytest.raises(ValueError, match="assay_probe"):
        series.instrument(registry, row)
