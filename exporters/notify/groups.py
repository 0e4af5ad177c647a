"""Which alerts make a message, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from assay.config import Route
from exporters.alerting.alerts import Sent
from exporters.alerting.lifecycle import State, fingerprint_of
from exporters.alerting.silence import Silences


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What a route is to be told of one group of alerts."""

    route: str
    group: dict[str, str]
    """The labels that the alerts share."""
    key: str
    """Of the group, unique over routes."""
    alerts: list[State]
    """Those that fire, and those that are over since the last message."""

    @property
    def firing(self) -> bool:
        """Whether any of them fires."""
        return any(alert.state == "firing" for alert in self.alerts)

    def states(self) -> dict[str, str]:
        """What is remembered once the message has arrived."""
        return {fingerprint_of(a.labels): a.state for a in self.alerts if a.state == "firing"}


def due(
    name: str,
    route: Route,
    alerts: Mapping[str, State],
    silences: Silences,
    sent: Mapping[str, Sent],
    now: float,
) -> Iterator[Message]:
    """The messages that the route `name` is owed at `now`.

    A group is told of at first `group_wait` after its first alert fired, of changes at most every
    `group_interval`, and again every `repeat` while it fires. A silenced alert makes no message,
    neither when it begins nor when it ends.
    """
    groups: dict[str, tuple[dict[str, str], list[State]]] = {}
    for alert in alerts.values():
        if alert.route != name or alert.state == "pending" or silences.covers(alert.labels):
            continue
        shared = {label: alert.labels.get(label, "") for label in route.group_by}
        key = f"{name}/{fingerprint_of(shared)}"
        groups.setdefault(key, (shared, []))[1].append(alert)
    for key, (shared, members) in groups.items():
        last = sent.get(key, Sent())
        told = [
            alert
            for alert in members
            if alert.state == "firing" or fingerprint_of(alert.labels) in last.states
        ]
        if told and now >= _when(route, told, last):
            yield Message(route=name, group=shared, key=key, alerts=told)


def _when(route: Route, told: list[State], last: Sent) -> float:
    """When the next message about these alerts is due."""
    changed = {fingerprint_of(alert.labels): alert.state for alert in told} != last.states
    if not last.at or not last.states:
        first = min(alert.fired for alert in told)
        return first + route.group_wait
    return last.at + (route.group_interval if changed else route.repeat)
