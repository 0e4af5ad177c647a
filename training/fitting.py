"""Fitting and measuring that the scripts share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

Array = NDArray[np.float64]


def auroc(labels: Sequence[float], scores: Sequence[float] | Array) -> float:
    """Area under the ROC curve, labels of at least one half being positive."""
    return float(roc_auc_score(np.asarray(labels) >= 0.5, scores))


def interval(
    labels: Sequence[float],
    scores: Sequence[float] | Array,
    groups: Sequence[str],
    draws: int = 200,
) -> tuple[float, float]:
    """The 95 % bootstrap interval of `auroc`, whole groups being drawn."""
    random = np.random.default_rng(0)
    by_group: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        by_group.setdefault(str(group), []).append(place)
    members = [np.asarray(places) for places in by_group.values()]
    truth, found = np.asarray(labels) >= 0.5, np.asarray(scores)
    drawn = []
    for _ in range(draws):
        chosen = np.concatenate(
            [members[i] for i in random.integers(0, len(members), len(members))]
        )
        if 0 < truth[chosen].sum() < len(chosen):
            drawn.append(roc_auc_score(truth[chosen], found[chosen]))
    low, high = np.quantile(drawn, [0.025, 0.975]) if drawn else (float("nan"), float("nan"))
    return float(low), float(high)


def described(
    name: str, labels: Sequence[float], scores: Sequence[float] | Array, groups: Sequence[str]
) -> str:
    """The name of a data set, its `auroc` and the `interval` of that."""
    low, high = interval(labels, scores, groups)
    return f"{name} {auroc(labels, scores):.3f} [{low:.2f}, {high:.2f}]"


def constrained_logistic(
    values: Array, labels: Array, weights: Array, signs: Sequence[int], penalty: float
) -> tuple[Array, float]:
    """Weights and bias of a logistic regression whose weights have the given signs.

    The penalty is on the weights of standardised features. A sign that is known beforehand keeps a
    fit on some data sets from being wrong on another.
    """
    mean, spread = values.mean(0), values.std(0) + 1e-9
    standard = (values - mean) / spread

    def loss(point: Array) -> tuple[float, Array]:
        odds = standard @ point[:-1] + point[-1]
        error = weights * (1 / (1 + np.exp(-odds)) - labels)
        value = (weights * np.logaddexp(0, -odds * (2 * labels - 1))).sum()
        gradient = np.append(standard.T @ error + penalty * point[:-1], error.sum())
        return value + penalty / 2 * (point[:-1] ** 2).sum(), gradient

    bounds = [(0, None) if sign > 0 else (None, 0) for sign in signs]
    found = minimize(
        loss, np.zeros(len(signs) + 1), jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)]
    ).x
    coefficients = found[:-1] / spread
    return coefficients, float(found[-1] - coefficients @ mean)


def platt(odds: Array, labels: Array, weights: Array) -> tuple[float, float]:
    """Scale and shift that turn `odds` into calibrated log odds."""
    target = (labels >= 0.5).astype(float)

    def loss(point: Array) -> float:
        z = point[0] * odds + point[1]
        return float((weights * np.logaddexp(0, -z * (2 * target - 1))).sum())

    scale, shift = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead").x
    return float(scale), float(shift)


def balanced(labels: Sequence[float]) -> Array:
    """A weight for each row, so that both classes weigh one half."""
    truth = np.asarray(labels) >= 0.5
    return np.where(truth, 0.5 / max(1, truth.sum()), 0.5 / max(1, (~truth).sum()))
