"""The small models that stand beside the code as data: logistic regressions over named features."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from math import exp
from operator import mul

import msgspec


class Logistic(msgspec.Struct, frozen=True, kw_only=True):
    """A logistic regression whose probability was calibrated on data sets that it had not seen."""

    features: tuple[str, ...]
    """What the values stand for, in their order."""
    weights: tuple[float, ...]
    bias: float
    scale: float = 1.0
    """Calibration: the log odds are multiplied by it."""
    shift: float = 0.0
    """Calibration: added to the scaled log odds."""

    def score(self, values: Sequence[float]) -> float:
        """The uncalibrated log odds."""
        if len(values) != len(self.weights):
            raise ValueError(f"{len(values)} values instead of {len(self.weights)}")
        weighed: float = sum(map(mul, self.weights, values))
        return self.bias + weighed

    def probability(self, values: Sequence[float]) -> float:
        """The calibrated probability, 0 to 1."""
        return sigmoid(self.scale * self.score(values) + self.shift)


@cache
def logistic(name: str) -> Logistic:
    """The model in `data/<name>.json`."""
    return msgspec.json.decode(read(f"{name}.json"), type=Logistic)


def read(name: str) -> bytes:
    """The bytes of a file of the folder `data`."""
    return files("scorers").joinpath("data", name).read_bytes()


def sigmoid(odds: float) -> float:
    """The probability of log odds."""
    return 1 / (1 + exp(-max(-60.0, min(60.0, odds))))
