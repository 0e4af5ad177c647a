from __future__ import annotations

from functools import partial

import pytest
from bus_contract import TOPICS, BusContract

from assay.bus.embedded import EmbeddedBus
from assay.bus.tail import Tail


class TestEmbeddedBus(BusContract):
    @pytest.fixture
    def connect(self, tmp_path):
        return lambda: EmbeddedBus(tmp_path / "data", TOPICS)


class TestEmbeddedBusWithoutTail(BusContract):
    """Every record is read from the file, as by a group that is far behind."""

    @pytest.fixture
    def connect(self, tmp_path, monkeypatch):
        monkeypatch.setattr("assay.bus.log.Tail", partial(Tail, 0))
        return lambda: EmbeddedBus(tmp_path / "data", TOPICS)
