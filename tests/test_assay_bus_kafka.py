from __future__ import annotations

import secrets

import pytest
from bus_contract import TOPICS, BusContract
from kafka_broker import broker

from assay.bus.kafka import KafkaBus
from assay.config import Kafka

__all__ = ["broker"]


@pytest.fixture
def settings(broker):
    return Kafka(bootstrap=broker.bootstrap, prefix=f"t{secrets.token_hex(4)}.", partitions=2)


@pytest.mark.timeout(180)
class TestKafkaBus(BusContract):
    @pytest.fixture
    def connect(self, settings):
        return lambda: KafkaBus(settings, TOPICS)
