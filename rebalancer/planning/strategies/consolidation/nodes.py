"""Which nodes may be emptied, what must leave each of them, and what that saves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import BoolArray, IntArray, NodeRow, PodRow
from rebalancer.cluster.leaving_nodes import why_leaving
from rebalancer.cluster.records import Node
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.steering import closed_until, is_karpenters

_STAYING_OWNERS = ("DaemonSet", "Node")  # their pods stay as long as the node does
_PRICE, _INSTANCE_TYPE = "rebalancer/price", "node.kubernetes.io/instance-type"
_KEEP = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
_CONTROL_PLANE = {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}


class NodesToEmpty:
    """The nodes of a cluster as they are before the plan, and which of them it empties."""

    def __init__(
        self,
        prepared: PreparedInputs,
        prices: Mapping[str, float],
        settle: float,
        refuses: Callable[[NodeRow], str],
    ) -> None:
        """``prices`` are by instance type; a node settles for so many seconds after pods left or came to it.

        ``refuses`` says why the policy does not let a node be emptied.
        """
        self.prepared, self._refuses = prepared, refuses
        pods, records = prepared.pods, prepared.nodes.records
        stays = np.array([item.owner.kind in _STAYING_OWNERS for item in pods.classes], np.bool_)
        self._leave = (pods.node >= 0) & ~pods.terminating
        if len(stays):
            self._leave &= ~stays[pods.pod_class]
        self.count = np.bincount(pods.node[self._leave], minlength=len(records))  # (nodes,) to leave
        self.empty = frozenset(np.flatnonzero(self.count == 0).tolist())
        self.emptying: frozenset[int] = frozenset()  # rows of nodes that are to be empty
        self.of_karpenter = [is_karpenters(node.metadata.labels or {}) for node in records]
        inputs = prepared.inputs
        moves = inputs.state.moves if inputs.state else ()
        recent = [move for move in moves if abs(inputs.now - move.evicted_at) < settle]
        self._settling = {name for move in recent for name in (move.from_node, move.to_node)}
        self._settling -= {move.from_node for move in inputs.made}  # this run goes on with them
        found = np.array([_price(node, prices) for node in records], np.float64)
        # (nodes,) what each saves: its price, or 1 where no price is known; NaN where only others' are.
        self.savings = found if np.isfinite(found).any() else np.ones(len(records))

    @property
    def idle(self) -> list[NodeRow]:
        """The empty nodes that may be closed, and are not yet."""
        records = self.prepared.nodes.records
        nodes = (NodeRow(row) for row in sorted(self.empty) if closed_until(records[row]) is None)
        return [node for node in nodes if not self.why_not(node)]

    def candidates(self) -> Iterator[NodeRow]:
        """The nodes that may be emptied: first what saves most for each pod, then the least requested."""
        limits, state = self.prepared.policy.limits, self.prepared.state
        shares = state.requested[:, :2] / np.maximum(state.classes.allocatable[:, :2], 1)
        order = np.lexsort((shares.max(axis=1), -self.savings / np.maximum(self.count, 1)))
        fits = (self.count > 0) & (self.count <= min(limits.per_node, limits.per_run))
        return (NodeRow(row) for row in order[fits[order]].tolist() if not self.why_not(NodeRow(row)))

    def leaving(self, node: NodeRow) -> list[PodRow]:
        """What must leave a node, the largest requests first."""
        pods, classes = self.prepared.pods, self.prepared.state.classes
        size = {
            pod: (-classes.present(int(pods.pod_class[pod]))[:2]).tolist()
            for pod in self.prepared.pods_on(node)
            if self._leave[pod]
        }
        return sorted(size, key=lambda pod: (size[pod], pods.full_name(pod)))

    def why_not(self, node: NodeRow) -> str:
        """Why a node is not emptied, whatever runs on it; empty where it may be."""
        prepared, record = self.prepared, self.prepared.nodes.records[node]
        annotations = record.metadata.annotations or {}
        if _CONTROL_PLANE & prepared.labels_of(node).keys():
            return "it is of the control plane"
        if any(annotations.get(key, "false") != "false" for key in _KEEP):
            return "an annotation keeps it"
        if not prepared.nodes.ready[node] or why_leaving(record):
            return "it is not Ready, or leaves already"
        if prepared.hotness.hot[node]:
            return "it is hot"
        if record.metadata.name in self._settling or node in prepared.landing_check.settling:
            return "pods left or came to it"
        return self._refuses(node) if self.savings[node] > 0 else "its price is not known, or 0"

    def age(self, node: NodeRow) -> float:
        """Seconds since it was created; NaN where that is not known."""
        created = self.prepared.nodes.records[node].metadata.creation_timestamp
        return self.prepared.inputs.now - times.parse_optional(created)

    def words(self, node: NodeRow) -> str:
        """``n3 is to be emptied: 4 pods must leave it``."""
        name, count = self.prepared.nodes.names[node], int(self.count[node])
        return f"{name} is to be emptied: {count} pod{'s' * (count != 1)} must leave it"

    @staticmethod
    def among(rows: IntArray, nodes: Collection[int]) -> BoolArray:
        """(rows,) which are among these nodes."""
        return np.isin(rows, list(nodes))


def _price(node: Node, prices: Mapping[str, float]) -> float:
    """What a node costs; NaN where that is not known, or what is said is no price."""
    text = (node.metadata.annotations or {}).get(_PRICE)
    if text is None:
        return prices.get((node.metadata.labels or {}).get(_INSTANCE_TYPE, ""), np.nan)
    try:
        price = float(text)
    except ValueError:
        return np.nan
    return price if 0.0 <= price < np.inf else np.nan
