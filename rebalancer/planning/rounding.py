"""How figures are rounded for plans and explanations: one rule, so that two reports never disagree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rebalancer.cluster.arrays import FloatArray

PERCENT_DIGITS = 2
CHANCE_DIGITS = 6


def by_resource(names: Sequence[str], values: FloatArray) -> dict[str, float]:
    """Percentages or points by resource; those that are unknown or infinite are left out."""
    return {
        name: round(float(value), PERCENT_DIGITS)
        for name, value in zip(names, values, strict=True)
        if np.isfinite(value)
    }
