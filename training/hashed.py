"""Fitting and writing the hashed models of scorers/local/hashed.py."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from scorers.local.terms import NOWHERE, PARTS_WEIGHT, SIZE, Terms, word_places
from training.fitting import Array

DATA_FOLDER = Path(__file__).parents[1] / "scorers" / "data"


def matrix(
    texts: Iterable[tuple[Terms, Iterable[str]]],
    signs: Sequence[str],
    sentences: int | None = None,
) -> sp.csr_matrix:
    """A row for each text, given as its terms and the names of its signs.

    Only the words and pairs of the first `sentences` count.
    """
    places: list[int] = []
    values: list[float] = []
    starts = [0]
    sign_place = {name: SIZE + i for i, name in enumerate(signs)}
    for terms, found in texts:
        row: dict[int, float] = {}
        end = len(terms.words)
        if sentences is not None and len(terms.starts) > sentences:
            end = int(terms.starts[sentences])
        for number in filter(None, terms.words[:end].tolist()):
            own, parts = word_places(terms.vocabulary.words[number])
            row[own] = row.get(own, 0.0) + 1
            for part in parts:
                row[part] = row.get(part, 0.0) + PARTS_WEIGHT / math.sqrt(len(parts))
        for pair in terms.pairs[:end].tolist():
            if pair != NOWHERE:
                row[pair] = row.get(pair, 0.0) + 1
        norm = 1 / math.sqrt(terms.sizes[:sentences].sum())
        places += row.keys()
        values += [value * norm for value in row.values()]
        for name in found:
            places.append(sign_place[name])
            values.append(1.0)
        starts.append(len(places))
    return sp.csr_matrix(
        (np.asarray(values, np.float32), places, starts), shape=(len(starts) - 1, SIZE + len(signs))
    )


def fit(
    rows: sp.csr_matrix,
    labels: Array,
    weights: Array,
    strength: float,
    *,
    alike: bool = False,
    solver: str = "lbfgs",
) -> LogisticRegression:
    """A logistic regression; `alike`: both classes weigh the same."""
    used = np.unique(rows.indices)
    model = LogisticRegression(
        C=strength,
        solver=solver,
        max_iter=200,
        class_weight="balanced" if alike else None,
        random_state=0,
    ).fit(rows[:, used], labels, sample_weight=weights)
    wide = np.zeros((1, rows.shape[1]))
    wide[0, used] = model.coef_[0]
    model.coef_, model.n_features_in_ = wide, rows.shape[1]
    return model


def settings(model: LogisticRegression, signs: Sequence[str]) -> tuple[bytes, dict]:
    """The table of signed bytes and the settings with which `Hashed` is made."""
    weights = model.coef_[0]
    words = weights[:SIZE]
    unit = float(np.quantile(np.abs(words[words != 0]), 0.9995)) / 127
    table = np.clip(np.round(words / unit), -127, 127).astype(np.int8).tobytes()
    head = {
        "unit": unit,
        "bias": round(float(model.intercept_[0]), 5),
        "signs": {n: round(float(w), 4) for n, w in zip(signs, weights[SIZE:], strict=True)},
    }
    return table, head


def write(name: str, table: bytes, head: dict) -> int:
    """Write `scorers/data/<name>.z`; the number of bytes."""
    packed = zlib.compress(json.dumps(head).encode() + b"\n" + table, 9)
    (DATA_FOLDER / f"{name}.z").write_bytes(packed)
    return len(packed)
