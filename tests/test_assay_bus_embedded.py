from __future__ import annotations

import pytest
from bus_contract import TOPICS, BusContract

from assay.bus.embedded import EmbeddedBus


class TestEmbeddedBus(BusContract):
    @pytest.fixture
    def connect(self, tmp_path):
        return lambda: EmbeddedBus(tmp_path / "data", TOPICS)
