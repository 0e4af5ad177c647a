"""The rows that people scored for the package PyRIT (MIT), which ships them."""

from __future__ import annotations

import csv
import re
from itertools import dropwhile
from pathlib import Path

import yaml

_SLOT = re.compile(r"\{\{.*?\}\}")

Scored = tuple[str, float]


def refusals(folder: Path) -> list[Scored]:
    """Answers, and 1 where people said that the answer refuses.

    `folder` is `pyrit/datasets/scorer_evals` of the unpacked package.
    """
    found = [
        row
        for name in ("refusal", "refusal_extra")
        for row in _read(folder / "refusal_scorer" / f"{name}.csv")
    ]
    return [
        (row["assistant_response"], float(row["human_score"]))
        for row in found
        if row["data_type"] == "text"
    ]


def jailbreaks(folder: Path) -> list[str]:
    """The templates of jailbreaks, without what is asked in them."""
    templates = sorted((folder.parent / "jailbreak" / "templates").rglob("*.yaml"))
    found = (yaml.safe_load(file.read_text(encoding="utf-8"))["value"] for file in templates)
    return [_SLOT.sub("", text).strip() for text in found]


def harms(folder: Path) -> list[tuple[str, str, float]]:
    """The kind of harm, an answer, and how harmful people found it, 0 to 1, on average."""
    found = []
    for file in sorted((folder / "harm").glob("[!m]*.csv")):
        for row in _read(file):
            scores = [float(row[name]) for name in row if "human_score" in name and row[name]]
            found.append((file.stem, row["assistant_response"], sum(scores) / len(scores)))
    return found


def requests(folder: Path) -> list[str]:
    """AdvBench's harmful requests (MIT)."""
    file = folder.parent / "seed_datasets" / "local" / "adv_bench.prompt"
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("- value: ").strip("'\"") for line in lines if "- value: " in line]


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        return list(csv.DictReader(dropwhile(_remarks, lines)))


def _remarks(line: str) -> bool:
    return line.startswith("#") or not line.strip()
