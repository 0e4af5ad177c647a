"""Groundedness over a context that does not fit into one request.

The rule: the response is broken into claims; the context is split into parts that fit, and each
part is asked which claims it supports; a claim counts as supported when any part supports it. With
f the share of supported claims: on a 1-5 scale the value is 5 for f = 1, 3 for f >= 1/2, 2 for
f > 0, else 1; on a yes-or-no scale it is yes for f = 1. A claim that only two parts together
support counts as unsupported, which `details.method` lets a reader know.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec

from scorers.judging.asking import Asker, Evidence, Tally
from scorers.judging.evidence import Piece, numbered
from scorers.judging.faults import TooLong
from scorers.judging.library import Library
from scorers.judging.prompt import Prompt
from scorers.judging.tokens import PIECE_TOKENS, count_tokens
from scorers.scorer import Verdict

METRICS = ("groundedness", "groundedness_pro", "groundedness_binary")
MAX_PARTS = 40
"""Parts of a context; a longer one is left `overflow`."""


def parts_of(pieces: Sequence[Piece], limit: int) -> list[list[Piece]]:
    """`pieces` in order, in groups of at most `limit` tokens; a long piece is split by length."""
    groups: list[list[Piece]] = [[]]
    room = limit
    for piece in pieces:
        size = count_tokens(piece.text) + PIECE_TOKENS
        if size <= limit:
            fragments = [piece]
        else:
            step = max(1, (limit - PIECE_TOKENS) * len(piece.text) // (size + 1))
            fragments = [
                Piece(piece.name, piece.text[start : start + step])
                for start in range(0, len(piece.text), step)
            ]
        for fragment in fragments:
            size = count_tokens(fragment.text) + PIECE_TOKENS
            if size > room and groups[-1]:
                groups.append([])
                room = limit
            groups[-1].append(fragment)
            room -= size
    return groups


async def judge_in_parts(
    asker: Asker, library: Library, prompt: Prompt, evidence: Evidence, *, model: str, limit: int
) -> Verdict:
    """The verdict of `prompt` on evidence whose context needs several requests of `limit` tokens.

    Raises what `Asker.ask` raises.
    """
    listing = library.find("claims")
    checking = library.find("claims_supported")
    digest = hashlib.blake2b(
        "".join((prompt.digest, listing.digest, checking.digest)).encode(), digest_size=6
    ).hexdigest()
    tally = Tally()

    def closed(verdict: Verdict) -> Verdict:
        return msgspec.structs.replace(
            verdict, prompt_digest=digest, judge_usage=tally.usage, judge_latency=tally.seconds
        )

    first = await asker.ask(
        listing, {n: g for n, g in evidence.items() if n in listing.inputs}, model=model
    )
    tally.add(first.usage, first.seconds)
    if first.fault:
        return closed(Verdict(outcome="error", outcome_reason=first.fault))
    items = first.readings[0].details.get("claims", [])
    claims = [str(item["item"]) for item in items if item["checkable"] and item["item"]]
    if not claims:
        return closed(Verdict(outcome="not_applicable", outcome_reason="no claims"))
    shown = numbered("claim", claims)
    groups = parts_of(
        evidence["context"], limit - sum(count_tokens(p.text) + PIECE_TOKENS for p in shown)
    )
    if len(groups) > MAX_PARTS:
        raise TooLong("the context needs too many parts")
    weights = {"claims": [1.0] * len(claims)}
    steps = await asyncio.gather(
        *(
            asker.ask(checking, {"claims": shown, "context": group}, model=model, parts=weights)
            for group in groups
        )
    )
    for step in steps:
        tally.add(step.usage, step.seconds)
    fault = next((step.fault for step in steps if step.fault), "")
    if fault:
        return closed(Verdict(outcome="error", outcome_reason=fault))
    supported = [False] * len(claims)
    for step in steps:
        for number, verdict in enumerate(step.readings[0].details["verdicts"]):
            supported[number] |= bool(verdict["supported"])
    share = sum(supported) / len(claims)
    return closed(
        Verdict(
            value=value_of(share, prompt),
            reason=f"{sum(supported)} of {len(claims)} claims are supported by the context",
            details={
                "method": f"claims checked against {len(groups)} parts of the context",
                "claims": len(claims),
                "unsupported": [c for c, ok in zip(claims, supported, strict=True) if not ok],
            },
        )
    )


def value_of(share: float, prompt: Prompt) -> float:
    """The value on the prompt's scale for a share of supported claims."""
    bounds = prompt.scale.bounds
    if bounds == (0.0, 1.0):
        return float(share == 1.0)
    return 5.0 if share == 1.0 else 3.0 if share >= 0.5 else 2.0 if share > 0 else 1.0
