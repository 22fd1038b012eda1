"""The strictest of what several profiles say, so that nothing is evicted that one of them spares.

minReplicas 2 and 3                   3
priorityThreshold 1000 and 500        500
ignorePvcPods true and false          true
labelSelector app=web and tier=x      both
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rebalancer.policy.units import parse_duration
from rebalancer.policy_import.selectors import together


def strictest(key: str, values: Sequence[Any]) -> Any:
    """The value that spares all that one of the values spares; None where there is none."""
    choose = _CHOICES.get(key)
    if choose is None or any(type(value) is not type(values[0]) for value in values):
        return None
    return choose(values)


def is_number(value: Any) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def _largest(values: Sequence[Any]) -> int | None:
    return max(values) if all(map(is_number, values)) else None


def _smallest(values: Sequence[Any]) -> int | None:
    return min(values) if all(map(is_number, values)) else None


def _longest(values: Sequence[Any]) -> str | None:
    try:
        return max((str(value) for value in values), key=parse_duration)
    except ValueError:
        return None


def _any(values: Sequence[Any]) -> bool | None:
    return any(values) if all(isinstance(value, bool) for value in values) else None


def _first(values: Sequence[Any]) -> str | None:
    return min(values) if all(isinstance(value, str) for value in values) else None


def _selector(values: Sequence[Any]) -> Mapping[str, Any] | None:
    return together(values) if all(isinstance(value, Mapping) for value in values) else None


def _threshold(values: Sequence[Any]) -> Mapping[str, Any] | None:
    """The lowest threshold. One that names a class wins: its value is not known, so it may be the lowest."""
    if not all(isinstance(value, Mapping) for value in values):
        return None
    stated = [value for value in values if value]
    named = next((value for value in stated if value.get("name")), None)
    if named is not None:
        return dict(named)
    lowest = _smallest([value.get("value") for value in stated])
    return None if lowest is None else {"value": lowest}


_CHOICES: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "minReplicas": _largest,
    "minPodAge": _longest,
    "thresholdPriority": _smallest,
    "priorityThreshold": _threshold,
    "ignorePvcPods": _any,
    "ignorePodsWithoutPDB": _any,
    "nodeFit": _any,
    "noEvictionPolicy": _first,  # Mandatory comes before Preferred
    "labelSelector": _selector,
    "namespaceLabelSelector": _selector,
}
