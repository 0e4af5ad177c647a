"""How an alert begins, goes on and ends."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

import msgspec

from exporters.alerting.finding import Finding

RESOLVED_KEPT = 24 * 3600.0
"""Seconds for which an alert that is over is still known."""


class State(msgspec.Struct):
    """One alert, as it is kept. Times are Unix seconds."""

    labels: dict[str, str]
    annotations: dict[str, str]
    route: str | None
    hold_for: float
    """Seconds for which the condition must hold before it fires."""
    keep_for: float
    """Seconds for which it must be gone before the alert is over."""
    state: Literal["pending", "firing", "resolved"]
    since: float
    """When the condition began to hold."""
    seen: float
    """When it last held."""
    fired: float = 0.0
    resolved: float = 0.0


class Lifecycle:
    """Every alert by its fingerprint."""

    def __init__(self) -> None:
        self.alerts: dict[str, State] = {}

    def update(self, findings: Iterable[Finding], now: float) -> list[State]:
        """What holds at `now`; the alerts that began to fire by it."""
        began = []
        for finding in findings:
            fingerprint = fingerprint_of(finding.labels)
            alert = self.alerts.get(fingerprint)
            if alert is None or alert.state == "resolved":
                alert = self.alerts[fingerprint] = State(
                    labels=finding.labels,
                    annotations=finding.annotations,
                    route=finding.rule.route,
                    hold_for=finding.rule.hold_for,
                    keep_for=finding.rule.keep_for,
                    state="pending",
                    since=now,
                    seen=now,
                )
            kept = {k: v for k, v in alert.annotations.items() if k not in finding.annotations}
            alert.annotations, alert.seen = finding.annotations | kept, now
            if alert.state == "pending" and now - alert.since >= alert.hold_for:
                alert.state, alert.fired = "firing", now
                began.append(alert)
        for fingerprint, alert in list(self.alerts.items()):
            if alert.state == "pending" and alert.seen < now:
                del self.alerts[fingerprint]
            elif alert.state == "firing" and now - alert.seen >= alert.keep_for:
                alert.state, alert.resolved = "resolved", now
            elif alert.state == "resolved" and now - alert.resolved > RESOLVED_KEPT:
                del self.alerts[fingerprint]
        return began


def fingerprint_of(labels: dict[str, str]) -> str:
    """The same for the same labels, in any order and process."""
    text = "\x1f".join(f"{name}\x1e{value}" for name, value in sorted(labels.items()))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
