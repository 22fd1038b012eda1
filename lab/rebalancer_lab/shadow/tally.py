"""What another configuration of the scheduler does with the pods that are bound, and what that adds up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from rebalancer.agreement.decisions import Agreement, Decision, Result
from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.assemble import requests_by_pod
from rebalancer.planning.plan import API_VERSION, Value

MAX_PODS = 50_000  # whose other node is remembered
MAX_ARRIVALS = 640  # nodes that would have got more pods; the cluster's users may invent more
RESOURCES = ("cpu", "memory")
_FULL = 80.0  # percent of allocatable that is requested


class Elsewhere(Value, frozen=True):
    """What another configuration of the scheduler would do with the same pods; pairs are as is, and by it."""

    configuration: str
    decisions: int
    elsewhere: int  # pods whose node it would never choose
    expected_elsewhere: float  # pods that would be on another node, by the chances
    moved: int  # of those elsewhere, the pods that are still there
    arrivals: dict[str, int]  # by node that would have got more, the most first
    full_nodes: tuple[int, int]  # of which more than 80 % of a resource is requested
    highest: dict[str, tuple[float, float]]  # percent of allocatable that is requested of any node
    deviation: dict[str, tuple[float, float]]  # points between nodes


class Shadow(Value, frozen=True):
    """What another configuration would do, and how well decisions of the one in force are computed."""

    shadow: Elsewhere
    agreement: Agreement  # the less of it, the less the figures of the other configuration say
    api_version: str = API_VERSION
    kind: str = "Shadow"


class ShadowTally:
    """What another configuration of the scheduler does with the pods that it binds.

    Each decision is computed on the cluster as it really was, so differences do not build on each other.
    Their sum is given in requests: those of the pods that are still there, each on its likeliest node.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: dict[str, str] = {}  # by uid of pods that would be elsewhere
        self._arrivals: Counter[str] = Counter()
        self._compared = self._elsewhere = 0
        self._expected = 0.0
        self._figures: tuple[Mapping[str, float], ...] = ({}, {}, {}, {})
        self._full = (0, 0)

    def add(self, decisions: Iterable[Decision], snapshot: Snapshot) -> None:
        """Count decisions of the other configuration; ``snapshot`` is the cluster after them."""
        for decision in decisions:
            if decision.result is Result.UNPREDICTABLE or not decision.nodes:
                continue
            self._compared += 1
            self._expected += 1.0 - decision.chance
            best = max(decision.nodes, key=lambda node: node.chance)
            if not decision.chance and best.chance and len(self._nodes) < MAX_PODS:
                self._elsewhere += 1
                self._nodes[decision.uid] = best.node
                if best.node in self._arrivals or len(self._arrivals) < MAX_ARRIVALS:
                    self._arrivals[best.node] += 1
        alive = set(snapshot.pods.uids)
        self._nodes = {uid: node for uid, node in self._nodes.items() if uid in alive}
        before = requested_percent(snapshot, {})
        after = requested_percent(snapshot, self._nodes)
        self._figures = (_highest(before), _highest(after), _deviation(before), _deviation(after))
        self._full = int((before.max(axis=1) > _FULL).sum()), int((after.max(axis=1) > _FULL).sum())

    def report(self) -> Elsewhere:
        """What the decisions add up to so far."""
        highest, highest_after, deviation, deviation_after = self._figures
        return Elsewhere(
            configuration=self._name,
            decisions=self._compared,
            elsewhere=self._elsewhere,
            expected_elsewhere=round(self._expected, 1),
            moved=len(self._nodes),
            arrivals=dict(self._arrivals.most_common(10)),
            full_nodes=self._full,
            highest={name: (highest[name], highest_after[name]) for name in highest},
            deviation={name: (deviation[name], deviation_after[name]) for name in deviation},
        )


def requested_percent(snapshot: Snapshot, elsewhere: Mapping[str, str]) -> FloatArray:
    """(nodes, 2) percent of allocatable cpu and memory that pods request, some of them on other nodes."""
    pods = snapshot.pods
    nodes = snapshot.nodes
    amounts = requests_by_pod(snapshot)
    node = pods.node.copy()
    for row, uid in enumerate(pods.uids) if elsewhere else ():
        if uid in elsewhere and node[row] >= 0:
            node[row] = nodes.row.get(elsewhere[uid], node[row])
    total = np.zeros((len(nodes), 2))
    np.add.at(total, node[node >= 0], amounts[node >= 0])
    return np.asarray(100.0 * total / np.maximum(nodes.allocatable[:, :2], 1), np.float64)


def _highest(percent: FloatArray) -> dict[str, float]:
    return {name: round(float(percent[:, at].max(initial=0.0)), 1) for at, name in enumerate(RESOURCES)}


def _deviation(percent: FloatArray) -> dict[str, float]:
    return {name: round(float(percent[:, at].std()), 1) for at, name in enumerate(RESOURCES)}
