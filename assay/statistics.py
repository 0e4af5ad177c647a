"""Statistics that several rooms need."""

from __future__ import annotations

import math

Z95 = 1.959963984540054
"""The normal distribution's 97.5 % quantile."""


def wilson(p: float, n: float, z: float = Z95) -> tuple[float, float]:
    """Limits of a share `p` seen in `n` (not necessarily whole) independent trials."""
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)
