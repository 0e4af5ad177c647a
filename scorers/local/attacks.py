"""Attacks: a jailbreak in the query, an instruction planted in documents or tool results. English.

Linear models over hashed words, word pairs and named signs give log odds; the threshold is set on
harmless texts (docs/quality.md), because an alarm on an ordinary request costs more than a missed
attempt. `confidence` is the calibrated probability of the answer; `details.signs` names what was
seen where the odds are highest, never the text. What hides its words (other alphabets, ciphers,
images) or asks politely for one step at a time is not seen.
"""

from __future__ import annotations

import msgspec

from assay.records import Turn
from scorers.language import reads
from scorers.local.attack_model import whole, worst
from scorers.local.hashed import Hashed, hashed
from scorers.scorer import Verdict, scored, scorer, skipped
from scorers.text import Text, prepared


@scorer("direct_attack_attempt", engine="local", version="3")
def direct_attack_attempt(turn: Turn) -> Verdict:
    """The mean of the odds of the whole query and of its worst stretch."""
    query = turn.query or ""
    if not reads(query):
        return skipped("language")
    text = prepared(query)
    model = hashed("direct_attack")
    found = worst(model, text)
    if found is None:
        return skipped("query without words")
    odds, signs = found
    return _verdict(model, (whole(model, text) + odds) / 2, signs)


@scorer("indirect_attack_attempt", engine="local", version="3")
def indirect_attack_attempt(turn: Turn) -> Verdict:
    """The odds of the worst stretch of any document or tool result."""
    texts = [d.content for d in turn.documents if d.content]
    texts += [_text(call.result) for call in turn.tool_calls if call.result is not None]
    if not texts:
        return skipped("documents or tool_calls empty")
    readable = [text for text in texts if reads(text)]
    if not readable:
        return skipped("language")
    model = hashed("indirect_attack")
    found = [each for text in readable if (each := prepared(text).of(_planted))]
    if not found:
        return skipped("documents or tool_calls without words")
    return _verdict(model, *max(found, key=lambda each: each[0]))


def _planted(text: Text) -> tuple[float, frozenset[str]] | None:
    return worst(hashed("indirect_attack"), text)


def _verdict(model: Hashed, odds: float, signs: frozenset[str]) -> Verdict:
    attempt = odds >= model.threshold
    probability = model.probability(odds)
    return scored(
        attempt,
        confidence=round(probability if attempt else 1 - probability, 4),
        signs=sorted(signs) if attempt else [],
    )


def _text(result: object) -> str:
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()
