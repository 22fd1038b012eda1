"""Pods of a workload that are alike, and how many of them a node runs where they are spread evenly.

Alike are pods of one top-most controller with the same images: those of all ReplicaSets of a Deployment, and
those that may not be evicted too. Of n pods that m nodes suit, by labels, taints and size, an even share is
n / m, rounded up.

    web  7 pods, 3 nodes    an even share is 3: 3 + 3 + 1 is even, and so is 3 + 2 + 2
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from rebalancer.cluster.arrays import IntArray, PodRow
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.strategies.chosen_pods import ChosenPods
from rebalancer.scheduling.state.cluster_state import ClusterState

_ONE_A_NODE = ("DaemonSet", "Node", "")  # owners whose pods are where they must be, and none


class Alike(msgspec.Struct, frozen=True, eq=False):
    """Pods that are alike."""

    workload: str
    rows: IntArray  # (pods,) on a node, and not terminating
    owners: frozenset[str]  # uids of their controllers
    nodes: int  # that suit them
    share: int  # how many a node runs at most where they are spread evenly


class EvenShares:
    """Looks pods up, those that are chosen."""

    def __init__(self, prepared: PreparedInputs, chosen: ChosenPods) -> None:
        pods = prepared.pods
        workloads = prepared.eviction.workloads
        self._prepared = prepared
        self._node = prepared.state.node.values()[: len(pods)]
        self._bound = np.flatnonzero((self._node >= 0) & ~pods.terminating)
        numbers: dict[tuple[str, ...], int] = {}
        self._number = np.full(len(pods.classes), -1, np.int64)  # by pod class; -1: of none
        for pod_class in np.unique(pods.pod_class[self._bound]).tolist():
            own = pods.classes[pod_class]
            if own.owner.kind not in _ONE_A_NODE and chosen.chooses(own):
                key = workloads.key_of(own), *sorted(container.image for container in own.spec.containers)
                self._number[pod_class] = numbers.setdefault(key, len(numbers))
        self._of_pod = self._number[pods.pod_class[self._bound]]
        order = np.argsort(self._of_pod, kind="stable")
        self._rows = self._bound[order]  # (pods,) by their number
        self._numbers = self._of_pod[order]
        self._by_number: dict[int, Alike] = {}

    def of(self, pod: PodRow) -> Alike | None:
        """The pods like one; None where it is not among those that are chosen."""
        pod_class = int(self._prepared.pods.pod_class[pod])
        number = int(self._number[pod_class])
        return self._numbered(number) if number >= 0 else None

    def crowded(self) -> Iterator[Alike]:
        """Those of which some node runs more than an even share."""
        count = len(self._prepared.nodes)
        cells, on_node = np.unique(self._of_pod * count + self._node[self._bound], return_counts=True)
        for number in np.unique(cells[(on_node > 1) & (cells >= 0)] // max(count, 1)).tolist():
            alike = self._numbered(number)
            if alike.nodes > 1 and np.bincount(self._node[alike.rows]).max() > alike.share:
                yield alike

    def on_nodes(self, alike: Alike, state: ClusterState) -> IntArray:
        """(nodes,) how many of the pods each node runs in a state, replacements of a plan too."""
        made = np.arange(len(self._prepared.pods), len(state.node))
        same = [state.classes[kind].owner.uid in alike.owners for kind in state.pod_class.of(made).tolist()]
        rows = np.concatenate([alike.rows, made[np.array(same, np.bool_)]])
        nodes = state.node.of(rows)
        staying = (nodes >= 0) & (state.terminating.of(rows) == 0)
        return np.bincount(nodes[staying], minlength=len(self._prepared.nodes))

    def _numbered(self, number: int) -> Alike:
        if number not in self._by_number:
            begin, end = np.searchsorted(self._numbers, [number, number + 1]).tolist()
            pods = self._prepared.pods
            rows = self._rows[begin:end]
            classes = set(pods.pod_class[rows].tolist())
            suited = self._suited(classes)
            self._by_number[number] = Alike(
                workload=self._prepared.eviction.workload(rows[0]).name,
                rows=rows,
                owners=frozenset(pods.classes[pod_class].owner.uid for pod_class in classes),
                nodes=suited,
                share=-(-len(rows) // max(suited, 1)),
            )
        return self._by_number[number]

    def _suited(self, classes: set[int]) -> int:
        """How many nodes suit pods of one of the classes."""
        state = self._prepared.state
        suited = np.zeros(len(self._prepared.nodes), np.bool_)
        for pod_class in classes:
            scheduler = self._prepared.schedulers.likely_scheduler(pod_class)
            requested = state.classes.vector(state.classes.requests[pod_class].incoming)
            large = (state.classes.allocatable >= requested).all(axis=1)
            suited |= scheduler.admitting(state, pod_class) & large
        return int(np.count_nonzero(suited & self._prepared.nodes.staying))
