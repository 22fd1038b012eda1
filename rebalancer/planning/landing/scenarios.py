"""Scenarios: the cluster as it may be after the moves planned so far.

The scheduler's own choice is not certain. It breaks ties at random, and in large clusters it looks at a
sample of the feasible nodes only. So a landing is a distribution: it is checked as a whole before a pod is
evicted, and drawn from where one outcome is needed, in scenarios and in simulations.

Where the next replacement lands depends on where the earlier ones landed, and on whether their predecessors
are still terminating. Neither is known when the plan is made, so a further move must hold in every scenario
kept here.

While every landing is certain there is one scenario. The first uncertain landing splits it into
MAX_SCENARIOS, and from then on each draws its own landings, from a generator seeded by the inputs. Each
scenario holds two states, because termination takes its time: one in which the pods evicted in this wave
still terminate, and one in which they are gone. A landing must be acceptable in both. When the wave is over
only the second state is left.

    start            one scenario: a 90 %, b 20 %, c 20 %
    move web-1 of a  it may land on b or c, half and half: 8 scenarios; it is on b in some, on c in the others
    move web-2 of a  evaluated 8 times; b is at 35 % where web-1 went there, and the node it leaves at 80 %
    while web-1 is   both are also tried with web-1 still on a: its requests are still taken there,
    terminating      so the scheduler sees a as full as before
    next wave        8 scenarios, web-1 and web-2 gone from a in each
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray, NodeRow
from rebalancer.load.report import percent_of_allocatable
from rebalancer.scheduling.framework.cycle import Placement
from rebalancer.scheduling.state.cluster_state import ClusterState

_NEGLIGIBLE = 1e-12  # a chance below this is floating-point error


class LandingDistribution(msgspec.Struct, frozen=True, eq=False):
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


MAX_SCENARIOS = 8


class Scenario(msgspec.Struct, eq=False):
    """One way the moves so far may have turned out."""

    while_terminating: ClusterState  # pods evicted in this wave still terminate
    after_termination: ClusterState  # they are gone
    # Both are (nodes, measured resources).
    usage: FloatArray  # expected after termination; NaN unknown
    terminating_usage: FloatArray  # what the pods evicted in this wave still use where they were
    is_terminating: bool = False  # a pod was evicted in this wave, so the two states differ

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

    def next_wave(self) -> Scenario:
        """This scenario when the wave is over and its evicted pods are gone."""
        return Scenario(
            self.after_termination.copy(),
            self.after_termination,
            self.usage,
            np.zeros_like(self.terminating_usage),
        )


class Scenarios:
    """All scenarios of a plan; they start as one and split where a landing is uncertain."""

    def __init__(self, state: ClusterState, usage: FloatArray, random: np.random.Generator) -> None:
        self._random = random
        self._most = MAX_SCENARIOS
        self.all = [Scenario(state, state.copy(), usage.copy(), np.zeros_like(usage))]

    def copy(self) -> Scenarios:
        """Independent scenarios that will draw the same landings."""
        other = copy.copy(self)
        other._random = copy.deepcopy(self._random)
        other.all = [scenario.copy() for scenario in self.all]
        return other

    def only(self, most: int) -> Scenarios:
        """The first scenarios, to estimate with; what is planned for certain must hold in all of them."""
        other = self.copy()
        other.all, other._most = other.all[:most], most
        return other

    def next_wave(self) -> Scenarios:
        """The scenarios of the next wave; they share state with these, so only one may be used further."""
        other = copy.copy(self)
        other.all = [scenario.next_wave() for scenario in self.all]
        return other

    def percents(self, node: NodeRow, allocatable: FloatArray) -> FloatArray:
        """(scenarios, resources) percent of a node's allocatable expected in each scenario.

        ``allocatable`` is (nodes, resources).
        """
        usage = np.array([scenario.usage[node] for scenario in self.all])
        count = np.array([scenario.after_termination.pod_count[node] for scenario in self.all])
        return percent_of_allocatable(usage, count, allocatable[node])

    def expected_percent(self, node: NodeRow, allocatable: FloatArray) -> FloatArray:
        """(resources,) percent of a node's allocatable, the mean over the scenarios."""
        return np.asarray(np.mean(self.percents(node, allocatable), axis=0), np.float64)

    def mean_percent(self, allocatable: FloatArray) -> FloatArray:
        """(nodes, resources) percent of allocatable of every node, the mean over the scenarios."""
        levels = [
            percent_of_allocatable(item.usage, np.array(item.after_termination.pod_count), allocatable)
            for item in self.all
        ]
        return np.asarray(np.mean(levels, axis=0), np.float64)

    def split(self) -> None:
        """Split one scenario into as many as are kept."""
        if len(self.all) == 1:
            self.all += [self.all[0].copy() for _ in range(self._most - 1)]

    def draw(self, landings: LandingDistribution) -> NodeRow:
        """One landing, by its chance."""
        return landings.draw(self._random)
