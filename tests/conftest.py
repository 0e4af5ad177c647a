"""The Kafka broker that tests share, which process runs them, and what the output's head says.

A test that cannot have its broker is skipped, and fails under CI.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import kafka_broker
import pytest


def pytest_report_header() -> str:
    reason = kafka_broker.missing()
    return f"broker: {kafka_broker.Broker.name}" if reason is None else f"broker: none, {reason}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of several processes one runs all the tests that share the broker."""
    for item in items:
        if item.get_closest_marker("broker"):
            item.add_marker(pytest.mark.xdist_group("broker"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_broker.Broker]:
    """The one broker of the session: what is shared is told apart by a prefix of its names."""
    yield from _running(tmp_path_factory.mktemp("broker"))


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[kafka_broker.Broker]:
    """A broker that the test may kill."""
    folder = tmp_path / "broker"
    folder.mkdir()
    yield from _running(folder)


@pytest.fixture
def refused() -> Iterator[None]:
    """For tests in which no broker answers: the client leaves each socket that was refused to the
    garbage collector, which may come at any time, at the latest here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


def _running(folder: Path) -> Iterator[kafka_broker.Broker]:
    try:
        broker = kafka_broker.Broker(folder)
    except kafka_broker.Missing as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no Kafka broker: {reason}")
        pytest.skip(f"no Kafka broker: {reason}")
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
