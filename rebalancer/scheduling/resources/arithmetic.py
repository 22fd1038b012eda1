"""The scheduler's arithmetic: Go's integer division and rounding.

Source: the Go specification, integer operators and conversions.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray


def divide_toward_zero(numerator: IntArray, denominator: IntArray | int) -> IntArray:
    """Integer division as Go does it; the denominator is positive."""
    return np.asarray(np.sign(numerator) * (np.abs(numerator) // denominator), np.int64)


def round_half_away(values: FloatArray) -> IntArray:
    """Go's math.Round: halves away from zero."""
    whole = np.trunc(values)
    return np.asarray(whole + np.sign(values) * (np.abs(values - whole) >= 0.5), np.int64)


def take(values: IntArray, rows: IntArray) -> IntArray:
    """The values of some rows, given in ascending order without repetition; not copied when that is all."""
    return values if len(rows) == len(values) else values.take(rows)
