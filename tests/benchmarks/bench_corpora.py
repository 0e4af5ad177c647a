"""What registered corpora cost: building the index, its size, memory, and a look-up.

`python tests/benchmarks/bench_corpora.py [MILLIONS OF WORDS]`. The texts are generated: words as
unevenly used as people use them. The limit of building is splitting the same texts into words, that
of a look-up reading the response into words.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scorers.corpora.registry import Lookup, add
from scorers.text import Text

VOCABULARY = np.array([f"word{number}" for number in range(50_000)], dtype=object)
PIECE = 10_000
RESPONSES = 300
RESPONSE = 150


def document(seed: int, words: int) -> Iterator[str]:
    generator = np.random.default_rng(seed)
    for _ in range(0, words, PIECE):
        ranks = generator.zipf(1.2, PIECE) % len(VOCABULARY)
        yield " ".join(VOCABULARY[ranks])


def memory() -> float:
    """MB of this process at its largest, mapped files left out on Linux by reading them late."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    pieces = list(document(0, 500_000))
    began = time.process_time()
    for piece in pieces:
        Text(piece).words  # noqa: B018
    split = time.process_time() - began
    began = time.process_time()
    for _ in document(1, 500_000):
        pass
    made = time.process_time() - began
    with tempfile.TemporaryDirectory() as name:
        folder, before = Path(name), memory()
        began = time.process_time()
        add(folder, "all", ((f"text {n}", document(n, 10**6)) for n in range(millions)))
        built = (time.process_time() - began) / (2 * millions) - made
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(
            f"{millions} million words: {0.5 / built:.2f} million words/s a core "
            f"(splitting alone {0.5 / split:.2f}), {size / 10**6:.0f} MB on disk "
            f"({size / millions / 10**6:.1f} bytes a word), at most {memory() - before:.0f} MB more"
        )
        lookup = Lookup(folder)
        assert lookup
        for found in (False, True):
            took = read = hits = 0.0
            for number in range(RESPONSES):
                seed = number % millions if found else 10**6 + number
                words = " ".join(document(seed, PIECE)).split()
                text = " ".join(words[number : number + RESPONSE])
                began = time.process_time()
                response = Text(text)
                response.words  # noqa: B018
                middle = time.process_time()
                match = lookup.longest(response)
                took += time.process_time() - middle
                read += middle - began
                hits += match is not None and match.repetition.words >= 20
            print(
                f"  look-up of {RESPONSE} words, {'repeated' if found else 'own'}: "
                f"{took / RESPONSES * 1000:.2f} ms (reading {read / RESPONSES * 1000:.2f} ms), "
                f"{hits / RESPONSES:.0%} found"
            )


if __name__ == "__main__":
    main()
