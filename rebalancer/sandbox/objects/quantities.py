"""Kubernetes quantities as exact integers: nano-CPU and bytes."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from rebalancer.errors import InputError

_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:([eE][+-]?[0-9]+)|([A-Za-z]*))", re.ASCII)
_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{
        suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)
    },
    **{
        suffix: Decimal(1024) ** power
        for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)
    },
}


@lru_cache(maxsize=65536)
def quantity(text: str) -> Decimal:
    """The exact value of a quantity such as ``250m`` or ``1.5Gi``; InputError when it is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None or (match[3] or "") not in _SUFFIXES:
        message = f"{text!r} is not a quantity"
        raise InputError(message, hint="write it as Kubernetes does: 250m, 1.5Gi")
    value = Decimal(match[1] + (match[2] or ""))
    return value * _SUFFIXES[match[3] or ""]


def cpu_nano(text: object) -> int:
    """Billionths of a CPU."""
    return int(quantity(str(text)) * 1_000_000_000)


def whole(text: object) -> int:
    """Bytes, or a count of an extended resource, rounded up."""
    return -int(-quantity(str(text)) // 1)
