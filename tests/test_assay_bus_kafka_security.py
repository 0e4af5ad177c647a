"""TLS and SASL against the broker itself, and what a start says that the brokers do not let in."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import kafka_broker
import pytest
from debian_tools import program

from assay.bus.contract import Outgoing, Topic
from assay.bus.kafka import KafkaBus
from assay.config import Kafka
from assay.errors import Permanent

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
TOPICS = (
    Topic(name="in", partitions=1, retention=3600.0),
    Topic(name="out", partitions=1, retention=3600.0),
)
PASSWORD = "correct-horse"
unclosed = pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning",
    "ignore:Exception ignored in. <(ssl|socket):pytest.PytestUnraisableExceptionWarning",
)
"""The client leaves sockets of connections that failed to the garbage collector."""


def _openssl(*arguments: str | Path) -> None:
    subprocess.run([program("openssl"), *map(str, arguments)], check=True, capture_output=True)


def _signed(folder: Path, name: str, subject: str) -> tuple[Path, Path]:
    """A key and a certificate for 127.0.0.1 that the folder's authority signed."""
    key, request, cert = (folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1")
    # fmt: off
    _openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request,
             "-subj", subject)
    _openssl("x509", "-req", "-in", request, "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
             "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", cert)
    # fmt: on
    return key, cert


def _authority(folder: Path) -> None:
    # fmt: off
    _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test-ca",
             "-keyout", folder / "ca.key", "-out", folder / "ca.crt")
    # fmt: on


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker that lets in whom it knows; `stranger` may do nothing."""
    folder = tmp_path_factory.mktemp("guarded")
    _authority(folder)
    key, cert = _signed(folder, "server", "/CN=broker")
    _signed(folder, "client", "/CN=assay")
    (folder / "server.pem").write_text(key.read_text() + cert.read_text())
    jaas = "org.apache.kafka.common.security"
    ports = {"SASL_SSL": kafka_broker.free_port(), "SSL": kafka_broker.free_port()}
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.crt"),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{jaas}.plain.PlainLoginModule required user_assay="{PASSWORD}" '
            f'user_stranger="{PASSWORD}";'
        ),
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": (
            f"{jaas}.scram.ScramLoginModule required;"
        ),
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            f"{jaas}.scram.ScramLoginModule required;"
        ),
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
            f"{jaas}.oauthbearer.OAuthBearerLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:assay;User:CN=assay",
    }
    scram = [
        argument
        for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for argument in ("--add-scram", f"{kind}=[name=assay,password={PASSWORD}]")
    ]
    try:
        broker = kafka_broker.Broker(
            folder, listeners=ports, settings=settings, format_options=scram
        )
    except kafka_broker.Missing as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no Kafka broker: {reason}")
        pytest.skip(f"no Kafka broker: {reason}")
    broker.start()
    yield SimpleNamespace(
        folder=folder,
        sasl=f"127.0.0.1:{ports['SASL_SSL']}",
        tls=f"127.0.0.1:{ports['SSL']}",
    )
    broker.stop()


def settings(bootstrap: str, **given) -> Kafka:
    return Kafka(bootstrap=bootstrap, prefix=f"s{secrets.token_hex(4)}.", **given)


def by_password(guarded, mechanism="PLAIN", username="assay", password=PASSWORD) -> Kafka:
    return settings(
        guarded.sasl,
        tls={"ca": guarded.folder / "ca.crt"},
        sasl={"mechanism": mechanism, "username": username, "password": password},
    )


def token() -> str:
    """An unsigned token, which the broker's own test validator takes."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": "assay", "iat": now, "exp": now + 300}
    encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*encoded, ""])


@pytest.fixture
def issuer():
    """An endpoint that issues tokens for the client credentials id:secret."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.rfile.read(int(self.headers["content-length"])).decode())
            body = json.dumps({"access_token": token(), "expires_in": 300}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_address[1]}/token", asked=asked)
    server.shutdown()
    server.server_close()
    thread.join()


async def works(config: Kafka) -> None:
    """Records are written, read in a group and committed."""
    bus = KafkaBus(config, TOPICS)
    await bus.start()
    try:
        await bus.publish([Outgoing("in", b"x", partition=0)])
        consumer = bus.consumer("g", ["in"])
        await consumer.start()
        records = await consumer.poll(timeout=60)
        await consumer.commit(outputs=[Outgoing("out", b"y", partition=0)], done=records)
        await consumer.stop()
        assert [record.value async for record in bus.read("out")] == [b"y"]
    finally:
        await bus.stop()


async def refusal(config: Kafka) -> str:
    """What a start says that fails for good, with nothing left running."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.bus.kafka_options.BOOTSTRAP", 2.0)
        bus = KafkaBus(config, TOPICS)
    with pytest.raises(Permanent) as caught:
        await bus.start()
    await bus.stop()
    return str(caught.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_user_and_password_over_tls(guarded, mechanism):
    """Every mechanism with a password lets the known user in, over TLS of an own authority."""
    await works(by_password(guarded, mechanism))


async def test_a_token_from_a_file(guarded, tmp_path):
    """OAUTHBEARER takes the token that the file holds."""
    (tmp_path / "token").write_text(token() + "\n")
    await works(
        settings(
            guarded.sasl,
            tls={"ca": guarded.folder / "ca.crt"},
            sasl={"mechanism": "OAUTHBEARER", "token_file": tmp_path / "token"},
        )
    )


async def test_a_token_is_asked_for_and_kept(guarded, issuer):
    """OAUTHBEARER asks the issuer by client credentials; each connection of a client uses the same
    token until shortly before its end."""
    await works(
        settings(
            guarded.sasl,
            tls={"ca": guarded.folder / "ca.crt"},
            sasl={
                "mechanism": "OAUTHBEARER",
                "token_url": issuer.url,
                "client_id": "id",
                "client_secret": "s3cret",
                "scope": "kafka",
            },
        )
    )
    assert set(issuer.asked) == {
        "grant_type=client_credentials&client_id=id&client_secret=s3cret&scope=kafka"
    }
    assert len(issuer.asked) == 1


async def test_a_client_certificate(guarded):
    """Where the broker wants certificates, the client shows its own."""
    folder = guarded.folder
    tls = {"ca": folder / "ca.crt", "cert": folder / "client.crt", "key": folder / "client.key"}
    await works(settings(guarded.tls, tls=tls))


@unclosed
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_told(guarded, refused, mechanism):
    """The start fails, and says whom the broker denies by which setting, without the password."""
    said = await refusal(by_password(guarded, mechanism, password="wrong-battery"))
    assert said.startswith(f"bus.kafka.sasl: the login was refused by {guarded.sasl}:")
    assert "wrong-battery" not in said


@unclosed
async def test_a_broker_of_an_unknown_authority_is_refused(guarded, refused, tmp_path):
    """A certificate that the given authority did not sign ends the start, and names the setting."""
    _authority(tmp_path)
    said = await refusal(settings(guarded.tls, tls={"ca": tmp_path / "ca.crt"}))
    assert said.startswith(f"bus.kafka.tls: with {guarded.tls}:")
    assert "CERTIFICATE_VERIFY_FAILED" in said


@unclosed
async def test_a_missing_file_is_told(guarded, refused, tmp_path):
    """An authority's file that is not there ends the start, and names the setting."""
    said = await refusal(settings(guarded.tls, tls={"ca": tmp_path / "none.crt"}))
    assert said.startswith("bus.kafka.tls:") and "No such file" in said


@unclosed
async def test_an_issuer_that_is_away_is_told(guarded, refused):
    """Where no token can be had, the start ends with that."""
    sasl = {
        "mechanism": "OAUTHBEARER",
        "token_url": f"http://127.0.0.1:{kafka_broker.free_port()}/token",
        "client_id": "id",
        "client_secret": "s3cret",
    }
    said = await refusal(settings(guarded.sasl, tls={"ca": guarded.folder / "ca.crt"}, sasl=sasl))
    assert said.startswith("bus.kafka.sasl:") and "no token" in said and "s3cret" not in said


@unclosed
async def test_missing_rights_are_told_with_the_topic(guarded):
    """A user without rights is told which topic is denied."""
    config = by_password(guarded, username="stranger")
    said = await refusal(config)
    assert f"{config.prefix}in" in said and "deny" in said


def test_a_command_ends_with_what_is_wrong(guarded, tmp_path):
    """A command that is not let in says so in one line on standard error, and exits with 1."""
    kafka = {
        "bootstrap": guarded.sasl,
        "tls": {"ca": str(guarded.folder / "ca.crt")},
        "sasl": {"mechanism": "PLAIN", "username": "assay", "password": "wrong-battery"},
    }
    (tmp_path / "assay.yaml").write_text(json.dumps({"bus": {"kafka": kafka}}))
    done = subprocess.run(
        [sys.executable, "-m", "assay.cli.main", "assemble"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert "bus.kafka.sasl" in line and "wrong-battery" not in done.stderr


async def test_a_denied_start_leaves_no_task_behind(guarded):
    """After a refusal the loop has nothing left to do."""
    before = asyncio.all_tasks()
    await refusal(by_password(guarded, username="stranger"))
    assert asyncio.all_tasks() == before
