"""Build synonyms.txt.gz from WordNet 3.0: `python build_synonyms.py FOLDER`.

FOLDER holds WordNet's data.{noun,verb,adj,adv} and {noun,verb,adj,adv}.exc. The output is text:
for each part of speech a line `= n`, its synsets (one a line; single words, and the few phrases
that are the base form of a single word), a line `- n`, and its exception list. The same input gives
the same bytes.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_MARKER = re.compile(r"\([^()]*\)$")


def synsets(path: Path, phrases: set[str]) -> Iterator[str]:
    """The words and `phrases` of each synset as written, without an adjective's position marker."""
    for line in path.read_text("latin-1").splitlines():
        if line.startswith("  "):
            continue
        fields = line.split(" ")
        count = int(fields[3], 16)
        names = (_MARKER.sub("", name) for name in fields[4 : 4 + 2 * count : 2])
        kept = [name for name in names if "_" not in name or name.lower() in phrases]
        if kept:
            yield " ".join(kept)


def main(folder: Path) -> None:
    lines: list[str] = []
    for pos, name in FILES.items():
        listed = (folder / f"{name}.exc").read_text("latin-1").splitlines()
        exceptions = sorted(line for line in listed if "_" not in line.split()[0])
        phrases = {base for line in exceptions for base in line.split() if "_" in base}
        lines += [f"= {pos}", *sorted(synsets(folder / f"data.{name}", phrases))]
        lines += [f"- {pos}", *exceptions]
    text = "\n".join(lines) + "\n"
    target = Path(__file__).with_name("synonyms.txt.gz")
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
