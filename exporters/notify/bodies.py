"""What a webhook is sent: the body of Alertmanager's webhook, Slack's, or a user's own template."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from assay.errors import ConfigError, Permanent
from exporters.alerting.lifecycle import State, fingerprint_of
from exporters.notify.groups import Message

NEVER = "0001-01-01T00:00:00Z"
COLOURS = {"critical": "#d0021b", "warning": "#f5a623", "info": "#4a90e2"}
RESOLVED = "#2eb886"
MOST_SHOWN = 20
"""Alerts that one Slack message shows."""


def alertmanager_body(message: Message) -> dict[str, Any]:
    """The JSON that an Alertmanager's webhook receiver gets, version 4: what receives those
    receives ours."""
    alerts = [
        {
            "status": alert.state,
            "labels": labels_with_name(alert),
            "annotations": alert.annotations,
            "startsAt": moment(alert.since),
            "endsAt": moment(alert.resolved) if alert.state == "resolved" else NEVER,
            "generatorURL": alert.annotations.get("board", ""),
            "fingerprint": fingerprint_of(alert.labels),
        }
        for alert in message.alerts
    ]
    return {
        "version": "4",
        "groupKey": message.key,
        "truncatedAlerts": 0,
        "status": "firing" if message.firing else "resolved",
        "receiver": message.route,
        "groupLabels": message.group,
        "commonLabels": _common([labels_with_name(alert) for alert in message.alerts]),
        "commonAnnotations": _common([alert.annotations for alert in message.alerts]),
        "externalURL": "",
        "alerts": alerts,
    }


def slack_body(message: Message) -> dict[str, Any]:
    """A Slack message with one attachment an alert. Nothing in it is read as Slack's markup: no
    app's name can mention a channel."""
    firing = sum(alert.state == "firing" for alert in message.alerts)
    over = len(message.alerts) - firing
    counts = [f"{n} {word}" for n, word in ((firing, "firing"), (over, "resolved")) if n]
    names = sorted({alert.labels["alert"] for alert in message.alerts})
    return {
        "text": _slack_text(f"[{', '.join(counts)}] {', '.join(names)}"),
        "attachments": [_attachment(alert) for alert in message.alerts[:MOST_SHOWN]],
    }


def template_body(template: Template, message: Message) -> bytes:
    """`template` over the fields of the Alertmanager body. Raises Permanent when it cannot be
    rendered."""
    try:
        return template.render(alertmanager_body(message)).encode()
    except TemplateError as error:
        raise Permanent(f"the template of {message.route} fails: {type(error).__name__}") from error


def load_template(path: Path, key: str) -> Template:
    """The template in `path`. Raises ConfigError naming the setting `key`."""
    environment = ImmutableSandboxedEnvironment(autoescape=False)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    try:
        return environment.from_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, TemplateError) as error:
        raise ConfigError([f"{key}: cannot use the template {path}: {error}"]) from error


def labels_with_name(alert: State) -> dict[str, str]:
    """The labels as Prometheus's tools know them; empty ones are absent there."""
    named = {"alertname": alert.labels["alert"]} | alert.labels
    return {name: value for name, value in named.items() if value}


def moment(seconds: float) -> str:
    """RFC 3339, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def to_json(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def _attachment(alert: State) -> dict[str, Any]:
    texts = alert.annotations
    lines = [texts.get("summary", ""), texts.get("explanation", "")]
    if examples := texts.get("examples"):
        lines.append(f"Turns to look at: {examples}")
    if runbook := texts.get("runbook"):
        lines.append(f"What to do: {runbook}")
    resolved = alert.state == "resolved"
    found: dict[str, Any] = {
        "color": RESOLVED if resolved else COLOURS.get(alert.labels["severity"], ""),
        "title": _slack_text(f"{'Resolved: ' if resolved else ''}{alert.labels['alert']}"),
        "text": _slack_text("\n".join(line for line in lines if line)),
        "ts": int(alert.resolved or alert.fired),
        "mrkdwn_in": [],
    }
    return found | ({"title_link": texts["board"]} if "board" in texts else {})


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")[:3000]


def _common(every: list[dict[str, str]]) -> dict[str, str]:
    first, *rest = every
    return {k: v for k, v in first.items() if all(other.get(k) == v for other in rest)}
