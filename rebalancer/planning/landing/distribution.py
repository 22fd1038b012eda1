"""Where a replacement may land: nodes, each with the chance that the scheduler picks it.

The scheduler's own choice is not certain. It breaks ties at random, and in large clusters it looks at a
sample of the feasible nodes only. So a landing is a distribution: it is checked as a whole before a pod is
evicted, and drawn from where one outcome is needed, in scenarios and in simulations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray, NodeRow
from rebalancer.scheduling import Placement

_NEGLIGIBLE = 1e-12  # a chance below this is floating-point error


@dataclass(frozen=True, slots=True, eq=False)
class LandingDistribution:
    """The nodes a replacement may land on and the chance of each."""

    rows: IntArray  # of nodes
    chance: FloatArray

    def likeliest(self) -> NodeRow:
        """The node with the highest chance; of several, the first."""
        return NodeRow(int(self.rows[int(np.argmax(self.chance))]))

    def draw(self, random: np.random.Generator) -> NodeRow:
        """One node, each with its chance."""
        edges = np.cumsum(self.chance)
        position = int(np.searchsorted(edges, random.random() * edges[-1], side="right"))
        return NodeRow(int(self.rows[min(position, len(self.rows) - 1)]))


def mean_of(placements: Sequence[Placement], nodes: int) -> LandingDistribution:
    """The chances of several placements, averaged."""
    total = np.zeros(nodes)
    # Placements that cannot differ share their chances.
    alike = Counter(id(placement.chance) for placement in placements)
    for placement in {id(placement.chance): placement for placement in placements}.values():
        total[placement.feasible] += alike[id(placement.chance)] * placement.chance
    rows = np.flatnonzero(total / len(placements) > _NEGLIGIBLE)
    return LandingDistribution(rows, total[rows] / len(placements))
