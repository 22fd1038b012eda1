"""What is taken of a window: one statistic for every resource, or one for each.

Resources differ in how they hurt. CPU that is short for a moment slows everything a little, so a low
percentile is enough; memory that is short for a moment kills a pod, so what counts is the peak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

PREDICTED_PEAK = "predictedPeak"
_STATISTIC = r"mean|max|meanPlusDeviation|predictedPeak|p[1-9][0-9]?"
_KNOWN = re.compile(_STATISTIC, re.ASCII)
_RESOURCE = re.compile(r"[a-z][a-zA-Z0-9]{0,62}", re.ASCII)


def _statistic(value: object) -> object:
    """The value, checked; ValueError when it names no statistic."""
    named = value if isinstance(value, Mapping) else {"": value}
    if not named:
        raise ValueError("names no resource; write e.g. {cpu: p66, memory: p95}")
    for resource, statistic in named.items():
        if resource and not (isinstance(resource, str) and _RESOURCE.fullmatch(resource)):
            raise ValueError(f"{str(resource)[:40]!r} cannot be the name of a resource")
        if resource == "pods":
            raise ValueError("pods are counted, not measured: they have no statistic")
        if not (isinstance(statistic, str) and _KNOWN.fullmatch(statistic)):
            raise ValueError(
                f"{str(statistic)[:40]!r} is not a statistic; "
                "write e.g. mean, max, meanPlusDeviation, p95 or predictedPeak"
            )
    return value


_ONE = {"type": "string", "pattern": f"^({_STATISTIC})$"}
Statistic = Annotated[
    str | Mapping[str, str],
    BeforeValidator(_statistic),
    WithJsonSchema(
        {
            "anyOf": [_ONE, {"type": "object", "additionalProperties": _ONE, "minProperties": 1}],
            "examples": ["mean", "max", "meanPlusDeviation", "p95", {"cpu": "p66", "memory": "p95"}],
        }
    ),
]
"""A statistic, or statistics by resource; resources that are not named have their mean."""
