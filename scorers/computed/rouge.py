"""ROUGE: rouge-score's values, on tokens that also know other scripts than ASCII.

rouge-score keeps only a-z and 0-9. A text with other letters is split by script instead, and each
different token is written as an ASCII word, so that the same implementation counts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import msgspec

from assay.records import Turn
from scorers.computed.similarity import references
from scorers.pieces import stem
from scorers.scorer import Function, Verdict, scored, scorer, skipped
from scorers.text import words

MAX_CHARACTERS = 100_000
"""The longest common subsequence is quadratic: longer texts are `overflow`."""

RougeType = Literal["rouge1", "rouge2", "rouge3", "rouge4", "rouge5", "rougeL", "rougeLsum"]


class RougeOptions(msgspec.Struct, frozen=True, kw_only=True):
    rouge_type: RougeType = "rouge1"
    stemmer: bool = False
    """Porter's stemmer, for English."""


class Rouge(NamedTuple):
    precision: float
    recall: float
    fmeasure: float


_OTHER_LETTER = re.compile(r"[^\W_a-zA-Z0-9]")
_LATIN_WORD = re.compile(r"[a-zA-Z0-9]")


@cache
def _implementation(rouge_type: str, stemmer: bool) -> Callable[[str, str], dict[str, Any]]:
    """rouge-score-rs where it is installed, else rouge-score; both give the same values."""
    fast = find_spec("rouge_score_rs") is not None
    module: Any = import_module(f"{'rouge_score_rs' if fast else 'rouge_score'}.rouge_scorer")
    score: Callable[[str, str], dict[str, Any]]
    score = module.RougeScorer([rouge_type], use_stemmer=stemmer).score
    return score


@lru_cache(maxsize=64)
def rouge(response: str, reference: str, rouge_type: str, stemmer: bool) -> Rouge | None:
    """Precision, recall and F1; none when a text has no token at all."""
    if _needs_script(response) or _needs_script(reference):
        numbers: dict[str, str] = {}
        response, reference = (_spelled(text, numbers, stemmer) for text in (response, reference))
        stemmer = False
    if not _LATIN_WORD.search(response) or not _LATIN_WORD.search(reference):
        return None
    found = _implementation(rouge_type, stemmer)(reference, response)[rouge_type]
    return Rouge(found.precision, found.recall, found.fmeasure)


def _needs_script(text: str) -> bool:
    return not text.isascii() and (
        _OTHER_LETTER.search(text) is not None or _LATIN_WORD.search(text) is None
    )


def _spelled(text: str, numbers: dict[str, str], stemmer: bool) -> str:
    """`text` with each different token as an ASCII word of its own; lines stay lines."""
    return "\n".join(
        " ".join(
            numbers.setdefault(stem(word) if stemmer else word, f"w{len(numbers)}")
            for token in words(line)
            for word in token.split("'")
        )
        for line in text.split("\n")
    )


def _scores(turn: Turn, options: RougeOptions, part: int) -> Verdict:
    response = turn.response or ""
    quadratic = options.rouge_type.startswith("rougeL")
    if quadratic and max(map(len, (response, *references(turn)))) > MAX_CHARACTERS:
        return Verdict(outcome="overflow", outcome_reason="response or ground_truth")
    found = [
        result
        for reference in references(turn)
        if (result := rouge(response, reference, options.rouge_type, options.stemmer)) is not None
    ]
    if not found:
        return skipped("response or ground_truth empty")
    best = max(found, key=lambda result: result.fmeasure)
    return scored(best[part], rouge_type=options.rouge_type, stemmer=options.stemmer)


@scorer("rouge_precision", version="1", options=RougeOptions)
def rouge_precision(options: RougeOptions) -> Function:
    return lambda turn: _scores(turn, options, 0)


@scorer("rouge_recall", version="1", options=RougeOptions)
def rouge_recall(options: RougeOptions) -> Function:
    return lambda turn: _scores(turn, options, 1)


@scorer("rouge_f1_score", version="1", options=RougeOptions)
def rouge_f1_score(options: RougeOptions) -> Function:
    return lambda turn: _scores(turn, options, 2)
