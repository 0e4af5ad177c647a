"""Boards, data source, alert rules and contact points into a running Grafana, by its HTTP API.

Everything has a fixed uid, so that pushing again changes what differs and adds nothing twice.
Written for Grafana 11 and 12: the provisioning API, unified alerting.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from typing import Any

from grafana_client.api import GrafanaApi
from grafana_client.client import (
    GrafanaClientError,
    GrafanaServerError,
    GrafanaTimeoutError,
    TokenAuth,
)
from niquests.exceptions import RequestException

from assay.config import Config, Route
from assay.errors import Permanent, Retryable
from exporters.alerting.rules import Rule, rules_of
from exporters.rules.generate import alerting

SOURCE = "assay-prometheus"
FOLDER = "assay"
GROUP = "assay"
IGNORED = ("id", "version", "updated", "provenance", "readOnly", "secureJsonFields", "orgId")
"""What Grafana adds to what it was given."""


class Step:
    """One thing that is to be so: what it is, how it is now, and how to make it so."""

    def __init__(
        self,
        what: str,
        wanted: dict[str, Any],
        now: dict[str, Any] | None,
        create: Callable[[], Any],
        update: Callable[[], Any],
    ) -> None:
        self.what = what
        self.action = (
            "created" if now is None else "unchanged" if _within(wanted, now) else "updated"
        )
        self._make = {"created": create, "updated": update}.get(self.action)

    def make(self) -> None:
        if self._make is not None:
            self._make()


def push(config: Config, *, dry_run: bool) -> Iterator[str]:
    """Make Grafana as the settings want it; gives a line for each thing. `dry_run` only tells.

    Raises Permanent or Retryable when Grafana does not do it.
    """
    grafana = config.exporters.grafana
    if grafana.url is None or grafana.token is None or grafana.prometheus is None:
        raise Permanent("exporters.grafana needs url, token and prometheus")
    token = TokenAuth(grafana.token.get_secret_value())  # type: ignore[no-untyped-call]
    # The client's methods are not annotated.
    api: Any = GrafanaApi.from_url(grafana.url, credential=token)
    try:
        for step in _steps(api, config, grafana.url, grafana.prometheus):
            if not dry_run:
                step.make()
            would = "would be " if dry_run and step.action != "unchanged" else ""
            yield f"{would}{step.action}: {step.what}"
    except GrafanaServerError as error:
        raise Retryable(f"Grafana answers {error.status_code}") from None
    except GrafanaClientError as error:
        raise Permanent(f"Grafana refuses with {error.status_code}: {error.message}") from None
    except (RequestException, GrafanaTimeoutError) as error:
        raise Retryable(f"Grafana does not answer: {type(error).__name__}") from None
    finally:
        api.client.s.close()


def _steps(api: Any, config: Config, url: str, prometheus: str) -> Iterator[Step]:
    title = config.exporters.grafana.folder
    yield Step(
        f"folder {title}",
        {"title": title},
        _found(lambda: api.folder.get_folder(FOLDER)),
        lambda: api.folder.create_folder(title, uid=FOLDER),
        lambda: api.folder.update_folder(FOLDER, title=title, overwrite=True),
    )
    source = {
        "uid": SOURCE,
        "name": "Assay Prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus,
    }
    yield Step(
        "data source Assay Prometheus",
        source,
        _found(lambda: api.datasource.get_datasource_by_uid(SOURCE)),
        lambda: api.datasource.create_datasource(source),
        lambda: api.datasource.update_datasource_by_uid(SOURCE, source),
    )
    for board in boards():
        yield _board(api, board)
    for name, route in config.notify.items():
        if route.webhook is not None:
            yield _contact(api, name, route)
    for rule in rules_of(config):
        yield _rule(api, rule, url)


def boards() -> list[dict[str, Any]]:
    """The boards that are shipped."""
    folder = files("dashboards") / "grafana"
    paths = sorted(
        (path for path in folder.iterdir() if path.name.endswith(".json")), key=lambda p: p.name
    )
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _board(api: Any, board: dict[str, Any]) -> Step:
    def save() -> None:
        api.dashboard.update_dashboard({"dashboard": board, "folderUid": FOLDER, "overwrite": True})

    now = _found(lambda: api.dashboard.get_dashboard(board["uid"]))
    return Step(f"board {board['title']}", board, now and now["dashboard"], save, save)


def _contact(api: Any, name: str, route: Route) -> Step:
    assert route.webhook is not None
    uid = _uid("contact", name)
    kind = "slack" if route.template == "slack" else "webhook"
    point = {
        "uid": uid,
        "name": f"assay {name}",
        "type": kind,
        "settings": {"url": route.webhook.get_secret_value()},
        "disableResolveMessage": False,
    }
    # Grafana hides the address, so whether it is the same cannot be known: it is set again.
    known = [p for p in api.alertingprovisioning.get_contactpoints() if p.get("uid") == uid]
    return Step(
        f"contact point assay {name}",
        point,
        known[0] if known else None,
        lambda: api.alertingprovisioning.create_contactpoint(point, disable_provenance=True),
        lambda: api.alertingprovisioning.update_contactpoint(uid, point, disable_provenance=True),
    )


def _rule(api: Any, rule: Rule, url: str) -> Step:
    uid = _uid("rule", rule.alert, rule.cause)
    made = alerting(rule, url)
    wanted: dict[str, Any] = {
        "uid": uid,
        "title": f"{rule.alert} ({rule.cause})",
        "folderUID": FOLDER,
        "ruleGroup": GROUP,
        "orgID": 1,
        "condition": "B",
        "for": made.get("for", "0s"),
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": made["labels"],
        "annotations": made["annotations"],
        "data": _queries(made["expr"]),
    }
    if rule.route is not None:
        wanted["notification_settings"] = {"receiver": f"assay {rule.route}"}
    return Step(
        f"alert rule {wanted['title']}",
        wanted,
        _found(lambda: api.alertingprovisioning.get_alertrule(uid)),
        lambda: api.alertingprovisioning.create_alertrule(wanted, disable_provenance=True),
        lambda: api.alertingprovisioning.update_alertrule(uid, wanted, disable_provenance=True),
    )


def _queries(expr: str) -> list[dict[str, Any]]:
    """The rule's expression, and a condition that is true for each series that it returns."""
    window = {"from": 600, "to": 0}
    query = {"refId": "A", "expr": expr, "instant": True, "range": False}
    condition = {"refId": "B", "type": "math", "expression": "is_number($A)"}
    return [
        {"refId": "A", "datasourceUid": SOURCE, "relativeTimeRange": window, "model": query},
        {"refId": "B", "datasourceUid": "__expr__", "relativeTimeRange": window,
         "model": condition},
    ]  # fmt: skip


def _uid(*parts: str) -> str:
    digest = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=8).hexdigest()
    return f"assay-{digest}"


def _found(ask: Callable[[], Any]) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = ask()
    except GrafanaClientError as error:
        if error.status_code == 404:
            return None
        raise
    return found


def _within(wanted: Any, now: Any) -> bool:
    """Whether `now` is as wanted, aside what Grafana adds."""
    if isinstance(wanted, dict):
        return isinstance(now, dict) and all(
            key in IGNORED or _within(value, now.get(key)) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        same = isinstance(now, Sequence) and len(now) == len(wanted)
        return same and all(map(_within, wanted, now))
    return bool(wanted == now)
