"""Windows and alerts under a clock of the test's own: days pass in a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from assay import catalogue
from assay.health import Health
from assay.records import Cell, Group, OutcomeCount, Rollup, SeriesKey, Tally
from exporters.alerting.alerts import Alerts
from exporters.alerting.lifecycle import State
from exporters.alerting.pipeline import Process
from exporters.alerting.rules import Rule
from exporters.rollup import GROUPS
from exporters.views import Views
from exporters.windows import Windows

START = 29_934_000
"""Minutes since the Unix epoch at an hour's beginning."""
KEY = SeriesKey("shop", "prod", "groundedness", "local", "defect", "response")


class Drive:
    """One owner's windows and alerts; `minute` is the one that runs."""

    def __init__(self, rules: Sequence[Rule], *, budget: float = 30 * 1440.0) -> None:
        self.minute = START
        self.second = 0.0
        self.stages: dict[str, Health] = {}
        self.spans = self.late_spans = 0.0
        self.began: list[State] = []
        self.windows = Windows(catalogue.contract, max_series=5000, clock=self.now)
        self.alerts = Alerts(
            rules,
            budgets={"oncall": budget},
            process=lambda: Process(self.stages, self.spans, self.late_spans),
            largest_weight=lambda key: None,
            board="http://grafana",
            began=self.began.append,
        )
        self._views = Views(self.windows)

    def now(self) -> float:
        return self.minute * 60 + self.second

    def score(
        self,
        passed: int,
        failed: int = 0,
        *,
        key: SeriesKey = KEY,
        weight: float = 1.0,
        scorer: str = "1",
        outcomes: dict[tuple[str, str], int] | None = None,
        cell: Cell | None = None,
    ) -> None:
        """Scores of the running minute, and turns for them. Their conversations are all groups'."""
        n = passed + failed
        counts = {("scored", ""): n} if outcomes is None else outcomes
        cells = [cell or Cell("base", weight, n=n, judged=n, defects=failed, total=float(passed))]
        share = weight / GROUPS
        groups = [Group(i, n, n * share, failed * share) for i in range(GROUPS)] if n else []
        self.windows.add(
            Rollup(
                key=key,
                minute=self.minute,
                cells=cells if n or cell else [],
                outcomes=[OutcomeCount(*name, n=c, weight=float(c)) for name, c in counts.items()],  # type: ignore[arg-type]
                groups=groups,
                failures=[f"turn-{self.minute}"] if failed else [],
                scorer=scorer,
                last_scored=self.now(),
            )
        )

    def turns(self, n: int, app: str = "shop", environment: str = "prod") -> None:
        self.windows.add_tally(Tally(app, environment, self.minute, turns=n))

    def step(self) -> None:
        """Evaluate at 30 s of the running minute."""
        self.second = 30.0
        shown = self._views.refresh(self.minute)
        asyncio.run(self.alerts.step(self.windows, shown, self.now()))
        self.second = 0.0

    def next_minute(self) -> None:
        self.step()
        self.minute += 1

    def firing(self) -> list[tuple[str, str]]:
        return sorted(
            (alert.labels["alert"], alert.labels["cause"])
            for alert in self.alerts.lifecycle.alerts.values()
            if alert.state == "firing"
        )

    def successor(self) -> Drive:
        """Another process that takes over what was committed."""
        other = Drive(self.alerts._rules)
        other.minute = self.minute
        state = dict(self.windows.changes(self.minute))
        other.windows.restore({k: v for k, v in state.items() if v is not None})
        of_alerts = {k: bytes(v) for k, v in self.alerts.changes().items() if v is not None}
        other.alerts.restore(msgspec.convert(of_alerts, dict[str, bytes]))
        return other
