"""The labelled rows, and which of them may enter weights that are shipped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]

MEASURED_ONLY = {
    "groundedness/qags_cnndm": "no data licence stated",
    "groundedness/qags_xsum": "no data licence stated",
    "jailbreak/tensortrust": "no licence file",
    "jailbreak/toxicchat_jailbreak": "CC BY-NC 4.0",
    "jailbreak/inthewild_vs_chat": "negatives CC BY-NC 4.0 (the positives are MIT)",
    "safety/toxicchat": "CC BY-NC 4.0",
    "safety/harmful_requests": "negatives CC BY-NC 4.0 (the positives are MIT and CC BY 4.0)",
}
"""Sets whose licence does not allow shipped weights, or allows it for a part only."""


def rows(data: Path, name: str) -> list[Row]:
    """The rows of `data/<name>.jsonl`."""
    with (data / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def context(row: Row) -> str:
    """The context as one text."""
    found = row.get("context") or ""
    return "\n".join(map(str, found)) if isinstance(found, list) else str(found)


def shippable(names: Iterable[str]) -> list[str]:
    """Those whose rows may enter the weights whole."""
    return [name for name in names if name not in MEASURED_ONLY]
