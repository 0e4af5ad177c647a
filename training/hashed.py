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

from scorers.local.terms import PARTS_WEIGHT, SIZE, Terms, word_places
from training.fitting import Array

DATA_FOLDER = Path(__file__).parents[1] / "scorers" / "data"


def matrix(
    texts: Iterable[tuple[Sequence[Terms], Iterable[str]]], signs: Sequence[str]
) -> sp.csr_matrix:
    """A row for each text, given as its sentences' terms and the names of its signs."""
    places: list[int] = []
    values: list[float] = []
    starts = [0]
    sign_place = {name: SIZE + i for i, name in enumerate(signs)}
    for sentences, found in texts:
        row: dict[int, float] = {}
        for terms in sentences:
            for word in terms.words:
                own, parts = word_places(word)
                row[own] = row.get(own, 0.0) + 1
                for part in parts:
                    row[part] = row.get(part, 0.0) + PARTS_WEIGHT / math.sqrt(len(parts))
            for pair in terms.pairs:
                row[pair] = row.get(pair, 0.0) + 1
        norm = 1 / math.sqrt(sum(terms.size for terms in sentences) or 1)
        places += row.keys()
        values += [value * norm for value in row.values()]
        for name in found:
            if name in sign_place:
                places.append(sign_place[name])
                values.append(1.0)
        starts.append(len(places))
    return sp.csr_matrix(
        (np.asarray(values, np.float32), places, starts), shape=(len(starts) - 1, SIZE + len(signs))
    )


def fit(
    rows: sp.csr_matrix, labels: Array, weights: Array, strength: float, *, alike: bool
) -> LogisticRegression:
    """A logistic regression; `alike`: both classes weigh the same."""
    model = LogisticRegression(
        C=strength,
        solver="liblinear",
        max_iter=200,
        class_weight="balanced" if alike else None,
        random_state=0,
    )
    return model.fit(rows, labels, sample_weight=weights)


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
