"""Every series that Assay exposes: name, type, unit, help and labels, one row each.

Names are an interface: boards, alert rules and users' queries rest on them. Labels are closed sets
or bounded by the exporter; never ids of users, conversations or traces, and never free text.
A registry is always passed in; nothing here touches the client's global one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

T = TypeVar("T", Counter, Gauge, Histogram)


@dataclass(frozen=True)
class Row(Generic[T]):
    """One metric. `name` is written as it is exposed: counters end in `_total`."""

    kind: type[T]
    name: str
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    """Base unit; where there is one, the name carries it as its suffix (before `_total`)."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, without +Inf."""


def instrument(registry: CollectorRegistry, row: Row[T]) -> T:
    """The live instrument of `row`, registered in `registry`.

    Raises ValueError when the registry already has one of that name.
    """
    options: dict[str, Any] = {"buckets": row.buckets} if row.buckets else {}
    return row.kind(row.name, row.help, row.labels, unit=row.unit, registry=registry, **options)

# --- the process ---------------------------------------------------------------------------

BUILD_INFO = Row(Gauge, "assay_build_info", "Always 1; the version that runs.", ("version",))
