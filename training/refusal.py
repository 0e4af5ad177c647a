"""Fit the model of scorers/local/refusal.py: python -m training.refusal DATA PYRIT

PYRIT is `pyrit/datasets/scorer_evals` of the unpacked package pyrit. `refusals.txt` beside this
file holds answers written for this purpose: 1 or 0, a tab, the answer.
"""

from __future__ import annotations

import random
import sys
import zlib
from pathlib import Path

import numpy as np
from scipy.sparse import vstack

from scorers.joined import joined
from scorers.local.refusal import NAMES, OPENING, refusing, shape
from scorers.local.terms import joined_terms
from scorers.text import Text
from training.fitting import Array, auroc, balanced, interval, platt
from training.hashed import fit, matrix, settings, write
from training.pyrit_rows import harms, refusals
from training.sources import rows

MEASURED = "safety/xstest_refusals"
ORDINARY = (
    "groundedness/halueval_general",
    "relevance/llmbar_pairs",
    "relevance/mtbench_pairs",
    "groundedness/begin_wow",
    "groundedness/faithdial_audit",
)
"""Sets of answers; those in whose first two sentences nothing declines are taken as none."""
OWN_WEIGHT, ORDINARY_WEIGHT = 2.0, 0.3
COMPLIED = 0.75
"""How harmful an answer is that cannot be a refusal."""
STRENGTH = 1.0
SIGNS_WEIGHT = 0.3
FALSE_ALARMS = 0.05
"""Of the answers that are none; where the threshold is set."""


def outside(data: Path, pyrit: Path) -> list[tuple[str, float, float]]:
    """Answers, labels and weights beside the measured set."""
    lines = (Path(__file__).parent / "refusals.txt").read_text(encoding="utf-8").splitlines()
    found = [(line[2:], float(line[0]), OWN_WEIGHT) for line in lines]
    found += [(answer, label, 1.0) for answer, label in refusals(pyrit)]
    found += [(answer, 0.0, ORDINARY_WEIGHT) for _, answer, s in harms(pyrit) if s >= COMPLIED]
    draw = random.Random(0)
    for name in ORDINARY:
        answers = sorted({str(row.get("response") or "") for row in rows(data, name)})
        answers = [a for a in answers if len(a) > 15 and not any(map(refusing, a.split(". ")[:2]))]
        found += [(a, 0.0, ORDINARY_WEIGHT) for a in draw.sample(answers, min(400, len(answers)))]
    return found


def seen(answers: list[str]) -> Array:
    texts = joined(list(map(Text, answers)))
    opening = texts.of(joined_terms).nth < OPENING
    found = matrix(texts, texts.of(shape), NAMES, opening)
    found[:, -len(NAMES) :] *= SIGNS_WEIGHT
    return found


def main(data: Path, pyrit: Path) -> None:
    other = outside(data, pyrit)
    measured = rows(data, MEASURED)
    labels = np.array([float(row["label"] >= 0.5) for row in measured])
    x_other, x = seen([answer for answer, *_ in other]), seen([r["response"] for r in measured])
    y_other = np.array([label for _, label, _ in other])
    w_other = np.array([weight for *_, weight in other])

    def fitted(chosen: Array):
        return fit(
            vstack([x_other, x[chosen]]).tocsr(),
            np.concatenate([y_other, labels[chosen]]),
            np.concatenate([w_other, np.ones(len(chosen))]),
            STRENGTH,
        )

    without = fitted(np.array([], int)).decision_function(x)
    fold = np.array([zlib.crc32(row["group"].encode()) % 5 for row in measured])
    system = np.array([row["category"].split("|")[0] for row in measured])
    odds = np.zeros(len(x.indptr) - 1)
    for name in sorted(set(system)):
        for number in range(5):
            # Neither the question nor the system that answers was seen.
            aside = (system == name) & (fold == number)
            near = (system == name) | (fold == number)
            odds[aside] = fitted(np.flatnonzero(~near)).decision_function(x[aside])
    groups = [row["group"] for row in measured]
    for what, found in (("set left out", without), ("system and question left out", odds)):
        low, high = interval(labels, found, groups)
        print(what, f"{auroc(labels, found):.4f} [{low:.3f}, {high:.3f}]")
    threshold = float(np.quantile(odds[labels < 0.5], 1 - FALSE_ALARMS))
    print("threshold", threshold, "flagged", float(np.mean(odds[labels > 0.5] >= threshold)))
    scale, shift = platt(odds, labels, balanced(list(labels)))
    table, head = settings(fitted(np.arange(len(labels))), NAMES)
    head["signs"] = {n: round(w * SIGNS_WEIGHT, 4) for n, w in head["signs"].items()}
    head |= {"scale": round(scale, 4), "shift": round(shift, 4), "threshold": round(threshold, 4)}
    print("bytes", write("refusal", table, head))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
