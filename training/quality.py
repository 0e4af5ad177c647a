"""Measure the local engines: python -m training.quality DATA OUT

The page goes to OUT and into scorers/data, from where `assay metrics report` prints it.

Groundedness is measured leaving each set out. The other engines are measured as they ship, on sets
of which no row is in their weights; what they reach with each set left out is printed where they
are fitted and stands in scorers/data/README.md.
"""

# ruff: noqa: E501 - lines of the page

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from scorers.local import attacks, harms
from scorers.local.hashed import hashed
from scorers.text import prepared
from training import groundedness, rule_engines
from training.attacks import NO_WORDS
from training.fitting import auroc, interval
from training.sources import Row, context, rows

HEADER = """# What the local engines reach

Written by `make quality DATA=FOLDER`; the folder of labelled rows is not in this repository. AUROC with the 95 % bootstrap interval, whole groups being drawn.
The local engines read words, not meaning: confidence is low where they are, and a judge decides better.

"""


def direct_odds(query: str) -> float:
    return max(attacks.direct([prepared(query)])[0][0], NO_WORDS)


def indirect_odds(text: str) -> float:
    return max(attacks.planted([prepared(text)])[0][0], NO_WORDS)


def unsafe(text: str) -> float:
    return max(harms.found([prepared(text)])[0].probabilities.values())


def figure(found: Sequence[Row], scores: Sequence[float]) -> str:
    labels = [row["label"] for row in found]
    low, high = interval(labels, scores, [row["group"] for row in found])
    return f"{auroc(labels, scores):.3f} [{low:.2f}, {high:.2f}]"


def share(found: Sequence[float], threshold: float) -> str:
    return f"{np.mean(np.asarray(found) >= threshold):.1%}"


def main(data: Path, out: Path) -> None:
    lines = [
        "## Groundedness, each set left out of the fit",
        "",
        "| set | rows | AUROC |",
        "|---|---|---|",
    ]
    sets = groundedness.load(data)
    odds = groundedness.left_out(sets)
    reached = {}
    for name in groundedness.SETS:
        reached[name] = auroc([row["label"] for row in sets[name]], odds[name])
        lines.append(f"| {name} | {len(sets[name])} | {figure(sets[name], odds[name])} |")
    hard = np.mean([reached[name] for name in groundedness.HARD])
    lines += [
        "",
        f"Mean {np.mean(list(reached.values())):.3f}; over the four hardest (both qags, q2, wice) {hard:.3f}.",
        "Published on the same kinds of rows: G-Eval with GPT-4 reaches Spearman 0.69 and 0.54 on the two qags sets.",
        "",
        "## As shipped, on sets of which no row is in the weights",
        "",
        "| engine | set | rows | AUROC | flagged among the positive | flagged among the rest |",
        "|---|---|---|---|---|---|",
    ]
    unseen: list[tuple[str, str, Callable[[Row], float], float]] = [
        (
            "direct_attack_attempt",
            "jailbreak/tensortrust",
            lambda r: direct_odds(r["query"]),
            hashed("direct_attack").threshold,
        ),
        (
            "direct_attack_attempt",
            "jailbreak/toxicchat_jailbreak",
            lambda r: direct_odds(r["query"]),
            hashed("direct_attack").threshold,
        ),
        ("harms", "safety/toxicchat", lambda r: unsafe(r["query"]), 0.5),
    ]
    for engine, name, score, threshold in unseen:
        found = rows(data, name)
        scores = [score(row) for row in found]
        yes = [s for s, row in zip(scores, found, strict=True) if row["label"] >= 0.5]
        no = [s for s, row in zip(scores, found, strict=True) if row["label"] < 0.5]
        lines.append(
            f"| {engine} | {name} | {len(found)} | {figure(found, scores)} | {share(yes, threshold)} | {share(no, threshold)} |"
        )
    lines += [
        "",
        "## False alarms of the planted-instruction engine on ordinary documents that it has not seen",
        "",
        "| documents | number | flagged |",
        "|---|---|---|",
    ]
    for name in ("qags_cnndm", "qags_xsum"):
        texts = sorted({context(row) for row in rows(data, f"groundedness/{name}")})
        flagged = share([indirect_odds(t) for t in texts], hashed("indirect_attack").threshold)
        lines.append(f"| {name} | {len(texts)} | {flagged} |")
    notes = Path(__file__).parents[1] / "scorers" / "data" / "README.md"
    told = [
        line
        for line in notes.read_text(encoding="utf-8").splitlines()
        if line.startswith("Mean AUROC")
    ]
    lines += [
        "",
        "## With each set left out of the fit, printed by the scripts that fit",
        "",
        *told,
        "",
        *rule_engines.lines(data),
    ]
    page = HEADER + "\n".join(lines).rstrip() + "\n"
    for file in (out, notes.parent / "quality.md"):
        file.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
