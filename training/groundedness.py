"""Fit the model of scorers/local/groundedness.py: python -m training.groundedness DATA"""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from scorers.joined import Joined
from scorers.local import groundedness as engine
from scorers.local.support import support
from scorers.text import prepared
from scorers.vocabulary import Numbers
from training.fitting import Array, auroc, balanced, constrained_logistic, platt
from training.sources import MEASURED_ONLY, Row, context, rows

SETS = (
    "qags_cnndm",
    "qags_xsum",
    "begin_wow",
    "begin_tc_cmu",
    "faithdial_audit",
    "q2_wow",
    "wice_claim",
    "halueval_qa",
)
HARD = ("qags_cnndm", "qags_xsum", "q2_wow", "wice_claim")
SUMMARIES = "summeval"
"""Only trained on: expert consistency of summaries, full marks against the rest."""
SIGNS = (1, 1, 1, 1, 1, 1, -1, -1, -1, -1)
CLAIMLESS = (1.0,) * 6 + (0.0,) * 4
"""The features of a response without a word that carries meaning."""
PENALTY = 50.0
SEEN_IN = 3
"""Contexts in which a stem must stand to get a rarity of its own."""
DATA_FOLDER = Path(__file__).parents[1] / "scorers" / "data"


def load(data: Path) -> dict[str, list[Row]]:
    found = {name: rows(data, f"groundedness/{name}") for name in SETS}
    found[SUMMARIES] = rows(data, "quality/summeval")
    for row in found[SUMMARIES]:
        row["label"] = float(row["labels"]["consistency"] > 0.95)
    return found


def write_rarity(sets: dict[str, list[Row]]) -> None:
    """Log inverse document frequency of the stems in the contexts that may be used."""
    contexts = {
        context(row)
        for name in SETS
        if f"groundedness/{name}" not in MEASURED_ONLY
        for row in sets[name]
    }
    seen: Counter[str] = Counter()
    for text in contexts:
        seen.update(prepared(text).content_set)
    total = len(contexts)
    lines = [f"{math.log(total / 2):.2f}"] + [
        f"{word} {math.log(total / (count + 1)):.2f}"
        for word, count in sorted(seen.items())
        if count >= SEEN_IN
    ]
    (DATA_FOLDER / "rarity.txt.z").write_bytes(zlib.compress("\n".join(lines).encode(), 9))


def measure(row: Row) -> tuple[float, ...]:
    """The features of a row; a response without a claim is measured whole."""
    places = engine.placed(
        [row["response"]], [[context(row)]], [row.get("query") or ""], claim=_claims
    )
    if not len(places.claims.counts):
        return CLAIMLESS
    columns = engine.features(support(places), np.zeros(1, np.intp))
    return tuple(float(column[0]) for column in columns)


def _claims(response: Joined) -> Numbers:
    found = engine.claims(response)
    return found if len(found) else np.unique(response.sentence[response.stems[1]])


def fit(names: list[str], values: dict[str, Array], labels: dict[str, list[float]]):
    weights = np.concatenate([balanced(labels[name]) for name in names])
    return constrained_logistic(
        np.concatenate([values[name] for name in names]),
        np.concatenate([np.asarray(labels[name]) >= 0.5 for name in names]).astype(float),
        weights * 500 / weights.sum(),
        SIGNS,
        PENALTY,
    )


def left_out(sets: dict[str, list[Row]]) -> dict[str, Array]:
    """The log odds of each set's rows by a model that has not seen the set."""
    values = {name: np.array([measure(row) for row in found]) for name, found in sets.items()}
    labels = {name: [row["label"] for row in found] for name, found in sets.items()}
    usable = [n for n in (*SETS, SUMMARIES) if f"groundedness/{n}" not in MEASURED_ONLY]
    odds = {}
    for name in SETS:
        coefficients, bias = fit([n for n in usable if n != name], values, labels)
        odds[name] = values[name] @ coefficients + bias
    return odds


def main(data: Path) -> None:
    sets = load(data)
    write_rarity(sets)
    odds = left_out(sets)
    reached = {n: auroc([r["label"] for r in sets[n]], odds[n]) for n in SETS}
    for name, figure in reached.items():
        print(f"{name:18}{figure:.3f}")
    print(f"mean {np.mean(list(reached.values())):.4f}")
    print(f"hard {np.mean([reached[n] for n in HARD]):.4f}")
    values = {name: np.array([measure(row) for row in found]) for name, found in sets.items()}
    labels = {name: [row["label"] for row in found] for name, found in sets.items()}
    usable = [n for n in (*SETS, SUMMARIES) if f"groundedness/{n}" not in MEASURED_ONLY]
    coefficients, bias = fit(usable, values, labels)
    seen = [n for n in usable if n != SUMMARIES]
    scale, shift = platt(
        np.concatenate([odds[n] for n in seen]),
        np.concatenate([labels[n] for n in seen]),
        np.concatenate([balanced(labels[n]) for n in seen]),
    )
    model = {
        "features": engine.FEATURES,
        "weights": [round(float(c), 5) for c in coefficients],
        "bias": round(bias, 5),
        "scale": round(scale, 4),
        "shift": round(shift, 4),
    }
    (DATA_FOLDER / "groundedness.json").write_text(json.dumps(model, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
