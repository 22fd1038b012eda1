"""Nodes as wholes: the pods that must leave each before it can be removed, and what that saves and costs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Literal, Protocol

import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import BoolArray, IntArray, NodeRow, PodRow
from rebalancer.cluster.pod_classes import OF_THEIR_NODE, PodClass
from rebalancer.cluster.pods import PodTable
from rebalancer.counting import counted
from rebalancer.planning.builder import PartialPlan, PlanBuilder
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.taints import closed_until, is_karpenters
from rebalancer.policy.model import Selector
from rebalancer.scheduling.state.cluster_state import ClusterState

_PRICE = "rebalancer/price"
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_KEEP = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
_CONTROL_PLANE = {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}
_MAX_NODES = 2000  # that are looked at; and that may be emptied, times all nodes
_MAX_TRIED = 300_000
_UNITS = np.array([1000.0, 2.0**30])  # thousandths of a core in a core, bytes in a GiB


def must_leave(pods: PodTable) -> BoolArray:
    """(pods,) which must leave their node before it is empty."""
    stays = np.array([pod.owner.kind in OF_THEIR_NODE for pod in pods.classes], np.bool_)
    return (pods.node >= 0) & ~pods.terminating & ~stays[pods.pod_class]


def pods_to_leave(pods: PodTable, nodes: int) -> IntArray:
    """(nodes,) how many pods must leave each before it is empty."""
    return np.bincount(pods.node[must_leave(pods)], minlength=nodes)


def most_emptied(state: ClusterState, used: BoolArray) -> int:
    """Nodes in use, less the fewest that hold all requests, the largest first: no plan empties more."""
    room = state.classes.allocatable[used, :2]
    requested = state.requested[:, :2].sum(axis=0)
    largest = np.cumsum(-np.sort(-room, axis=0), axis=0)
    needed = [int(np.searchsorted(largest[:, at], requested[at])) + (requested[at] > 0) for at in (0, 1)]
    return max(len(room) - int(max(needed)), 0)


class EmptyingSettings(Protocol):
    """What a policy says of the nodes that may be emptied."""

    node_selector: Selector
    thresholds: Mapping[str, float]
    number_of_nodes: int
    eviction_modes: tuple[Literal["OnlyThresholdingResources"], ...]
    min_node_age: float
    settle: float
    taint_for: float
    prices: Mapping[str, float]
    allow_karpenter: bool


class WholeNodes:
    """Those of a cluster, by what the settings of ``consolidation`` say of them."""

    def __init__(self, prepared: PreparedInputs, settings: EmptyingSettings, strategy: str) -> None:
        self._prepared = prepared
        self._settings = settings
        # The nodes that earlier plans of this run have begun to empty.
        self._begun = {move.from_node for move in prepared.so_far.made if move.strategy == strategy}
        self._must_leave = must_leave(prepared.pods)  # (pods,)
        self.leaving = pods_to_leave(prepared.pods, len(prepared.nodes))  # (nodes,)
        self.empty: BoolArray = self.leaving == 0  # (nodes,)
        self.held: list[PodRow] = []

    @cached_property
    def _prices(self) -> Sequence[float | None]:
        """(nodes,) what each costs: None where nobody says, below 0 where what is said is no price."""
        prices: list[float | None] = []
        for node in self._prepared.nodes.records:
            written = (node.metadata.annotations or {}).get(_PRICE)
            price = self._settings.prices.get((node.metadata.labels or {}).get(_INSTANCE_TYPE, ""))
            if written is not None:
                try:
                    price = float(written)
                except ValueError:
                    price = -1.0
            prices.append(-1.0 if price is not None and not 0 <= price < float("inf") else price)
        return prices

    @cached_property
    def _worth(self) -> Sequence[float]:
        """(nodes,) the price of each, 1 if none is known of any."""
        unknown = 0.0 if any(price is not None and price >= 0 for price in self._prices) else 1.0
        return [max(unknown if price is None else price, 0.0) for price in self._prices]

    @cached_property
    def _above(self) -> BoolArray:
        """(nodes,) of which more is requested than the thresholds allow."""
        state = self._prepared.state
        above = np.zeros(len(self.leaving), np.bool_)
        for name, threshold in self._settings.thresholds.items():
            if name not in state.classes.column:  # no node has it, and no pod requests it
                continue
            column = state.classes.column[name]
            used = state.pod_count if name == "pods" else state.requested[:, column]
            above |= 100.0 * used > threshold * state.classes.allocatable[:, column]
        return above

    @cached_property
    def _asks_for_none(self) -> BoolArray:
        """(nodes,) with a pod that must leave, and may not as it requests nothing that thresholds name."""
        pods = self._prepared.pods
        asks_for_none = np.zeros(len(self.leaving), np.bool_)
        if self._settings.eviction_modes:
            names = self._settings.thresholds.keys()
            asks = [_requests_any(pod, names) for pod in pods.classes]
            asks_for_none[pods.node[self._must_leave & ~np.array(asks, np.bool_)[pods.pod_class]]] = True
        return asks_for_none

    @cached_property
    def _are_few(self) -> bool:
        """Whether no more nodes are within the thresholds than are too few to empty one."""
        least = self._settings.number_of_nodes
        return bool(least and np.count_nonzero(~self._above & self._prepared.nodes.ready) <= least)

    @cached_property
    def _settling(self) -> set[str]:
        inputs = self._prepared.inputs
        moves = inputs.state.moves if inputs.state else ()
        recent = [move for move in moves if abs(inputs.now - move.evicted_at) < self._settings.settle]
        settling = {name for move in recent for name in (move.from_node, move.to_node)}
        return settling - self._begun  # this run goes on with them

    @property
    def emptied_before(self) -> int:
        """How many nodes earlier plans of this run have emptied; one that is gone is one of them."""
        row_of = self._prepared.nodes.row
        return sum(name not in row_of or bool(self.empty[row_of[name]]) for name in self._begun)

    def saves(self, node: int) -> float:
        """What is saved without a node: its price, 1 if none is known; 0 if it may not be emptied."""
        return self._worth[node] * self._may_be_emptied(node)

    def is_given(self, node: int) -> bool:
        """Whether its owner and the policy let it be emptied, as its labels and annotations say."""
        settings = self._settings
        record = self._prepared.nodes.records[node]
        labels = record.metadata.labels or {}
        annotations = record.metadata.annotations or {}
        return (
            (settings.allow_karpenter or not is_karpenters(labels))
            and not _CONTROL_PLANE & labels.keys()
            and not any(annotations.get(key, "false") != "false" for key in _KEEP)
            and settings.node_selector.matches(labels)
        )

    def _may_be_emptied(self, node: int) -> bool:
        """Whether it may be chosen, whatever runs on it."""
        prepared = self._prepared
        settings = self._settings
        record = self._prepared.nodes.records[node]
        closed = prepared.so_far.closed
        age = settings.min_node_age
        return bool(
            prepared.nodes.staying[node]
            and self.is_given(node)
            and record.metadata.name not in self._settling
            and not (prepared.hotness.hot[node] or node in prepared.landing_check.settling)
            and not (self._are_few or self._above[node] or self._asks_for_none[node])
            and (not settings.taint_for or closed is None or record.metadata.name in closed)
            and (
                not age
                or prepared.inputs.now - times.parse_if_possible(record.metadata.creation_timestamp) >= age
            )
        )

    @cached_property
    def idle(self) -> Sequence[int]:
        """The empty nodes that may be closed, and are not yet."""
        records = self._prepared.nodes.records
        empty = np.flatnonzero(self.empty).tolist()
        return [row for row in empty if self.saves(row) > 0 and closed_until(records[row]) is None]

    @cached_property
    def candidates(self) -> dict[int, tuple[float, list[PodRow]]]:
        """By node that may be emptied, the best first: what moving its pods costs, and these in order.

        A protected pod of each node that would be one of them without it is ``held`` from then on.
        """
        prepared = self._prepared
        pods = self._prepared.pods
        limits = self._prepared.policy.limits
        worth = np.array(self._worth)
        count = self.leaving
        leave = self._must_leave
        fits = (count > 0) & (count <= min(limits.per_node, limits.per_run)) & (worth > 0)
        order = np.argsort(-worth / np.maximum(count, 1), kind="stable")
        by_node: dict[int, tuple[float, list[PodRow]]] = {}
        for node in islice(filter(self.saves, order[fits[order]].tolist()), _MAX_NODES):
            if len(by_node) * len(count) >= _MAX_TRIED:
                break
            sizes = {
                pod: (-prepared.state.classes.present[int(pods.pod_class[pod])][:2]).tolist()
                for pod in prepared.pods_on(node)
                if leave[pod]
            }
            rows = sorted(sizes, key=lambda pod: (sizes[pod], pods.full_name(pod)))
            protected = next((pod for pod in rows if why_protected(prepared.eviction, pod)), None)
            if protected is not None:
                self.held.append(protected)
            else:
                by_node[node] = len(rows) + float(prepared.disruption.costs(rows).sum()), rows
        best_first = sorted(by_node, key=lambda node: (-worth[node] / by_node[node][0], node))
        return {node: by_node[node] for node in best_first}

    def uids_on(self, node: NodeRow) -> Iterator[str]:
        """Of the pods that must leave a node before it is empty."""
        uids = self._prepared.pods.uids
        return (uids[pod] for pod in self._prepared.pods_on(node) if self._must_leave[pod])

    def in_use(self, plan: PlanBuilder) -> set[int]:
        """The nodes that pods come to or leave by the moves so far, and those where Pending pods may go."""
        nodes = self._prepared.pods.node
        bound = np.bincount(nodes[nodes >= 0], minlength=len(self.leaving))
        taken = [scenario.after_termination.pod_count > bound for scenario in plan.scenarios.all]
        return {
            *np.flatnonzero(np.any(taken, axis=0)).tolist(),
            *(move.candidate.source for move in plan.moves),
        }

    def emptied(
        self, emptied: Collection[int], moves: int, plan: PartialPlan
    ) -> tuple[str, Mapping[str, float]]:
        """What it comes to that these are, in words and figures."""
        used = ~self.empty
        each = moves / max(len(emptied), 1)
        count = int(used.sum())
        by_requests = most_emptied(self._prepared.state, used)
        before = self._filled(self._prepared.state, used)
        used[list(emptied)] = False
        after = self._filled(plan.scenarios.likeliest.after_termination, used)
        figures = {
            "emptied": len(emptied),
            "inUse": count,
            "emptyBefore": len(used) - count,
            "mostByResources": by_requests,
            "saving": sum(self.saves(node) for node in emptied),
            "evictionsPerNode": each,
            **{f"{name}Before": value for name, value in before.items()},
            **{f"{name}After": value for name, value in after.items()},
        }
        words = (
            f"none of {counted(count, 'node')} in use can be emptied now, {by_requests} at most by requests"
        )
        if emptied:
            cpu, memory, cores, gib = (
                f"{x:.{d}f} → {y:.{d}f}"
                for x, y, d in zip(before.values(), after.values(), (0, 0, 1, 1), strict=True)
            )
            words = (
                f"{len(emptied):,} of {counted(count, 'node')} in use emptied "
                f"({by_requests} at most by requests), {each:.1f} evictions each; "
                f"requested of nodes in use: {cpu} % cpu, {memory} % memory; "
                f"largest pod that fits: {cores} cores and {gib} GiB"
            )
        elif spent := plan.builder.used.spent:
            words += f"; {spent} is reached"
        return words, {key: round(float(value), 2) for key, value in figures.items()}

    @staticmethod
    def _filled(state: ClusterState, used: BoolArray) -> dict[str, float]:
        """Percent of nodes in use that is requested; cores and GiB of the largest pod that fits on any node.

        The largest is as large in both as the nodes allow.
        """
        room = np.maximum(state.classes.allocatable[:, :2], 1)
        requested = state.requested[:, :2]
        share = 100.0 * requested[used].sum(axis=0) / np.maximum(room[used].sum(axis=0), 1.0)
        free = np.maximum(room - requested, 0.0)
        best = int(np.argmax((free / room.max(axis=0)).min(axis=1)))
        names = ("requestedCpu", "requestedMemory", "largestPodCores", "largestPodGib")
        return dict(zip(names, (*share.tolist(), *(free[best] / _UNITS).tolist()), strict=True))

    def left_alone(self, plan: PartialPlan) -> Iterator[str]:
        """Why there are not more: a limit, nodes of Karpenter, an annotation that cannot be read."""
        limits = plan.builder.used.limits
        nodes = self._prepared.nodes
        name, max_pods = min(
            ("perNode", limits.per_node), ("perRun", limits.per_run), key=lambda limit: limit[1]
        )
        large = np.count_nonzero(self.leaving > max_pods)
        karpenters = sum(is_karpenters(node.metadata.labels or {}) for node in nodes.records)
        priced = zip(nodes.names, self._prices, strict=True)
        wrong = [name for name, price in priced if price is not None and price < 0]
        if large:
            yield f"{name} {max_pods} keeps {large} with more pods"
        if above := np.count_nonzero(self._above & ~self.empty):
            yield f"thresholds keep {above} of which more is requested"
        if self._are_few:
            yield f"no more than numberOfNodes {self._settings.number_of_nodes} are within thresholds"
        if unasked := np.count_nonzero(self._asks_for_none & ~self._above):
            names = " or ".join(self._settings.thresholds)
            yield f"evictionModes keeps {unasked} with a pod that requests no {names}"
        if karpenters and not self._settings.allow_karpenter:
            yield f"{karpenters} left to Karpenter (allowKarpenter)"
        if wrong:
            named = wrong[0]
            if len(wrong) > 1:
                named += f" and {len(wrong) - 1} more"
            yield f"the annotation {_PRICE} of {named} is no price"


def _requests_any(pod: PodClass, resources: Collection[str]) -> bool:
    """Whether a container of its spec requests one of these resources."""
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    for container in containers:
        requests = (container.resources and container.resources.requests) or {}
        if any(name in resources for name in requests):
            return True
    return False
