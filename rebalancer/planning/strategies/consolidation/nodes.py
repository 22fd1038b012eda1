"""Which nodes may be emptied, what must leave each of them, and what that saves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.cluster.leaving_nodes import why_leaving
from rebalancer.planning.steering import closed_until, is_karpenters

if TYPE_CHECKING:
    from rebalancer.planning.landing.landing_check import Purpose
    from rebalancer.planning.prepared import PreparedInputs
    from rebalancer.planning.strategies.consolidation.settings import ConsolidationSettings

_STAYING_OWNERS = ("DaemonSet", "Node")  # their pods stay as long as the node does
_PRICE, _INSTANCE_TYPE = "rebalancer/price", "node.kubernetes.io/instance-type"
_KEEP = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class NodesToEmpty:
    """The nodes of a cluster as they are before the plan."""

    def __init__(self, prepared: PreparedInputs, settings: ConsolidationSettings) -> None:
        self._prepared, self._settings = prepared, settings
        pods, inputs = prepared.pods, prepared.inputs
        stays = np.array([item.owner.kind in _STAYING_OWNERS for item in pods.classes], np.bool_)
        self._leave = (pods.node >= 0) & ~pods.terminating
        if len(stays):
            self._leave &= ~stays[pods.pod_class]
        self.count = np.bincount(pods.node[self._leave], minlength=len(prepared.nodes))  # (nodes,) to leave
        self.empty = frozenset(np.flatnonzero(self.count == 0).tolist())
        moves = inputs.state.moves if inputs.state else ()
        recent = [move for move in moves if abs(inputs.now - move.evicted_at) < settings.settle]
        self._settling = {name for move in recent for name in (move.from_node, move.to_node)}
        self._settling -= {move.from_node for move in inputs.made}  # this run goes on with them
        self._selects = settings.node_selector.matches
        self.closed = {
            row for row, node in enumerate(prepared.nodes.records) if closed_until(node) is not None
        }

    @property
    def idle(self) -> list[NodeRow]:
        """The empty nodes that may be closed, and are not yet."""
        return [NodeRow(row) for row in sorted(self.empty - self.closed) if not self.why_not(NodeRow(row))]

    def candidates(self) -> Iterator[NodeRow]:
        """The nodes that may be emptied: first what saves most for each pod, then the least requested."""
        limits, state = self._prepared.policy.limits, self._prepared.state
        shares = state.requested[:, :2] / np.maximum(state.classes.allocatable[:, :2], 1)
        order = np.lexsort((shares.max(axis=1), -self.savings / np.maximum(self.count, 1)))
        fits = (self.count > 0) & (self.count <= min(limits.per_node, limits.per_run))
        return (NodeRow(row) for row in order[fits[order]].tolist() if not self.why_not(NodeRow(row)))

    @property
    def left_alone(self) -> tuple[str, ...]:
        """Of how many nodes the policy alone says that they are not begun with, in words."""
        prepared, limits = self._prepared, self._prepared.policy.limits
        large = int(np.count_nonzero(self.count > limits.per_node))
        of_karpenter = sum(is_karpenters(node.metadata.labels or {}) for node in prepared.nodes.records)
        return (
            f"perNode {limits.per_node} keeps {large} with more pods" * (large > 0),
            f"{of_karpenter} left to Karpenter (allowKarpenter)"
            * (of_karpenter > 0 and not self._settings.allow_karpenter),
        )

    def leaving(self, node: NodeRow) -> list[PodRow]:
        """What must leave a node, the largest requests first."""
        pods, classes = self._prepared.pods, self._prepared.state.classes
        size = {
            pod: (-classes.present(int(pods.pod_class[pod]))[:2]).tolist()
            for pod in self._prepared.pods_on(node)
            if self._leave[pod]
        }
        return sorted(size, key=lambda pod: (size[pod], pods.full_name(pod)))

    @cached_property
    def savings(self) -> FloatArray:
        """(nodes,) what each saves: its price, or 1 where no price is known; NaN where only others' are."""
        found = np.full(len(self.count), np.nan)
        for row, node in enumerate(self._prepared.nodes.records):
            price = (node.metadata.annotations or {}).get(_PRICE)
            kind = (node.metadata.labels or {}).get(_INSTANCE_TYPE, "")
            found[row] = self._settings.prices.get(kind, np.nan) if price is None else _price(price)
        return found if np.isfinite(found).any() else np.ones_like(found)

    def why_not(self, node: NodeRow) -> str:
        """Why a node is not emptied, whatever runs on it; empty where it may be."""
        prepared, settings = self._prepared, self._settings
        record, labels = prepared.nodes.records[node], prepared.labels_of(node)
        if not self._selects(labels):
            return "nodeSelector does not select it"
        annotations, name = record.metadata.annotations or {}, record.metadata.name
        closed = prepared.inputs.closed
        age = prepared.inputs.now - times.parse_optional(record.metadata.creation_timestamp)
        why = {
            "it is of the control plane": any(label in labels for label in _CONTROL_PLANE),
            "Karpenter consolidates it": is_karpenters(labels) and not settings.allow_karpenter,
            "an annotation keeps it": any(annotations.get(key, "false") != "false" for key in _KEEP),
            "it is not Ready, or leaves already": not prepared.nodes.ready[node] or why_leaving(record),
            "it is hot": prepared.hotness.hot[node],
            "it is younger than minNodeAge": settings.min_node_age > 0 and not age >= settings.min_node_age,
            "pods left or came to it": name in self._settling or node in prepared.landing_check.settling,
            "it is not closed": closed is not None and settings.taint_for > 0 and name not in closed,
            "its price is not known, or 0": not self.savings[node] > 0,
        }
        return next((words for words, holds in why.items() if holds), "")

    def words(self, node: NodeRow) -> str:
        """``n3 is to be emptied: 4 pods must leave it``."""
        name, count = self._prepared.nodes.names[node], int(self.count[node])
        return f"{name} is to be emptied: {count} pod{'s' * (count != 1)} must leave it"


def _price(text: str) -> float:
    """The price in an annotation; NaN where it is none."""
    try:
        price = float(text)
    except ValueError:
        return np.nan
    return price if 0.0 <= price < np.inf else np.nan


class Emptying(Protocol):
    """The strategy, as its search and its report see it."""

    name: ClassVar[str]
    prepared: PreparedInputs
    settings: ConsolidationSettings
    emptying: frozenset[int]

    @property
    def nodes(self) -> NodesToEmpty: ...
    @property
    def purpose(self) -> Purpose: ...
    @property
    def may_close(self) -> bool: ...
