"""Groundedness by entailment: does some passage of the documents entail each sentence?

A cross-encoder reads each sentence of the response together with the passages that share most words
with it; a sentence is as well supported as its best passage entails it, and the response as its
worst sentence. Needs the extra `nli` and a model that was trained on natural language inference,
with a class named entailment.
"""

from __future__ import annotations

import msgspec

from assay.records import Turn
from scorers.extra.onnx import OnnxModel, located
from scorers.language import reads
from scorers.local.refusal import refusing
from scorers.scorer import Function, Verdict, scored, scorer, skipped
from scorers.text import content, content_set, sentences

ENTAILMENT = "entailment"
MOST_SENTENCES = 20
"""Sentences of a response that are looked at: the longest ones."""
MAX_NAMED, MAX_SENTENCE = 10, 300
"""Unsupported sentences that the details name, and characters of each."""


class NliOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: str = ""
    """Folder of the model, or its name on the hub."""
    passages: int = 4
    """Passages that each sentence is compared with."""
    span: int = 3
    """Sentences of a passage."""
    multilingual: bool = False
    """Whether the model reads other languages than English; else they are skipped."""
    most_tokens: int = 512
    """Of passage and sentence together; the rest is not read."""


@scorer("groundedness", engine="nli", version="1", options=NliOptions)
def groundedness(options: NliOptions) -> Function:
    folder = located(options.model, "nli")
    model = OnnxModel(folder, most_tokens=options.most_tokens)
    places = [at for at, name in model.labels.items() if name == ENTAILMENT]
    if len(places) != 1:
        raise ValueError(f"{folder}: config.json names no class {ENTAILMENT} in id2label")

    def score(turn: Turn) -> Verdict:
        if not (options.multilingual or reads(turn.response or "")):
            return skipped("language")
        found = sorted(claims(turn.response or ""), key=len, reverse=True)[:MOST_SENTENCES]
        if not found:
            return skipped("response without a claim")
        texts = [text for d in turn.documents for text in (d.title, d.content) if text]
        held = passages(texts, options.span)
        if not held:
            return skipped("context empty")
        pairs = [
            (passage, claim)
            for claim in found
            for passage in nearest(claim, held)[: options.passages]
        ]
        likely = entailed(model, pairs, places[0])
        best: dict[str, tuple[float, str]] = {}
        for (passage, claim), probability in zip(pairs, likely, strict=True):
            best[claim] = max(best.get(claim, (-1.0, "")), (probability, passage))
        worst = min(probability for probability, _ in best.values())
        failed = [claim for claim in found if best[claim][0] < 0.5][:MAX_NAMED]
        return scored(
            1 + 4 * worst,
            confidence=round(max(worst, 1 - worst), 4),
            unsupported=[claim[:MAX_SENTENCE] for claim in failed],
            passages=[best[claim][1][:MAX_SENTENCE] for claim in failed],
        )

    return score


def claims(response: str) -> list[str]:
    """The sentences that claim something: not refusals, questions or lone words."""
    return [
        sentence
        for sentence in sentences(response)
        if len(content(sentence)) >= 2 and not sentence.endswith("?") and not refusing(sentence)
    ]


def passages(texts: list[str], span: int) -> list[str]:
    """Stretches of `span` sentences, each beginning one sentence after the last one began."""
    found = []
    for text in texts:
        own = sentences(text)
        found += [
            " ".join(own[start : start + span]) for start in range(max(1, len(own) - span + 1))
        ]
    return list(dict.fromkeys(passage for passage in found if passage))


def nearest(claim: str, held: list[str]) -> list[str]:
    """The passages, those first that share most content words with the claim."""
    asked = content_set(claim)
    return sorted(held, key=lambda passage: -len(asked & content_set(passage)))


def entailed(model: OnnxModel, pairs: list[tuple[str, str]], place: int) -> list[float]:
    """The probability of entailment for each pair of passage and sentence."""
    import numpy as np

    found: list[float] = []
    for logits in model.outputs(pairs)[0]:
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        found += (odds[:, place] / odds.sum(axis=1)).tolist()
    return found
