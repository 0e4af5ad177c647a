"""Delivery without Prometheus: who is told what, when, and how often."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from webhook_receiver import Receiver, receiver

from assay.config import Route
from assay.errors import ConfigError
from exporters.alerting.alerts import Alerts, Sent
from exporters.alerting.finding import Finding, annotations_of, labels_of
from exporters.alerting.rules import Rule
from exporters.alerting.silence import Silences
from exporters.notify import notifier as notifier_module
from exporters.notify.bodies import alertmanager_body, load_template, slack_body, template_body
from exporters.notify.groups import Message, due
from exporters.notify.notifier import Notifier

RULE = Rule(
    alert="ungrounded", cause="objective", metric="groundedness", severity="critical",
    runbook="look at the retriever", route="oncall",
)  # fmt: skip
NOW = 1_800_000_000.0


def finding(app: str = "shop", **more: str) -> Finding:
    labels = labels_of(RULE, app=app, engine="local", **more)
    return Finding(RULE, labels, annotations_of(RULE, "20 % of turns fail", ["t-3", "t-2", "t-1"]))


def route(**fields: Any) -> Route:
    return Route(**{"webhook": "http://127.0.0.1:9/hook", "group_wait": 0} | fields)


class Owner:
    """Alerts whose findings a test sets."""

    def __init__(self) -> None:
        self.alerts = Alerts([RULE], budgets={})
        self.now = NOW

    def update(self, *findings: Finding, after: float = 0.0) -> None:
        self.now += after
        self.alerts.lifecycle.update(findings, self.now)

    def due(self, one: Route) -> list[Message]:
        alerts = self.alerts
        found = due("oncall", one, alerts.lifecycle.alerts, alerts.silences, alerts.sent, self.now)
        return list(found)

    def deliver(self, one: Route) -> list[Message]:
        messages = self.due(one)
        for message in messages:
            self.alerts.sent[message.key] = Sent(message.states(), self.now)
        return messages


def test_alerts_of_a_group_make_one_message_after_its_wait() -> None:
    """Two series of one app are told of together, once group_wait has passed; another app apart."""
    owner, one = Owner(), route(group_wait=10)
    every = [finding(model="a"), finding(model="b"), finding("bank")]
    owner.update(*every)
    assert owner.due(one) == []
    owner.update(*every, after=10)
    assert sorted(len(message.alerts) for message in owner.due(one)) == [1, 2]


def test_a_group_is_told_of_once_then_of_changes_and_repeats() -> None:
    """Nothing twice within group_interval; news after it; the same again after repeat."""
    owner, one = Owner(), route(group_interval=300, repeat=3600)
    owner.update(finding())
    assert len(owner.deliver(one)) == 1
    owner.update(finding(), finding(model="b"), after=60)
    assert owner.deliver(one) == []
    owner.update(finding(), finding(model="b"), after=240)
    [message] = owner.deliver(one)
    assert len(message.alerts) == 2
    owner.update(finding(), finding(model="b"), after=3599)
    assert owner.deliver(one) == []
    owner.update(finding(), finding(model="b"), after=1)
    assert len(owner.deliver(one)) == 1


def test_the_end_is_told_once_and_only_of_what_was_told() -> None:
    """A resolved message follows a firing one; an alert that was never told of ends silently."""
    owner, one = Owner(), route(group_interval=0)
    owner.update(finding())
    owner.deliver(one)
    owner.update(finding(), after=60)
    owner.update(after=200)
    [message] = owner.deliver(one)
    assert not message.firing
    assert [alert.state for alert in message.alerts] == ["resolved"]
    assert owner.deliver(one) == []
    silent = Owner()
    silent.update(finding())
    silent.update(after=200)
    assert silent.due(one) == []


def test_silences_hold_back_their_alerts_for_their_time() -> None:
    """A silenced alert makes no message, others do; when the silence ends the alert is told of."""
    owner, one = Owner(), route()
    owner.alerts.silences.add({"alert": "ungrounded", "app": "shop"}, until=NOW + 100)
    owner.update(finding(), finding("bank"))
    assert [m.group["app"] for m in owner.deliver(one)] == ["bank"]
    owner.update(finding(), finding("bank"), after=100)
    owner.alerts.silences.expire(owner.now)
    assert [m.group["app"] for m in owner.deliver(one)] == ["shop"]
    assert not Silences().covers({"app": "shop"})


def message(**texts: str) -> Message:
    owner = Owner()
    found = finding()
    owner.update(Finding(found.rule, found.labels, found.annotations | texts))
    return owner.due(route())[0]


def test_json_body_is_that_of_alertmanagers_webhook() -> None:
    """Receivers of Alertmanager's version 4 webhook read ours."""
    body = alertmanager_body(message())
    assert body["version"] == "4"
    assert body["status"] == "firing"
    assert body["groupLabels"] == {"alert": "ungrounded", "app": "shop"}
    [alert] = body["alerts"]
    assert alert["labels"]["alertname"] == "ungrounded"
    assert alert["labels"]["severity"] == "critical"
    assert "environment" not in alert["labels"]
    assert alert["annotations"]["examples"] == "t-3, t-2, t-1"
    assert alert["endsAt"] == "0001-01-01T00:00:00Z"


def test_slack_body_lets_no_text_become_markup() -> None:
    """Text that came with traces cannot mention a channel or link anywhere."""
    body = slack_body(message(summary="<!channel> <http://evil|here> & more"))
    [attachment] = body["attachments"]
    assert "&lt;!channel&gt;" in attachment["text"]
    assert "<" not in json.dumps(body)
    assert attachment["title"] == "ungrounded"
    assert "look at the retriever" in attachment["text"]
    assert body["text"] == "[1 firing] ungrounded"


def test_own_template(tmp_path: Path) -> None:
    """A user's template has the fields of the JSON body, in a sandbox."""
    path = tmp_path / "t.j2"
    path.write_text('{"msg": {{ commonAnnotations.summary | tojson }}, "n": {{ alerts | length }}}')
    body = template_body(load_template(path, "notify.x.template"), message())
    assert json.loads(body) == {"msg": "20 % of turns fail", "n": 1}
    path.write_text("{% if %}")
    with pytest.raises(ConfigError, match=r"notify\.x\.template"):
        load_template(path, "notify.x.template")


# Over the wire.


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


@contextlib.asynccontextmanager
async def notifying(
    owner: Owner, registry: CollectorRegistry, **fields: Any
) -> AsyncIterator[None]:
    one = Notifier(
        {"oncall": Route(**{"group_wait": 0, "group_interval": 0} | fields)},
        lambda: owner.alerts,
        registry,
        clock=lambda: owner.now,
    )
    await one.start()
    try:
        yield
    finally:
        await one.stop()
        await one.stop()


async def until(met: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not met():  # noqa: ASYNC110 - a list that grows has no event
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier_module, "EVERY", 0.02)
    monkeypatch.setattr(notifier_module, "AFTER_FAILURE", 0.1)


async def test_a_receiver_that_is_away_gets_the_message_later_and_once(hook: Receiver) -> None:
    """503 is tried again until it is taken; then nothing more is sent until something changes."""
    hook.answers = [503, 503]
    owner, registry = Owner(), CollectorRegistry()
    owner.update(finding())
    async with notifying(owner, registry, webhook=f"{hook.url}/hook", headers={"x-key": "k"}):
        await until(lambda: len(hook.bodies) == 1)
        await asyncio.sleep(0.2)
        assert len(hook.bodies) == 1
        assert hook.headers[0]["x-key"] == "k"
        owner.update(after=300)
        await until(lambda: len(hook.bodies) == 2)
    assert [body["status"] for body in hook.bodies] == ["firing", "resolved"]
    count = {
        outcome: registry.get_sample_value(
            "assay_notifications_total",
            {"route": "oncall", "target": "webhook", "outcome": outcome},
        )
        for outcome in ("sent", "retried")
    }
    assert count == {"sent": 2, "retried": 2}


async def test_a_receiver_that_refuses_is_not_hammered(hook: Receiver) -> None:
    """A 400 is no reason to try at once; the message is still owed and arrives when it is taken."""
    hook.answers = [400]
    owner = Owner()
    owner.update(finding())
    async with notifying(owner, CollectorRegistry(), webhook=hook.url):
        await until(lambda: hook.requests == 1)
        await asyncio.sleep(0.05)
        assert hook.requests == 1
        await until(lambda: len(hook.bodies) == 1)


async def test_a_dead_route_holds_up_no_other(hook: Receiver) -> None:
    """With one route's receiver gone the other is served."""
    owner = Owner()
    owner.update(finding())
    one = Notifier(
        {
            "dead": Route(webhook=SecretStr("http://127.0.0.1:9/")),
            "oncall": Route(webhook=SecretStr(hook.url), group_wait=0.0),
        },
        lambda: owner.alerts,
        CollectorRegistry(),
        clock=lambda: owner.now,
    )
    await one.start()
    await until(lambda: len(hook.bodies) == 1)
    await one.stop()


async def test_alertmanager_is_told_of_begin_and_end(hook: Receiver) -> None:
    """The v2 API gets the alert with an end in the future, then with its real end."""
    owner = Owner()
    owner.update(finding())
    async with notifying(owner, CollectorRegistry(), alertmanager=hook.url):
        await until(lambda: len(hook.bodies) == 1)
        owner.update(after=300)
        await until(lambda: len(hook.bodies) == 2)
    assert hook.paths == ["/api/v2/alerts"] * 2
    [first], [last] = hook.bodies
    assert first["labels"]["alertname"] == "ungrounded"
    assert first["endsAt"] > first["startsAt"]
    assert last["startsAt"] == first["startsAt"]


async def test_a_process_without_the_windows_sends_nothing(hook: Receiver) -> None:
    """Only the owner delivers."""
    one = Notifier(
        {"oncall": Route(webhook=SecretStr(hook.url), group_wait=0.0)},
        lambda: None,
        CollectorRegistry(),
    )
    await one.start()
    await asyncio.sleep(0.2)
    await one.stop()
    assert hook.requests == 0
