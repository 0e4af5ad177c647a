"""Where messages go. A target answers only whether another attempt may help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from jinja2 import Template

from assay.errors import Permanent, Retryable
from exporters.alerting.lifecycle import State
from exporters.notify.bodies import (
    alertmanager_body,
    labels_with_name,
    moment,
    slack_body,
    template_body,
    to_json,
)
from exporters.notify.groups import Message

TIMEOUT = 10.0
STILL_FIRING = 300.0
"""Seconds after which an Alertmanager takes an alert as over when we say no more of it."""


class Webhook:
    """Posts a body to a URL."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        headers: Mapping[str, str],
        template: str | Template,
    ) -> None:
        """`template` is `json`, `slack`, or the user's own."""
        self._client = client
        self._url = url
        self._headers = {"content-type": "application/json", **headers}
        self._template = template

    async def send(self, message: Message) -> None:
        if isinstance(self._template, Template):
            body = template_body(self._template, message)
        else:
            build = slack_body if self._template == "slack" else alertmanager_body
            body = to_json(build(message))
        await post(self._client, self._url, body, self._headers)


class Alertmanager:
    """An Alertmanager by its v2 API. It groups, repeats and silences by itself, so it is told of
    every alert again and again."""

    def __init__(self, client: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> None:
        self._client = client
        self._url = f"{url}/api/v2/alerts"
        self._headers = {"content-type": "application/json", **headers}

    async def tell(self, alerts: Sequence[State], now: float) -> None:
        """Say that these fire, or are over."""
        body = to_json_list(alerts, now)
        await post(self._client, self._url, body, self._headers)


def to_json_list(alerts: Sequence[State], now: float) -> bytes:
    """The body of POST /api/v2/alerts."""
    listed: list[dict[str, Any]] = [
        {
            "labels": labels_with_name(alert),
            "annotations": alert.annotations,
            "startsAt": moment(alert.since),
            "endsAt": moment(alert.resolved if alert.state == "resolved" else now + STILL_FIRING),
            "generatorURL": alert.annotations.get("board", ""),
        }
        for alert in alerts
    ]
    return to_json(listed)


async def post(
    client: httpx.AsyncClient, url: str, body: bytes, headers: Mapping[str, str]
) -> None:
    """Post once. Raises Retryable where another attempt may help, else Permanent; neither names
    the URL, which may hold a secret."""
    try:
        answer = await client.post(url, content=body, headers=headers, timeout=TIMEOUT)
    except httpx.HTTPError as error:
        raise Retryable(f"the receiver does not answer: {type(error).__name__}") from None
    except (httpx.InvalidURL, UnicodeEncodeError):
        raise Permanent("the receiver's address is no URL") from None
    if answer.status_code == 429 or answer.status_code >= 500:
        after = answer.headers.get("retry-after", "")
        raise Retryable(
            f"the receiver answers {answer.status_code}", float(after) if after.isdigit() else None
        )
    if answer.status_code >= 300:
        raise Permanent(f"the receiver answers {answer.status_code}")
