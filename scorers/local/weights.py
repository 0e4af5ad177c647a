"""The small models that stand beside the code as data: logistic regressions over named features."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from math import exp
from operator import mul

import msgspec
import numpy as np
from numpy.typing import NDArray


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

    def odds(self, columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """The calibrated log odds of several cases; `columns` has an array for each feature."""
        if len(columns) != len(self.weights):
            raise ValueError(f"{len(columns)} features instead of {len(self.weights)}")
        weighed = sum(map(mul, self.weights, columns), np.zeros(()))
        return self.scale * (self.bias + weighed) + self.shift


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
