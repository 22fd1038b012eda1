"""Possible worlds: the cluster as it may be after the moves planned so far.

Where a landing is certain there is one world. Where it is not, a bounded number of worlds is drawn by a
seed, each with its own landings, and a further move must hold in all of them. Each world is kept twice:
with the pods evicted in the current wave still terminating, and with them gone; how long they take is a
race, so a landing must be acceptable in both.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.columns.nodes import FloatArray, IntArray
from rebalancer.scheduling.state.cluster_state import ClusterState

MOST_WORLDS = 8


@dataclass(slots=True, eq=False)
class World:
    """One way the moves so far may have turned out."""

    lingering: ClusterState  # pods evicted in this wave still terminate
    settled: ClusterState  # they are gone
    usage: FloatArray  # (nodes, measured resources) expected once settled; NaN unknown
    held: FloatArray  # (nodes, measured resources) what pods evicted in this wave still use where they were
    lingers: bool = False  # any was evicted in this wave: the two states differ

    def copy(self) -> World:
        """An independent world."""
        lingering, settled = self.lingering.copy(), self.settled.copy()
        return World(lingering, settled, self.usage.copy(), self.held.copy(), self.lingers)

    def later(self) -> World:
        """This world when the wave is over: its evicted pods are gone for sure."""
        return World(self.settled.copy(), self.settled, self.usage, np.zeros_like(self.held))


class Worlds:
    """All possible worlds; they start as one and part where a landing is uncertain."""

    def __init__(self, state: ClusterState, usage: FloatArray, random: np.random.Generator) -> None:
        self._random = random
        self.all = [World(state, state.copy(), usage.copy(), np.zeros_like(usage))]

    def copy(self) -> Worlds:
        """Independent worlds that will draw the same landings."""
        twin = copy.copy(self)
        twin._random = copy.deepcopy(self._random)
        twin.all = [world.copy() for world in self.all]
        return twin

    def later(self) -> Worlds:
        """The same worlds in their next wave; what is settled is shared: only one of both may go on."""
        twin = copy.copy(self)
        twin.all = [world.later() for world in self.all]
        return twin

    def part(self) -> None:
        """Part into as many worlds as are kept."""
        if len(self.all) == 1:
            self.all += [self.all[0].copy() for _ in range(MOST_WORLDS - 1)]

    def draw(self, rows: IntArray, chance: FloatArray) -> int:
        """One of the rows by its chance."""
        edges = np.cumsum(chance)
        position = int(np.searchsorted(edges, self._random.random() * edges[-1], side="right"))
        return int(rows[min(position, len(rows) - 1)])
