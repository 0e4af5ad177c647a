"""Text similarity to a ground truth: METRICS.md's F1, BLEU, GLEU and exact match.

A ground truth may be a list of references: empty ones are left out and the best one counts.
Texts in scripts without spaces are split into letters, and `details.tokens` says so.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from assay.records import Turn
from scorers.pieces import normal, split_spaceless
from scorers.scorer import Verdict, scored, scorer, skipped

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def references(turn: Turn) -> list[str]:
    """The references of the turn that are not blank."""
    truth = turn.ground_truth
    given = (truth,) if isinstance(truth, str) else truth or ()
    return [reference for reference in given if reference.strip()]


def best(turn: Turn, score: Callable[[str, str], float], tokens: str) -> Verdict:
    """The best `score(response, reference)` over the references; skipped without a word in either.

    `tokens` names the way of splitting, for `details`.
    """
    response = turn.response or ""
    values = [score(response, reference) for reference in references(turn)]
    if not values:
        return skipped("ground_truth empty")
    by_letter = not response.isascii() and _by_letter(response)
    return scored(max(values), tokens="letters" if by_letter else tokens)


def _by_letter(text: str) -> bool:
    return any(len(split_spaceless(word)) > 1 for word in normal(text).split())


@lru_cache(maxsize=128)
def squad_tokens(text: str) -> tuple[str, ...]:
    """SQuAD's tokens: lower case, without punctuation and articles, split at white space."""
    composed = text if text.isascii() else unicodedata.normalize("NFC", text)
    bare = _ARTICLES.sub(" ", composed.lower().translate(_PUNCTUATION)).split()
    if text.isascii():
        return tuple(bare)
    return tuple(part for token in bare for part in split_spaceless(token))


def squad_f1(response: str, reference: str) -> float:
    """F1 over the shared tokens, as often as both have them; 1 when neither has any."""
    ours, theirs = squad_tokens(response), squad_tokens(reference)
    if not ours or not theirs:
        return float(ours == theirs)
    shared = (Counter(ours) & Counter(theirs)).total()
    return 2 * shared / (len(ours) + len(theirs))


@scorer("f1_score", version="1")
def f1_score(turn: Turn) -> Verdict:
    return best(turn, squad_f1, "squad")


@cache
def _nltk() -> tuple[Callable[[str], list[str]], Callable[..., float], Callable[..., float], Any]:
    """nltk's word tokeniser that needs no data, BLEU, GLEU, and smoothing method 4."""
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
    from nltk.translate.gleu_score import sentence_gleu

    return NLTKWordTokenizer().tokenize, sentence_bleu, sentence_gleu, SmoothingFunction().method4


@lru_cache(maxsize=128)
def nltk_tokens(text: str) -> tuple[str, ...]:
    """nltk's word tokens; letters where the script has no spaces."""
    tokens: Sequence[str] = _nltk()[0](normal(text))
    if text.isascii():
        return tuple(tokens)
    return tuple(part for token in tokens for part in split_spaceless(token) or [token])


def bleu(response: str, reference: str) -> float:
    """nltk's sentence BLEU of up to 4-grams with smoothing method 4, at most 1."""
    _, sentence_bleu, _, smoothing = _nltk()
    ours, theirs = nltk_tokens(response), nltk_tokens(reference)
    return min(1.0, float(sentence_bleu([theirs], ours, smoothing_function=smoothing)))


def gleu(response: str, reference: str) -> float:
    """nltk's sentence GLEU of up to 4-grams."""
    return float(_nltk()[2]([nltk_tokens(reference)], nltk_tokens(response)))


@scorer("bleu_score", version="1")
def bleu_score(turn: Turn) -> Verdict:
    return best(turn, bleu, "nltk")


@scorer("gleu_score", version="1")
def gleu_score(turn: Turn) -> Verdict:
    return best(turn, gleu, "nltk")


@scorer("exact_match", version="1")
def exact_match(turn: Turn) -> Verdict:
    return scored(turn.response in references(turn))
