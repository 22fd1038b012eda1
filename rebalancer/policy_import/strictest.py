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
    kind, choose = _CHOICES.get(key, (None, max))
    return choose(values) if all(type(value) is kind for value in values) else None


def is_number(value: Any) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def _longest(values: Sequence[str]) -> str | None:
    try:
        return max(values, key=parse_duration)
    except ValueError:
        return None


def _threshold(values: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The lowest threshold. One that names a class wins: its value is not known, so it may be the lowest."""
    stated = [value for value in values if value]
    named = next((value for value in stated if value.get("name")), None)
    if named is not None:
        return dict(named)
    found: list[Any] = [value.get("value") for value in stated]
    return {"value": min(found)} if all(map(is_number, found)) else None


_CHOICES: Mapping[str, tuple[type, Callable[[Sequence[Any]], Any]]] = {
    "minReplicas": (int, max),
    "minPodAge": (str, _longest),
    "thresholdPriority": (int, min),
    "priorityThreshold": (dict, _threshold),
    "ignorePvcPods": (bool, any),
    "ignorePodsWithoutPDB": (bool, any),
    "nodeFit": (bool, any),
    "noEvictionPolicy": (str, min),  # Mandatory comes before Preferred
    "labelSelector": (dict, together),
    "namespaceLabelSelector": (dict, together),
}
