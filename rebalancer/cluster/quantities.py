"""Kubernetes quantities as exact integers, parsed strictly.

The API server accepts ``<sign><digits[.digits]><suffix>``; the suffix is binary (Ki … Ei), decimal
(n, u, m, none, k … E) or an exponent. Floats never enter: 0.1 is one tenth, and sums stay exact.
``amount`` and ``checked_amount`` give them in the scheduler's units: thousandths of a core, bytes, counts.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_QUANTITY = re.compile(
    r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII
)
_LONGEST = 64
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_LARGEST = (1 << 63) - 1
# What a suffix multiplies by, as numerator and denominator.
_SCALE: dict[str | None, tuple[int, int]] = {
    None: (1, 1),
    **{suffix: (1 << power, 1) for suffix, power in _BINARY.items()},
    **{suffix: (10 ** max(power, 0), 10 ** max(-power, 0)) for suffix, power in _DECIMAL.items()},
}


def ratio(text: str) -> tuple[int, int]:
    """The exact value of a quantity, numerator and denominator as they come: a fraction without its cost.

    Raises ValueError for anything the API server would refuse.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a Kubernetes quantity; write e.g. 500m, 2, 1.5Gi")
    sign, digits, suffix, exponent = match.groups()
    numerator, denominator = _SCALE[suffix]
    if digits.isdigit() and not exponent:  # the usual case
        value = int(digits) * numerator
        return (-value if sign == "-" else value), denominator
    exact = Fraction(digits) * Fraction(numerator, denominator) * Fraction(10) ** int(exponent or 0)
    return (-exact.numerator if sign == "-" else exact.numerator), exact.denominator


@lru_cache(maxsize=65536)
def parse(text: str) -> Fraction:
    """The exact value of a quantity; raises ValueError for anything the API server would refuse."""
    return Fraction(*ratio(text))


def units_of(value: Fraction) -> int:
    """An exact sum of quantities, rounded up once; saturating at the int64 the scheduler keeps it in."""
    return max(-_LARGEST, min(_LARGEST, -(-value.numerator // value.denominator)))


def milli_of(value: Fraction) -> int:
    """An exact sum of CPU quantities in thousandths, rounded up once."""
    return units_of(value * 1000)


@lru_cache(maxsize=65536)
def cpu_milli(text: str) -> int:
    """CPU in thousandths of a core, rounded up; ValueError for a bad quantity."""
    return milli_of(parse(text))


@lru_cache(maxsize=65536)
def units(text: str) -> int:
    """Bytes or counts, rounded up; ValueError for a bad quantity."""
    return units_of(parse(text))


# Exact in a float; a hundred times the sum of several still fits the scheduler's int64.
MAX_AMOUNT = 1 << 53


def amount(resource: str, text: str) -> int:
    """A quantity in the scheduler's unit: thousandths for cpu, whole units for all else."""
    return cpu_milli(text) if resource == "cpu" else units(text)


def checked_amount(where: str, resource: str, text: str) -> int:
    """As ``amount`` of ``where.resource``; ValueError naming it, also for one that is negative or so large
    that the scheduler's sums could overflow.
    """
    try:
        value = amount(resource, text)
        if value < 0:
            raise ValueError(f"{text[:64]} is negative")
        if value > MAX_AMOUNT:
            raise ValueError(f"{text[:64]} is more than any machine has")
    except ValueError as error:
        name = resource if resource.isprintable() else ascii(resource)
        raise ValueError(f"{where}.{name[:100]}: {error}") from error
    return value
