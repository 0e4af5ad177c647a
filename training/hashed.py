"""Fitting and writing the hashed models of scorers/local/hashed.py."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from scorers.joined import Joined
from scorers.local.hashed import Signs
from scorers.local.terms import NO_WORD, NOWHERE, PARTS_WEIGHT, SIZE, joined_terms, word_places
from training.fitting import Array

DATA_FOLDER = Path(__file__).parents[1] / "scorers" / "data"


def matrix(
    texts: Joined, signs: Signs, names: Sequence[str], kept: NDArray[np.bool_] | None = None
) -> sp.csr_matrix:
    """A row for each text: its words and pairs, then its signs. Without a word the former are 0.

    Words and pairs count of those parts of `joined_terms` that are `kept`.
    """
    terms, count = texts.of(joined_terms), len(texts.texts)
    owner = terms.owner
    wanted = np.ones(len(owner), bool) if kept is None else kept
    part = np.repeat(np.arange(len(owner)), np.diff(terms.starts, append=len(terms.words)))
    words = np.flatnonzero(wanted[part] & (terms.words != NO_WORD))
    pairs = np.flatnonzero(wanted[part] & (terms.pairs != NOWHERE))
    numbers, which = np.unique(terms.words[words], return_inverse=True)
    rows = _sparse(owner[part[words]], which, (count, len(numbers)))
    rows = rows @ _words([terms.vocabulary.known[number] for number in numbers.tolist()])
    rows = rows + _sparse(owner[part[pairs]], terms.pairs[pairs], (count, SIZE))
    sizes = np.bincount(owner, wanted * terms.sizes, count)
    scale = sp.diags((1 / np.sqrt(np.maximum(sizes, 1))).astype(np.float32))
    having, place = np.nonzero(signs[:, None] >> np.arange(len(names)) & 1)
    return sp.hstack([scale @ rows, _sparse(having, place, (count, len(names)))]).tocsr()


def _sparse(rows: Array, columns: Array, shape: tuple[int, int]) -> sp.csr_matrix:
    return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape)


def _words(words: list[str]) -> sp.csr_matrix:
    """A row for each word: its own place and those of its parts."""
    found = [word_places(word) for word in words]
    sizes = np.array([len(parts) for _, parts in found])
    rows = np.arange(len(found))
    own = _sparse(rows, np.array([place for place, _ in found]), (len(found), SIZE))
    parts = _sparse(
        np.repeat(rows, sizes),
        np.fromiter(chain.from_iterable(parts for _, parts in found), int),
        (len(found), SIZE),
    )
    return own + sp.diags(PARTS_WEIGHT / np.sqrt(np.maximum(sizes, 1)).astype(np.float32)) @ parts


def fit(
    rows: sp.csr_matrix,
    labels: Array,
    weights: Array,
    strength: float,
    *,
    alike: bool = False,
    solver: str = "lbfgs",
    least: int = 1,
) -> LogisticRegression:
    """A logistic regression; `alike`: both classes weigh the same.

    A column that fewer than `least` rows have weighs nothing.
    """
    used = np.flatnonzero(np.bincount(rows.indices, minlength=rows.shape[1]) >= least)
    model = LogisticRegression(
        C=strength,
        solver=solver,
        max_iter=200,
        tol=1e-3 if solver == "lbfgs" else 1e-4,
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
