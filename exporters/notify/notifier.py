"""Delivers the alerts of the owner: each route by itself, so that one that is away holds up none.

What was sent is remembered in the alerts' state, which is committed after the sending: a message
may be repeated after a crash, and is never lost by one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import httpx
from prometheus_client import CollectorRegistry

from assay import series
from assay.config import Route
from assay.errors import AssayError, Retryable, retrying
from assay.telemetry import Trouble
from exporters.alerting.alerts import Alerts, Sent
from exporters.notify.bodies import load_template
from exporters.notify.groups import due
from exporters.notify.targets import Alertmanager, Webhook

EVERY = 1.0
"""Seconds between looks at what is owed."""
TELL_EVERY = 60.0
"""Seconds between reports to an Alertmanager when nothing has changed."""
TOLD_RESOLVED = 900.0
"""Seconds for which an Alertmanager is told that an alert is over."""
ATTEMPTS = 60.0
"""Seconds for which one message is tried before the next look."""
AFTER_FAILURE = 30.0
"""Seconds until a route that failed is tried again."""

log = logging.getLogger(__name__)


class Notifier:
    """Sends what the routes are owed while this process owns the alerts."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        alerts: Callable[[], Alerts | None],
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`alerts` gives none while another process owns them. Raises ConfigError when a route's
        template cannot be used."""
        self._alerts = alerts
        self._clock = clock
        self._count = series.instrument(registry, series.NOTIFICATIONS)
        self._routes = dict(routes)
        self._templates = {
            name: route.template
            if isinstance(route.template, str)
            else load_template(route.template, f"notify.{name}.template")
            for name, route in routes.items()
        }
        self._trouble = {name: Trouble(log, f"notify.{name}") for name in routes}
        self._told: dict[str, tuple[float, dict[str, str]]] = {}
        self._client: httpx.AsyncClient | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._client = httpx.AsyncClient()
        self._tasks = [
            asyncio.create_task(self._serve(name, route), name=f"notify.{name}")
            for name, route in self._routes.items()
        ]

    async def stop(self) -> None:
        """Safe twice and without start."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _serve(self, name: str, route: Route) -> None:
        assert self._client is not None
        headers = {key: value.get_secret_value() for key, value in route.headers.items()}
        webhook = manager = None
        if route.webhook is not None:
            url = route.webhook.get_secret_value()
            webhook = Webhook(self._client, url, headers, self._templates[name])
        if route.alertmanager is not None:
            manager = Alertmanager(self._client, route.alertmanager, headers)
        while True:
            pause = EVERY
            for target, work in (("webhook", webhook), ("alertmanager", manager)):
                alerts = self._alerts()
                if work is None or alerts is None:
                    continue
                try:
                    if isinstance(work, Webhook):
                        await self._send_due(name, route, work, alerts)
                    else:
                        await self._tell(name, work, alerts)
                except AssayError as error:
                    self._failed(name, target, error)
                    pause = AFTER_FAILURE
                except Exception as error:
                    log.exception("notify.%s met a fault of its own and goes on", name)
                    self._failed(name, target, error)
                    pause = AFTER_FAILURE
            await asyncio.sleep(pause)

    async def _send_due(self, name: str, route: Route, webhook: Webhook, alerts: Alerts) -> None:
        owed = due(
            name,
            route,
            alerts.lifecycle.alerts,
            alerts.silences,
            alerts.sent,
            self._clock(),
        )
        for message in list(owed):
            states = message.states()
            await self._deliver(name, "webhook", partial(webhook.send, message))
            if states:
                alerts.sent[message.key] = Sent(states, self._clock())
            else:
                alerts.sent.pop(message.key, None)

    async def _deliver(
        self, name: str, target: str, attempt: Callable[[], Awaitable[None]]
    ) -> None:
        def again(error: Retryable, wait: float) -> None:
            self._count.labels(name, target, "retried").inc()
            self._trouble[name].failed(error)

        await retrying(attempt, deadline=ATTEMPTS, on_retry=again)
        self._count.labels(name, target, "sent").inc()
        self._trouble[name].worked()

    def _failed(self, name: str, target: str, error: Exception) -> None:
        self._count.labels(name, target, "failed").inc()
        self._trouble[name].failed(error)

    async def _tell(self, name: str, manager: Alertmanager, alerts: Alerts) -> None:
        now = self._clock()
        known = {
            fingerprint: alert
            for fingerprint, alert in alerts.lifecycle.alerts.items()
            if alert.route == name
            and (alert.state == "firing" or now - alert.resolved < TOLD_RESOLVED)
            and alert.state != "pending"
            and not alerts.silences.covers(alert.labels)
        }
        states: dict[str, str] = {fingerprint: alert.state for fingerprint, alert in known.items()}
        at, told = self._told.get(name, (0.0, {}))
        if known and (states != told or now - at >= TELL_EVERY):
            every = list(known.values())
            await self._deliver(name, "alertmanager", partial(manager.tell, every, now))
            self._told[name] = now, states
