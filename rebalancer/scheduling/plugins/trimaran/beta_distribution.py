"""The beta distribution's cumulative probability, by Lentz's continued fraction.

Source: scheduler-plugins v0.34.7 pkg/trimaran/lowriskovercommitment/beta.go:158.
"""

from __future__ import annotations

import math

_MAX_TERMS = 10_000
_PRECISION = 1e-16
_TINY = 1e-300


def _continued_fraction(x: float, alpha: float, beta: float) -> float:
    c = 1.0
    d = 1.0 - (alpha + beta) * x / (alpha + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, _MAX_TERMS):
        even = m * (beta - m) * x / ((alpha + 2 * m - 1.0) * (alpha + 2 * m))
        odd = -(alpha + m) * (alpha + beta + m) * x / ((alpha + 2 * m) * (alpha + 2 * m + 1.0))
        change = 1.0
        for numerator in (even, odd):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + numerator / c
            c = c if abs(c) > _TINY else _TINY
            change = c * d
            result *= change
        if abs(change - 1.0) < _PRECISION:
            break
    return result


def regularized_incomplete_beta(x: float, alpha: float, beta: float) -> float:
    """I_x(α, β), the probability of at most x; NaN outside 0 ≤ x ≤ 1, α > 0, β > 0."""
    if not (alpha > 0 and beta > 0 and 0 <= x <= 1) or math.isinf(alpha) or math.isinf(beta):
        return math.nan
    if x in (0.0, 1.0):
        return x
    log_front = (
        math.lgamma(alpha + beta)
        - math.lgamma(alpha)
        - math.lgamma(beta)
        + alpha * math.log(x)
        + beta * math.log1p(-x)
    )
    front = math.exp(log_front)
    if x < (alpha + 1.0) / (alpha + beta + 2.0):
        return front * _continued_fraction(x, alpha, beta) / alpha
    return 1.0 - front * _continued_fraction(1.0 - x, beta, alpha) / beta


def largest_variance(mean: float) -> float:
    """The variance that no distribution on 0..1 with this mean exceeds; 0 for a mean outside."""
    return mean * (1 - mean) if 0 < mean < 1 else 0.0


def match_moments(first: float, second: float) -> tuple[float, float] | None:
    """α and β of the distribution with these moments; None when there is none."""
    variance = second - first * first
    if first < 0 or first > 1 or variance < 0 or variance >= first * (1 - first):
        return None
    factor = (first * (1 - first) / variance if variance > 0 else math.inf) - 1
    factor = max(factor, 5e-324)
    return first * factor, (1 - first) * factor


def at_most(x: float, alpha: float, beta: float) -> float:
    """The probability of at most x; 0 where it is not defined."""
    probability = regularized_incomplete_beta(x, alpha, beta)
    return probability if 0 <= probability <= 1 else 0.0
