"""What a landing costs in availability: where replicas come to share a node, or a zone loses its last one.

A node that fails takes all of its pods along. So a replacement that joins another replica of its controller,
where the pod that leaves had a node to itself, is worse placed than before; likewise if it leaves a zone
without any replica for one that has some. The fewer nodes or zones are left, the more that costs:

    api  one replica on a, one on b    a to b    both on one node: 1
    web  ten, each on its own node     a to b    nine nodes are left: 1/9
    db   two on a, one on b            a to b    a keeps one: 0
    job  one, in zone z1               to z2     one zone as before: 0
"""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodRow
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.nodes import zone_key

MOST_LOST = 2.0  # units that a landing costs at most: the last other node, and the last other zone
_NOTHING = np.zeros(0, np.int64)


class LostSpread(msgspec.Struct, frozen=True, eq=False):
    """What each of some landings takes away."""

    beside: BoolArray  # (nodes,) joins another replica, which the pod did not before
    emptied: BoolArray  # (nodes,) leaves a zone without any replica, for one that has some
    cost: FloatArray  # (nodes,) 1 by the nodes that are left, and 1 by the zones; 0 where nothing is lost


class Spread:
    """Looks up where the replicas of a pod's controller are."""

    def __init__(self, pods: PodTable, nodes: NodeTable) -> None:
        self._pods = pods
        keys = [zone_key(node.metadata.labels or {}) for node in nodes.records]
        known = sorted({key for key in keys if any(key)})
        self._zone: IntArray = np.array([known.index(key) if any(key) else -1 for key in keys], np.int64)
        self._zones = len(known)

    @cached_property
    def _replicas(self) -> dict[str, IntArray]:
        """The rows of pods by the uid of their controller."""
        owners = [pod.owner.uid for pod in self._pods.classes]
        number = {uid: at for at, uid in enumerate(dict.fromkeys(owners))}
        of_class = np.array([number[uid] for uid in owners], np.int64)
        owner = of_class[self._pods.pod_class] if owners else _NOTHING
        order = np.argsort(owner, kind="stable")
        edges = np.searchsorted(owner[order], np.arange(len(number) + 1))
        return {uid: order[edges[at] : edges[at + 1]] for uid, at in number.items() if uid}

    def lost(self, state: ClusterState, pod: PodRow, source: NodeRow, rows: IntArray) -> LostSpread:
        """What landings on each of the (nodes,) ``rows`` cost; ``state`` still has the pod."""
        others = self._others(state, pod)
        on_node = np.bincount(others, minlength=len(self._zone))
        zones = self._zone[others]
        in_zone = np.bincount(zones[zones >= 0], minlength=self._zones + 1)  # the last one for no zone
        here, there = self._zone[source], self._zone[rows]
        beside = np.asarray((on_node[rows] > 0) & (on_node[source] == 0), np.bool_)
        left = (here >= 0) & (there >= 0) & (there != here) & (in_zone[here] == 0)
        emptied = np.asarray(left & (in_zone[there] > 0), np.bool_)
        nodes_left, zones_left = (max(int(np.count_nonzero(count)), 1) for count in (on_node, in_zone))
        return LostSpread(beside, emptied, beside / nodes_left + emptied / zones_left)

    def _others(self, state: ClusterState, pod: PodRow) -> IntArray:
        """The nodes of the other replicas, those that are leaving left out."""
        uid = state.classes[state.pod_class[pod]].owner.uid
        made = np.arange(len(self._pods), len(state.node))  # replacements of the moves so far
        same = [state.classes[index].owner.uid == uid for index in state.pod_class.of(made).tolist()]
        rows = np.concatenate([self._replicas.get(uid, _NOTHING), made[np.array(same, np.bool_)]])
        nodes = state.node.of(rows)
        counts = (nodes >= 0) & (rows != pod) & (state.terminating.of(rows) == 0)
        return np.asarray(nodes[counts], np.int64)
