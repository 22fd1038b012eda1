"""What pods use from minute to minute: as recorded, with noise and a daily curve if wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray

STEP_SECONDS = 60.0
# How long a deviation of a pod's load lasts: load is correlated from minute to minute.
_CORRELATION_SECONDS = 600.0
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class LoadShape:
    """How load changes, and how late metrics show it."""

    noise: float = 0.0  # standard deviation of a pod's load, as a share of it
    daily: float = 0.0  # amplitude of a sine over the day that starts at the recorded load
    lag_seconds: float = 0.0  # metrics are averages over this long; 0: they show the moment


class PodLoad:
    """The load of every pod, step by step; a pure function of base, shape and seed."""

    def __init__(
        self, base: FloatArray, shape: LoadShape, random: np.random.Generator, first_step: int = 0
    ) -> None:
        """``first_step`` is where the daily curve begins; at step 0 the load is as recorded.

        ``base`` is (pods, resources), NaN unknown.
        """
        self._base = base
        self._shape = shape
        self._random = random
        self._steps = first_step
        self._deviation = self._draw() if shape.noise else np.zeros_like(base)

    def _draw(self) -> FloatArray:
        return self._random.standard_normal(self._base.shape)

    def now(self) -> FloatArray:
        """(pods, resources) what each pod uses at this moment."""
        hour = 2 * math.pi * self._steps * STEP_SECONDS / _DAY_SECONDS
        curve = 1.0 + self._shape.daily * math.sin(hour)
        factor = curve * (1.0 + self._shape.noise * self._deviation)
        return np.asarray(self._base * np.maximum(factor, 0.0), np.float64)

    def step(self) -> None:
        """One step of time."""
        self._steps += 1
        if self._shape.noise:
            kept = math.exp(-STEP_SECONDS / _CORRELATION_SECONDS)
            self._deviation = kept * self._deviation + math.sqrt(1 - kept * kept) * self._draw()
