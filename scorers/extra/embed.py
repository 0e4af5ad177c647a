"""Relevance by meaning: how near the response's embedding is to the query's, in a sentence model.

It tells whether the response is on the query's subject, in other words too; which of two answers on
the subject is the better one it hardly tells, so confidence is low above the threshold. Needs the
extra `embed` and a model, e.g. all-MiniLM-L6-v2; the calibration is of that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from assay.records import Turn
from scorers.extra.onnx import OnnxModel, located
from scorers.language import reads
from scorers.local.weights import sigmoid
from scorers.scorer import Function, Verdict, scored, scorer, skipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

STEEP, MIDDLE = 14.0, 0.2
"""Of the logistic curve from cosine to the probability that the response is on the subject: fitted
on labelled rows against the responses to other queries (docs/engines.md)."""
MOST_SURE = 0.75
"""Confidence of a pass: on the subject is not yet a good answer."""


class EmbedOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: str = ""
    """Folder of the model, or its name on the hub."""
    multilingual: bool = False
    """Whether the model reads other languages than English; else they are skipped."""
    most_tokens: int = 256
    """Of each text; the rest is not read."""


@scorer("relevance", engine="embed", version="1", options=EmbedOptions)
def relevance(options: EmbedOptions) -> Function:
    model = OnnxModel(located(options.model, "embed"), most_tokens=options.most_tokens)

    def score(turn: Turn) -> Verdict:
        texts = turn.query or "", turn.response or ""
        if not (options.multilingual or all(map(reads, texts))):
            return skipped("language")
        query, response = embeddings(model, texts)
        cosine = float(query @ response)
        probability = sigmoid(STEEP * (cosine - MIDDLE))
        confidence = max(probability, 1 - probability)
        if probability >= 0.5:
            confidence = min(confidence, MOST_SURE)
        return scored(1 + 4 * probability, confidence=round(confidence, 4), cosine=round(cosine, 4))

    return score


def embeddings(model: OnnxModel, texts: Sequence[str]) -> NDArray[np.float32]:
    """A row of length 1 for each text: the mean over its tokens where the model gives one each."""
    import numpy as np

    rows = []
    for output, mask in zip(*model.outputs(texts), strict=True):
        found = output
        if output.ndim == 3:
            weights = mask[:, :, None].astype(np.float32)
            found = (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        rows.append(found / np.maximum(lengths, 1e-12))
    return np.concatenate(rows)
