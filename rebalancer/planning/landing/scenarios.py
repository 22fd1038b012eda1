"""Possible scenarios: the cluster as it may be after the moves planned so far.

Where a landing is certain there is one scenario. Where it is not, a bounded number of scenarios is drawn by a
seed, each with its own landings, and a further move must hold in all of them. Each scenario is kept twice:
with the pods evicted in the current wave still terminating, and with them gone; how long they take is a
race, so a landing must be acceptable in both.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling import ClusterState

MAX_SCENARIOS = 8


@dataclass(slots=True, eq=False)
class Scenario:
    """One way the moves so far may have turned out."""

    while_terminating: ClusterState  # pods evicted in this wave still terminate
    after_termination: ClusterState  # they are gone
    usage: FloatArray  # (nodes, measured resources) expected after termination; NaN unknown
    terminating_usage: (
        FloatArray  # (nodes, measured resources) what pods evicted in this wave still use where they were
    )
    is_terminating: bool = False  # any was evicted in this wave: the two states differ

    def copy(self) -> Scenario:
        """An independent scenario."""
        while_terminating, after_termination = self.while_terminating.copy(), self.after_termination.copy()
        return Scenario(
            while_terminating,
            after_termination,
            self.usage.copy(),
            self.terminating_usage.copy(),
            self.is_terminating,
        )

    def later(self) -> Scenario:
        """This scenario when the wave is over: its evicted pods are gone for sure."""
        return Scenario(
            self.after_termination.copy(),
            self.after_termination,
            self.usage,
            np.zeros_like(self.terminating_usage),
        )


class Scenarios:
    """All possible scenarios; they start as one and part where a landing is uncertain."""

    def __init__(self, state: ClusterState, usage: FloatArray, random: np.random.Generator) -> None:
        self._random = random
        self.all = [Scenario(state, state.copy(), usage.copy(), np.zeros_like(usage))]

    def copy(self) -> Scenarios:
        """Independent scenarios that will draw the same landings."""
        twin = copy.copy(self)
        twin._random = copy.deepcopy(self._random)
        twin.all = [scenario.copy() for scenario in self.all]
        return twin

    def later(self) -> Scenarios:
        """The scenarios of the next wave; they share state with these, so only one may be used further."""
        twin = copy.copy(self)
        twin.all = [scenario.later() for scenario in self.all]
        return twin

    def part(self) -> None:
        """Part into as many scenarios as are kept."""
        if len(self.all) == 1:
            self.all += [self.all[0].copy() for _ in range(MAX_SCENARIOS - 1)]

    def draw(self, rows: IntArray, chance: FloatArray) -> int:
        """One of the rows by its chance."""
        edges = np.cumsum(chance)
        position = int(np.searchsorted(edges, self._random.random() * edges[-1], side="right"))
        return int(rows[min(position, len(rows) - 1)])
