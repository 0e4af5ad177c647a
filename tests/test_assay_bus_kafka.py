from __future__ import annotations

import secrets

import pytest
from bus_contract import TOPICS, BusContract
from kafka_broker import free_port

from assay.bus.kafka import KafkaBus
from assay.bus.kafka_member import HIDDEN
from assay.config import Kafka
from assay.errors import Permanent

pytestmark = pytest.mark.broker


@pytest.fixture
def settings(broker):
    return Kafka(
        bootstrap=broker.bootstrap,
        prefix=f"t{secrets.token_hex(4)}.",
        partitions=2,
        # A member that a busy machine keeps waiting is not to be taken for dead.
        options={"session_timeout_ms": 45_000},
    )


@pytest.mark.timeout(600)
class TestKafkaBus(BusContract):
    hidden = HIDDEN

    @pytest.fixture
    def connect(self, settings):
        return lambda: KafkaBus(settings, TOPICS)


async def test_a_wrong_address_fails_at_start_and_names_the_setting(refused, monkeypatch):
    """A bus that reaches no broker says so, and leaves nothing running."""
    monkeypatch.setattr("assay.bus.kafka_options.BOOTSTRAP", 0.5)
    bus = KafkaBus(Kafka(bootstrap=f"127.0.0.1:{free_port()}"), TOPICS)
    with pytest.raises(Permanent, match=r"bus\.kafka\.bootstrap: at 127\.0\.0\.1"):
        await bus.start()
    await bus.stop()
