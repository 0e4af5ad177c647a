"""One draw per trace, and the probabilities that it is compared with.

A trace's draw u is uniform in [0, 1) and a pure function of its id. Each decision on the way keeps
what has u < p. Decisions with the same draw are nested: a turn that survives probabilities p and q
has survived min(p, q), and one that is kept with p x r was kept with p. So whatever decides again,
here, elsewhere or in a replay, agrees, and a kept turn stands for 1 / p turns.

The draw follows OpenTelemetry's consistent probability sampling: R is 56 random bits, the low bits
of the trace id or tracestate `ot=rv`; a sampler with threshold T (`ot=th`) keeps R >= T. With
u = (2^56 - 1 - R) / 2^56 and p = (2^56 - T) / 2^56 that is u < p.
"""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_left
from collections.abc import Iterable

_ALL = 1 << 56
_ULP = 2.0**-53
_HEX = re.compile(r"[0-9a-f]{1,14}", re.ASCII)

GRID = tuple(math.exp2(-k / 4) for k in range(39, -1, -1))
"""The ratios that the program may choose itself, ascending: 2^(-k/4), all above 1/1000."""


def draw(trace_id: bytes, trace_state: str = "") -> float:
    """The trace's draw in [0, 1), from its id, or from the `rv` of its W3C tracestate."""
    value = _field(trace_state, "rv") if trace_state else ""
    randomness = (
        int(value, 16) if len(value) == 14 else int.from_bytes(trace_id[-7:].rjust(7, b"\0"), "big")
    )
    # 56 bits do not fit a float: rounding down keeps the draw below 1.
    return ((_ALL - 1 - randomness) >> 3) * _ULP


def upstream_probability(trace_state: str) -> float:
    """The probability in (0, 1] that the samplers before us announced as `th`; 1 without one.

    Rounded up where a float cannot hold it, so that what they kept has a draw below it.
    """
    value = _field(trace_state, "th") if trace_state else ""
    if not value:
        return 1.0
    return ((_ALL - int(value.ljust(14, "0"), 16) + 7) >> 3) * _ULP


def conversation_draw(app: str, conversation_id: str) -> float:
    """One draw in [0, 1) for all turns of a conversation."""
    text = f"{app}\x1f{conversation_id}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * _ULP


def head_probability(trace_states: Iterable[str], head_ratio: float) -> float:
    """The probability with which a trace has come as far as the assembler.

    Upstream samplers and our own door compare the same draw, so the smallest probability decides.
    """
    return min([head_ratio, *map(upstream_probability, trace_states)])


def on_grid(ratio: float) -> float:
    """The smallest ratio of the grid that is at least `ratio`; 1 for anything above 1."""
    return GRID[min(bisect_left(GRID, ratio), len(GRID) - 1)]


def _field(trace_state: str, name: str) -> str:
    """The lower-case hex digits of a sub-key of the `ot` entry; empty when absent or malformed."""
    for entry in trace_state.split(","):
        key, _, value = entry.strip().partition("=")
        if key == "ot":
            for field in value.split(";"):
                sub_key, _, digits = field.partition(":")
                if sub_key == name:
                    return digits if _HEX.fullmatch(digits) else ""
            return ""
    return ""
