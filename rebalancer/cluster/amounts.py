"""Quantities in the scheduler's units, refused where the API server would not have stored them."""

from __future__ import annotations

from rebalancer.cluster.quantities import cpu_milli, units

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
