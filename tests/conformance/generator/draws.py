"""Weighted choices: corners (nothing, zero, exactly full) are drawn far more often than in real clusters."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

Object = dict[str, Any]

NAMESPACES = ("default", "prod", "dev")
APPS = ("web", "api", "db", "batch")
ZONES = ("a", "b", "c")
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
GPU = "nvidia.com/gpu"


class Draws:
    """A random source with the choices that generators make."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(repr(seed))

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def number(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return self.random.randint(low, high)

    def one(self, choices: Sequence[T], *weights: float) -> T:
        """One of the choices; the first weights are given, the others are 1."""
        padded = [*weights, *[1.0] * (len(choices) - len(weights))]
        return self.random.choices(choices, padded)[0]

    def some(self, choices: Sequence[T], most: int, least: int = 0) -> list[T]:
        """Different choices in random order, from least to most of them."""
        return self.random.sample(choices, min(len(choices), self.number(least, most)))

    def few(self, most: int) -> int:
        """How many of something: 0 to most, small numbers more often."""
        return min(self.number(0, most), self.number(0, most))


def without_empty(item: Object) -> Object:
    """The object without fields that are None, {} or [] (0 and "" stay)."""
    return {key: value for key, value in item.items() if value is not None and value != {} and value != []}
