"""Attacks: a jailbreak in the query, an instruction planted in documents or tool results. English.

Linear models over hashed words, word pairs and named signs give log odds; the threshold is set on
harmless texts (docs/quality.md), because an alarm on an ordinary request costs more than a missed
attempt. `confidence` is the calibrated probability of the answer; `details.signs` names what was
seen where the odds are highest, never the text. What hides its words (other alphabets, ciphers,
images) or asks politely for one step at a time is not seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import msgspec

from assay.records import Turn
from scorers.joined import Joined, joined
from scorers.language import reads_each
from scorers.local.attack_model import whole, worst
from scorers.local.attack_signs import SIGNS
from scorers.local.hashed import Hashed, Odds, hashed
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import Text, of_each, prepared

WHOLE = 0.3
"""The weight of the whole query beside its worst stretch."""

Found = tuple[float, int]
"""The log odds of an attack, minus infinity where there are no words, and the signs of it."""


@scorer("direct_attack_attempt", engine="local", version="4", batched=True)
def direct_attack_attempt(turns: Sequence[Turn]) -> list[Verdict]:
    texts = [prepared(turn.query or "") for turn in turns]
    return [
        _verdict(hashed("direct_attack"), found, "query without words")
        if readable
        else skipped("language")
        for readable, found in zip(reads_each(texts), of_each(texts, direct), strict=True)
    ]


@scorer("indirect_attack_attempt", engine="local", version="4", batched=True)
def indirect_attack_attempt(turns: Sequence[Turn]) -> list[Verdict]:
    own = [list(map(prepared, _texts(turn))) for turn in turns]
    every = list(chain.from_iterable(own))
    readable = [text for text, reads in zip(every, reads_each(every), strict=True) if reads]
    found = dict(zip(readable, of_each(readable, planted), strict=True))
    return [_worst([found[text] for text in texts if text in found], texts) for texts in own]


def direct_odds(model: Hashed, texts: Joined) -> Odds:
    """The weighted mean of the log odds of the whole text and of its worst stretch."""
    odds: Odds = WHOLE * whole(model, texts) + (1 - WHOLE) * worst(model, texts).odds
    return odds


def direct(texts: Sequence[Text]) -> list[Found]:
    """What each query holds. Use it as `of_each(texts, direct)`."""
    model, every = hashed("direct_attack"), joined(texts)
    odds, signs = direct_odds(model, every), worst(model, every).signs
    return list(zip(odds.tolist(), signs.tolist(), strict=True))


def planted(texts: Sequence[Text]) -> list[Found]:
    """What each document holds. Use it as `of_each(texts, planted)`."""
    odds, signs = worst(hashed("indirect_attack"), joined(texts))
    return list(zip(odds.tolist(), signs.tolist(), strict=True))


def _worst(found: list[Found], texts: list[Text]) -> Verdict:
    if not texts:
        return skipped("documents or tool_calls empty")
    if not found:
        return skipped("language")
    highest = max(found, key=lambda each: each[0])
    return _verdict(hashed("indirect_attack"), highest, "documents or tool_calls without words")


def _verdict(model: Hashed, found: Found, without_words: str) -> Verdict:
    odds, signs = found
    if math.isinf(odds):
        return skipped(without_words)
    attempt = odds >= model.threshold
    probability = model.probability(odds)
    return scored(
        attempt,
        confidence=round(probability if attempt else 1 - probability, 4),
        signs=sorted(SIGNS.named(signs)) if attempt else [],
    )


def _texts(turn: Turn) -> list[str]:
    """The documents and tool results."""
    texts = [document.content for document in turn.documents if document.content]
    return texts + [_text(call.result) for call in turn.tool_calls if call.result is not None]


def _text(result: object) -> str:
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()
