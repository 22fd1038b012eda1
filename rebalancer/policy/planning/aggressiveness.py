"""One dial for how readily pods are moved, because its settings only make sense together.

A careful policy asks for much gain, for near certainty and for much relief from every restart, and leaves a
node alone that would stay hot; an eager one asks for less of each. Level 3 is the default. A key that the
policy names itself keeps the policy's value at every level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT = 3


@dataclass(frozen=True, slots=True)
class Level:
    """What one position of the dial stands for; the fields are those of ``Planning``."""

    min_gain: float  # points
    confidence: float
    partial_relief: bool
    least_relief: float  # points of excess for each unit of cost


LEVELS: Mapping[int, Level] = {
    1: Level(min_gain=15.0, confidence=0.99, partial_relief=False, least_relief=4.0),
    2: Level(min_gain=10.0, confidence=0.97, partial_relief=True, least_relief=1.5),
    3: Level(min_gain=5.0, confidence=0.95, partial_relief=True, least_relief=1.0),
    4: Level(min_gain=3.0, confidence=0.90, partial_relief=True, least_relief=0.2),
    5: Level(min_gain=1.0, confidence=0.80, partial_relief=True, least_relief=0.0),
}
