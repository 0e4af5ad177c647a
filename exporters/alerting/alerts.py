"""All alerts of the owner of the windows: what they rest on, and what survives its end.

The state is bus state beside that of the windows, committed with it: an owner's successor goes on
with the same evidence, alerts, silences and messages sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import urlencode

import msgspec

from assay.records import SeriesKey
from exporters.alerting.finding import Finding
from exporters.alerting.history import History
from exporters.alerting.lifecycle import Lifecycle, State
from exporters.alerting.pipeline import Pipeline, Process
from exporters.alerting.quality import Shown, quality_findings
from exporters.alerting.regression import Regression, Watch
from exporters.alerting.rules import Rule
from exporters.alerting.silence import Silence, Silences
from exporters.windows import Windows

PREFIX = "a/"
"""Of the alerts' keys in the owner's state."""
GRACE = 10.0
"""Seconds after its end for which a minute may still get scores before it is taken as evidence."""
DEFAULT_BUDGET = 30 * 24 * 60.0
"""Minutes to a false alarm of rules without a route."""

Began = Callable[[State], None]
Weights = Callable[[SeriesKey], float | None]


class Sent(msgspec.Struct):
    """What a group of a route was last told: state by fingerprint, and when."""

    states: dict[str, str] = {}
    at: float = 0.0


class Alerts:
    """Evaluates rules. To be used in the thread that changes the windows."""

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        budgets: Mapping[str, float],
        process: Callable[[], Process] = lambda: Process({}, 0, 0),
        largest_weight: Weights = lambda key: None,
        board: str | None = None,
        began: Began = lambda alert: None,
    ) -> None:
        """`budgets` is, by route, the mean of minutes to a false alarm. `largest_weight` is the
        largest that the settings allow a turn of a series, where they tell; `board` is Grafana's
        address. `began` is called with each alert that begins to fire."""
        self._rules = rules
        self._budgets = budgets
        self._process = process
        self._largest_weight = largest_weight
        self._board = board
        self._began = began
        self.reset()

    def reset(self) -> None:
        """Forget everything, as before the first `restore`."""
        self.lifecycle = Lifecycle()
        self.silences = Silences()
        self.sent: dict[str, Sent] = {}
        self.regressions = [
            Regression(rule, self._budgets.get(rule.route or "", DEFAULT_BUDGET))
            for rule in self._rules
            if rule.cause == "regression"
        ]
        self._pipeline = Pipeline(self._process)
        self._history = History()
        self._rebase_all = False
        self._committed: dict[str, bytes] = {}

    # State.

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Take up what was committed. Raises msgspec.MsgspecError when it is not ours."""
        self.reset()
        self._committed = dict(state)
        if "a/alerts" in state:
            self.lifecycle.alerts = _unpack_alerts(state["a/alerts"])
        if "a/silences" in state:
            self.silences.every = {s.id: s for s in _unpack_silences(state["a/silences"])}
        if "a/sent" in state:
            self.sent = _unpack_sent(state["a/sent"])
        for regression in self.regressions:
            packed = state.get(_key(regression.rule))
            watches = _unpack_watches(packed) if packed is not None else []
            regression.watches = {watch.key: watch for watch in watches}

    def changes(self) -> dict[str, bytes | None]:
        """The state's keys that differ from what was committed."""
        now: dict[str, bytes] = {}
        if self.lifecycle.alerts:
            now["a/alerts"] = _pack(self.lifecycle.alerts)
        if self.silences.every:
            now["a/silences"] = _pack(list(self.silences.every.values()))
        if self.sent:
            now["a/sent"] = _pack(self.sent)
        for regression in self.regressions:
            if regression.watches:
                now[_key(regression.rule)] = _pack(list(regression.watches.values()))
        changed: dict[str, bytes | None] = {
            key: value for key, value in now.items() if self._committed.get(key) != value
        }
        return changed | dict.fromkeys(self._committed.keys() - now.keys())

    def committed(self, changes: Mapping[str, bytes | None]) -> None:
        """`changes` have been made durable."""
        for key, value in changes.items():
            if value is None:
                self._committed.pop(key, None)
            else:
                self._committed[key] = value

    # Evaluation.

    async def step(self, windows: Windows, shown: list[Shown], now: float) -> None:
        """Evaluate every rule at `now` over the windows and their views."""
        minute = int(now // 60)
        self.silences.expire(now)
        if self.regressions:
            await self._move_baselines(windows, shown, minute)
            closed = int((now - GRACE) // 60) - 1
            for regression in self.regressions:
                threshold = regression.threshold(self._sharing(regression.rule))
                regression.take_blocks(windows, closed, threshold)
        self._pipeline.look(windows, minute)
        by_key = {series.key: (series, views) for series, _, views in shown}
        findings: list[Finding] = []
        for rule in self._rules:
            if rule.cause in ("objective", "severity"):
                findings += quality_findings(rule, shown)
            elif rule.cause != "regression":
                findings += self._pipeline.findings(rule)
        for regression in self.regressions:
            findings += regression.findings(by_key, minute)
        for alert in self.lifecycle.update(map(self._with_link, findings), now):
            self._began(alert)

    def evidence(self) -> Iterable[tuple[Rule, Watch, float]]:
        """Each test with its evidence over its threshold: its alert fires from 1 on."""
        for regression in self.regressions:
            threshold = regression.threshold(self._sharing(regression.rule))
            for watch in regression.watches.values():
                mixed = sum(watch.evidence) / max(1, len(watch.evidence)) / threshold
                yield regression.rule, watch, max(mixed, 1.0) if watch.active_since else mixed

    def rebase(self) -> None:
        """Start every baseline anew with the next step: the user says that things are right."""
        self._rebase_all = True

    def _sharing(self, rule: Rule) -> int:
        """Tests that share the false-alarm budget of the rule's route."""
        return sum(
            1
            for regression in self.regressions
            if regression.rule.route == rule.route
            for watch in regression.watches.values()
            if watch.null_rate is not None
        )

    async def _move_baselines(self, windows: Windows, shown: list[Shown], minute: int) -> None:
        hour, everything = minute // 60, self._rebase_all
        self._rebase_all = False
        new = False
        for regression in self.regressions:
            known = len(regression.watches)
            regression.add_series(windows.series.values(), minute)
            new = new or len(regression.watches) > known
            changed = regression.rebase(hour, windows, everything=everything)
            self._history.forget(changed)
            new = new or bool(changed)
        if hour == self._history.hour and not new:
            return
        watched = {
            (regression.rule.alert, key): watch.counts
            for regression in self.regressions
            for key, watch in regression.watches.items()
        }
        await self._history.move(windows, hour, watched)
        effects = {series.key: effect for series, effect, _ in shown}
        for regression in self.regressions:
            regression.set_baselines(self._history, effects, lambda key: self._weight(windows, key))

    def _weight(self, windows: Windows, key: SeriesKey) -> float:
        """The largest that the settings allow; where they do not tell, that of the last day."""
        allowed = self._largest_weight(key)
        if allowed is not None:
            return allowed
        series = windows.series.get(key)
        parts = series.hours.values() if series is not None else ()
        return max((c.weight for p in parts for c in p.cells.values() if c.judged), default=1.0)

    def _with_link(self, finding: Finding) -> Finding:
        if self._board is None:
            return finding
        chosen = {
            f"var-{name}": finding.labels[name]
            for name in ("app", "environment", "metric", "engine")
            if finding.labels.get(name)
        }
        board = "assay-quality" if finding.labels.get("metric") else "assay-pipeline"
        link = f"{self._board}/d/{board}?{urlencode(chosen)}"
        return msgspec.structs.replace(finding, annotations=finding.annotations | {"board": link})


def _key(rule: Rule) -> str:
    return f"{PREFIX}regression/{rule.alert}"


_pack = msgspec.msgpack.Encoder().encode
_unpack_alerts = msgspec.msgpack.Decoder(dict[str, State]).decode
_unpack_silences = msgspec.msgpack.Decoder(list[Silence]).decode
_unpack_sent = msgspec.msgpack.Decoder(dict[str, Sent]).decode
_unpack_watches = msgspec.msgpack.Decoder(list[Watch]).decode
