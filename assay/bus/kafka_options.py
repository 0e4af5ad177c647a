"""From the settings to what the clients take, and from their errors to ours."""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, errors
from kafka.net.compat import KafkaNetClient
from kafka.net.sasl.oauth import AbstractTokenProvider

from assay.config import Kafka, KafkaSASL
from assay.errors import Permanent, Retryable

T = TypeVar("T")
RETRY_AFTER = 2.0
"""Seconds that senders are told to wait while the brokers are away."""
BOOTSTRAP = 10.0
"""Seconds within which a broker must answer at start."""
LOGIN_MS = 10_000
"""Within which it must say why it does not let us in."""
TOKEN_MARGIN = 60.0
"""Seconds before its end at which a token is replaced."""

_OURS = frozenset(
    {
        *("acks", "enable_idempotence", "transactional_id", "isolation_level", "retries"),
        *("enable_auto_commit", "auto_offset_reset", "group_id", "partition_assignment_strategy"),
        *("key_serializer", "value_serializer", "key_deserializer", "value_deserializer"),
        *("kafka_client", "bootstrap_servers", "max_poll_records"),
    }
)
"""Options that delivery rests on."""
_AWAY = (
    errors.KafkaConnectionError,
    errors.KafkaTimeoutError,
    errors.NodeNotReadyError,
    errors.RequestTimedOutError,
    OSError,
)
_DENIED = (
    errors.AuthorizationError,
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)
_WRONG = (
    errors.KafkaConfigurationError,
    errors.InvalidTopicError,
    errors.InvalidPartitionsError,
    errors.InvalidReplicationFactorError,
    errors.InvalidConfigurationError,
    errors.PolicyViolationError,
    errors.UnsupportedVersionError,
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
)


class Clients:
    """Builds the options of each client from the settings."""

    def __init__(self, config: Kafka) -> None:
        # The clients log every attempt; here a failure is logged when it begins and ends.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        _check(config.options)
        self.config = config
        self._shared: dict[str, Any] = {
            "bootstrap_servers": [b.strip() for b in config.bootstrap.split(",")],
            "bootstrap_timeout_ms": int(BOOTSTRAP * 1000),
            "reconnect_backoff_max_ms": 2000,
            "request_timeout_ms": 8000,
            "client_id": "assay",
            "metrics_enabled": False,
            **_security(config),
        }

    def _of(self, known: Mapping[str, Any], **own: Any) -> dict[str, Any]:
        """Options of one kind of client; those of the settings win, as far as it knows them."""
        wanted = self._shared | own | self.config.options
        return {name: value for name, value in wanted.items() if name in known}

    def consumer(self, **own: Any) -> dict[str, Any]:
        """Of a reader. It reads committed records unless told otherwise."""
        fetch = self.config.max_record + 2**20
        return self._of(
            KafkaConsumer.DEFAULT_CONFIG,
            **{
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed",
                "allow_auto_create_topics": False,
                "max_partition_fetch_bytes": max(2 * 2**20, fetch),
                "fetch_max_bytes": max(16 * 2**20, fetch),
                "fetch_max_wait_ms": 250,
            }
            | own,
        )

    def producer(self, **own: Any) -> dict[str, Any]:
        """Of a writer: idempotent, confirmed by all replicas."""
        compression = self.config.compression
        return self._of(
            KafkaProducer.DEFAULT_CONFIG,
            acks="all",
            enable_idempotence=True,
            compression_type=None if compression == "none" else compression,
            batch_size=512 * 1024,
            max_request_size=self.config.max_record + 2**16,
            allow_auto_create_topics=False,
            **own,
        )

    def admin(self) -> dict[str, Any]:
        """Of one that creates topics and asks for offsets."""
        return self._of(KafkaAdminClient.DEFAULT_CONFIG)


def _check(options: Mapping[str, Any]) -> None:
    """Raises `Permanent` for options that no client knows, or that delivery rests on."""
    known = {
        name
        for client in (KafkaConsumer, KafkaProducer, KafkaAdminClient)
        for name in client.DEFAULT_CONFIG
    }
    faults = [
        f"bus.kafka.options.{name}: "
        + ("it is not for the settings to choose" if name in known else "no client knows it")
        for name in options
        if name not in known or name in _OURS
    ]
    if faults:
        raise Permanent("\n".join(faults))


def build(client: Callable[..., T], options: Mapping[str, Any]) -> T:
    """A client of `options`. One that cannot connect leaves nothing running behind."""
    made: list[Any] = []

    def network(**given: Any) -> Any:
        made.append(KafkaNetClient(**given))
        return made[-1]

    try:
        return client(**options, kafka_client=network)
    except BaseException:
        for each in made:
            each.close()
        raise


def refusal(options: Mapping[str, Any]) -> str | None:
    """Why no client of `options` can connect, after the setting that it is about; none when one
    can. The clients try again and again, and in the end tell nothing of the cause. Blocking."""
    network = KafkaNetClient(**{**KafkaAdminClient.DEFAULT_CONFIG, **options})
    manager = network._manager
    found = None
    try:
        for broker in manager.cluster.bootstrap_brokers():
            where = f"{broker.host}:{broker.port}"
            try:
                manager.run(_connect, manager, broker.node_id)
            except _DENIED as error:
                return f"bus.kafka.sasl: the login was refused by {where}: {error}"
            except (errors.KafkaError, OSError) as error:
                found = f"{_setting_of(error, options)} {where}: {error}"
            else:
                return None
    finally:
        network.close()
    return found


def _setting_of(error: Exception, options: Mapping[str, Any]) -> str:
    """What a connection failed on. A file that is missing raises an error of the system's, and a
    broker that refuses a login may end the connection before its answer is read."""
    if isinstance(error, OSError) or "Handshake failed" in str(error):
        return "bus.kafka.tls: with"
    if options.get("sasl_mechanism") and "disconnected" in str(error):
        return "bus.kafka.sasl: the login was refused by"
    return "bus.kafka.bootstrap: at"


async def _connect(manager: Any, node: str) -> None:
    await manager.get_connection(
        node,
        timeout_ms=LOGIN_MS,
        pop_on_close=False,
        refresh_metadata_on_err=False,
    )


def discard(producer: Any) -> None:
    """Close a producer that is of no more use, whatever it still holds."""
    with suppress(errors.KafkaError, OSError, RuntimeError):
        # Closing waits for what is unsent, without end or not at all; the sender is told first.
        producer._sender.force_close()
        producer.close(timeout=1.0)


def _security(config: Kafka) -> dict[str, Any]:
    tls, sasl = config.tls, config.sasl
    names = {
        (False, False): "PLAINTEXT",
        (True, False): "SSL",
        (False, True): "SASL_PLAINTEXT",
        (True, True): "SASL_SSL",
    }
    options: dict[str, Any] = {"security_protocol": names[tls is not None, sasl is not None]}
    if tls is not None:
        options |= {
            "ssl_check_hostname": tls.verify_host,
            "ssl_cafile": str(tls.ca) if tls.ca else None,
            "ssl_certfile": str(tls.cert) if tls.cert else None,
            "ssl_keyfile": str(tls.key) if tls.key else None,
        }
    if sasl is not None:
        options["sasl_mechanism"] = sasl.mechanism
        if sasl.mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = Tokens(sasl)
        else:
            assert sasl.password is not None
            options["sasl_plain_username"] = sasl.username
            options["sasl_plain_password"] = sasl.password.get_secret_value()
    return options


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """OAuth tokens: read from a file each time, or asked for and kept until shortly before their
    end."""

    def __init__(self, sasl: KafkaSASL) -> None:
        self._sasl = sasl
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        try:
            if self._sasl.token_file is not None:
                return self._sasl.token_file.read_text().strip()
            with self._lock:
                if time.monotonic() >= self._until:
                    self._ask()
                return self._token
        except (OSError, ValueError, KeyError) as error:
            raise errors.SaslAuthenticationFailedError(f"no token: {error}") from error

    def _ask(self) -> None:
        sasl = self._sasl
        assert sasl.client_secret is not None
        form = {
            "grant_type": "client_credentials",
            "client_id": sasl.client_id,
            "client_secret": sasl.client_secret.get_secret_value(),
        } | ({"scope": sasl.scope} if sasl.scope else {})
        request = urllib.request.Request(  # noqa: S310 - http or https, as the settings check
            str(sasl.token_url), urllib.parse.urlencode(form).encode()
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            issued = json.load(answer)
        self._token = str(issued["access_token"])
        lifetime = float(issued.get("expires_in", 300))
        self._until = time.monotonic() + max(1.0, lifetime - TOKEN_MARGIN)


def ours(error: BaseException, what: str) -> Permanent | Retryable:
    """The error of a client as one of ours. What may pass is Retryable: brokers come back, and
    what is unknown is tried again rather than given up."""
    if isinstance(error, _AWAY):
        return Retryable(f"{what}: the brokers do not answer", RETRY_AFTER)
    if isinstance(error, _DENIED):
        return Permanent(f"{what}: the brokers deny it ({type(error).__name__})")
    if isinstance(error, (*_WRONG, ValueError, TypeError, AssertionError)):
        return Permanent(f"{what}: {type(error).__name__}: {error}")
    return Retryable(f"{what}: {type(error).__name__}", RETRY_AFTER)


@contextmanager
def mapped(what: str) -> Iterator[None]:
    """Raises errors of the clients, and of the network below them, as ours."""
    try:
        yield
    except (errors.KafkaError, OSError, RuntimeError, ValueError, TypeError) as error:
        raise ours(error, what) from error
