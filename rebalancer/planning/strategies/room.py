"""Which pods need room on a node, and the fewest pods whose leaving makes it.

a 3 of 4 cores used, b 3 of 4    a Pending pod of 2 cores fits nowhere, though 2 cores are free
api of a, 1 core, lands on b     a has 2 cores free: the Pending pod goes there
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

import msgspec
import numpy as np

from rebalancer.cluster.arrays import IntArray, NodeRow, PodRow
from rebalancer.cluster.nodes import BASE_RESOURCES
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.scenarios import Scenarios
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.scheduling.framework.preemption import Preemptions
from rebalancer.scheduling.framework.queue import waiting_pods
from rebalancer.scheduling.resources import requested_amounts
from rebalancer.scheduling.state.cluster_state import ClusterState

_FIT = "NodeResourcesFit"
_DEFERRED_RESIZE = ("PodResizePending", "True", "Deferred")  # type, status and reason of a condition


class RoomNeed(msgspec.Struct, frozen=True):
    """What room is made for."""

    pod: PodRow | None  # None for one more pod of a workload
    pod_class: int
    name: str  # in words
    uid: str = ""  # of the pod
    node: NodeRow | None = None  # where the pod runs already, for a resize

    @property
    def is_pending(self) -> bool:
        """Whether it is a pod that runs nowhere."""
        return self.pod is not None and self.node is None


class RoomSettings(Protocol):
    """What a policy says of the pods that room is made for."""

    pending_for: float
    workloads: tuple[str, ...]
    resizes: bool
    despite_preemption: bool


def wanted_room(prepared: PreparedInputs, settings: RoomSettings) -> Iterator[RoomNeed]:
    """What room is to be made for: Pending pods first, in the order of the scheduler's queue.

    Then deferred resizes, and one more pod as large as the largest of each workload.
    """
    state = prepared.state
    pods = prepared.pods
    preemptions = Preemptions(prepared.state)
    for row in map(PodRow, waiting_pods(state, pods)):
        fields = pods.fields(row)
        kind = state.pod_class[row]
        since = [condition.since for condition in fields.conditions if condition.type == "PodScheduled"]
        waited = prepared.inputs.now - (since or [fields.created])[0]
        if not waited >= settings.pending_for or prepared.schedulers.is_foreign(kind):
            continue
        preemption = preemptions.of(prepared.schedulers.scheduler(kind), kind)
        if settings.despite_preemption or not (row in state.nominated or len(preemption.nodes)):
            yield RoomNeed(row, kind, f"Pending {pods.full_name(row)}", pods.uids[row])
    unusual = pods.columns.few("conditions") if settings.resizes else ()
    for row in map(PodRow, sorted(row for row in unusual if pods.node[row] >= 0)):
        for condition in pods.fields(row).conditions:
            if (condition.type, condition.status, condition.reason) == _DEFERRED_RESIZE:
                name = f"the resize of {pods.full_name(row)}"
                kind = int(pods.pod_class[row])
                yield RoomNeed(row, kind, name, pods.uids[row], prepared.node_of(row))
    requests = state.classes.requests
    for key in settings.workloads:
        rows = [row for row in prepared.bound_pods() if prepared.eviction.workload(row).key == key]
        kinds = {int(pods.pod_class[row]) for row in rows}
        sizes = [
            (requests[kind].incoming.get("memory", 0), requests[kind].incoming.get("cpu", 0), -kind)
            for kind in kinds
            if not prepared.schedulers.is_foreign(kind)
        ]
        if sizes:
            yield RoomNeed(None, -max(sizes)[-1], f"one more pod of {key}")


class Room:
    """Looks for the pods that must leave a node."""

    def __init__(self, prepared: PreparedInputs, settings: RoomSettings) -> None:
        self._prepared = prepared
        self.needs = tuple(wanted_room(prepared, settings))

    def fits(self, need: RoomNeed, state: ClusterState, node: NodeRow | None = None) -> bool:
        """Whether it fits on a node, or on any; a Pending pod that has found a node does."""
        if need.node is not None:
            return bool((self._free(state, need.node) >= 0).all())
        if need.pod is not None and state.node[need.pod] >= 0:
            return True
        feasible = self._prepared.schedulers.scheduler(need.pod_class).feasible(state, need.pod_class)
        return bool(feasible.any() if node is None else feasible[node])

    def only_node(self, need: RoomNeed, state: ClusterState) -> NodeRow | None:
        """The node that it fits on, if that is the only one."""
        scheduler = self._prepared.schedulers.scheduler(need.pod_class)
        nodes = np.flatnonzero(scheduler.feasible(state, need.pod_class)).tolist()
        return NodeRow(nodes[0]) if len(nodes) == 1 else None

    @staticmethod
    def _free(state: ClusterState, node: NodeRow) -> IntArray:
        """(resources,) what is allocatable and not requested."""
        free: IntArray = state.classes.allocatable[node] - state.requested[node]
        pods = BASE_RESOURCES.index("pods")
        free[pods] = state.classes.allocatable[node][pods] - state.pod_count[node]
        return free

    def choices(self, need: RoomNeed, plan: PlanBuilder) -> list[tuple[str, list[PodRow]]]:
        """The nodes that would have room without some of their pods, those first that lose the fewest."""
        state = plan.scenarios.all[0].after_termination
        choices = []
        moved = plan.moved
        landings = dict[int, set[int]]()  # by class: the nodes that have room
        nodes = [need.node] if need.node is not None else self._short_of_room(need, state)
        for node in nodes:
            pods = [row for row in self._prepared.pods_on(node) if row not in moved and row != need.pod]
            pods = [row for row in pods if self._may_leave(row, node, state, landings)]
            costs = dict(zip(pods, (1.0 + self._prepared.disruption.costs(pods)).tolist(), strict=True))
            leaving = self._leaving(need, state, node, costs)
            if leaving:
                cost = round(sum(costs[row] for row in leaving), 6)
                choices.append((len(leaving), cost, self._prepared.nodes.names[node], leaving))
        return [choice[-2:] for choice in sorted(choices)]

    def _short_of_room(self, need: RoomNeed, state: ClusterState) -> list[NodeRow]:
        """The nodes that the scheduler rejects for want of resources alone."""
        scheduler = self._prepared.schedulers.scheduler(need.pod_class)
        reasons = scheduler.rejections(state, need.pod_class)
        excluded = self._prepared.landing_check.excluded
        return [
            NodeRow(row) for row, why in reasons.items() if why.startswith(f"{_FIT}:") and row not in excluded
        ]

    def _may_leave(
        self, pod: PodRow, node: NodeRow, state: ClusterState, landings: dict[int, set[int]]
    ) -> bool:
        """Whether a pod may be evicted, and another node has room for its replacement."""
        if why_protected(self._prepared.eviction, pod) is not None:
            return False
        kind = self._prepared.candidate(pod).replacement
        if kind not in landings:
            scheduler = self._prepared.schedulers.scheduler(kind)
            landings[kind] = set(np.flatnonzero(scheduler.feasible(state, kind)).tolist())
        return bool(landings[kind] - {node} - self._prepared.landing_check.excluded.keys())

    def _leaving(
        self, need: RoomNeed, state: ClusterState, node: NodeRow, costs: Mapping[PodRow, float]
    ) -> list[PodRow]:
        """The pods without which the node has room, as few and as cheap as a greedy choice finds."""
        classes = state.classes
        pods = BASE_RESOURCES.index("pods")
        needed = -self._free(state, node)
        if need.node is None:
            incoming = classes.vector(classes.requests[need.pod_class].incoming).copy()
            incoming[pods] = 1
            needed = np.where(incoming > 0, needed + incoming, 0)
        needed = np.maximum(needed, 0)
        sizes = {row: classes.present[state.pod_class[row]].copy() for row in costs}
        for size in sizes.values():
            size[pods] = 1
        chosen: list[PodRow] = []
        while (needed > 0).any():
            part = {
                row: float((np.minimum(size, needed) / np.maximum(needed, 1)).sum()) / costs[row]
                for row, size in sizes.items()
                if row not in chosen
            }
            covering = [row for row in part if (sizes[row] >= needed).all()]
            if not part or max(part.values()) <= 0:
                return []
            best = min(covering, key=costs.__getitem__) if covering else max(part, key=part.__getitem__)
            chosen.append(best)
            needed = np.maximum(needed - sizes[best], 0)
        with state.without(chosen):
            return chosen if self.fits(need, state, node) else []

    def on_node(self, node: NodeRow, pod: PodRow | None) -> RoomOnNode:
        """The room on a node for another pod; None for one more pod of each workload."""
        needs = tuple(need for need in self.needs if need.pod == pod)
        return RoomOnNode(self, node, self._prepared.nodes.names[node], needs, self._prepared.state)

    def place(self, need: RoomNeed, scenarios: Scenarios, node: NodeRow) -> str:
        """Put a Pending pod where there is room for it now, in every scenario, unless it is there already.

        Else it says why that cannot be, in words that follow the name of the node.
        """
        state = scenarios.all[0].after_termination
        if need.pod is not None and need.is_pending and state.node[need.pod] >= 0:
            return ""
        requests = state.classes.requests[need.pod_class].incoming
        amounts = np.array(requested_amounts(requests, self._prepared.inputs.load.resources), np.float64)
        hotness = self._prepared.hotness
        check = self._prepared.landing_check
        for scenario in scenarios.all:
            state = scenario.after_termination
            rows = np.array([node])
            if not self.fits(need, state, node):
                return "would not have room for it in every scenario"
            if need.is_pending:
                after = check.percent_after(rows, scenario.usage, state.pod_count, amounts)
                if not ((after <= hotness.landing_limit(rows)) | np.isinf(hotness.landing_limit(rows))).all():
                    return "would be too hot with it"
        if need.pod is not None and need.is_pending:
            scenarios.bind_pending(need.pod, [node] * len(scenarios.all), amounts)
        return ""


class RoomOnNode(msgspec.Struct, frozen=True, eq=False):
    """The room that a pod makes on the node which it leaves."""

    rooms: Room
    node: NodeRow
    name: str  # of the node
    needs: tuple[RoomNeed, ...]  # what the room is for
    before: ClusterState  # the cluster without any of the moves

    @property
    def classes(self) -> Collection[int]:
        """Those of all Pending pods that room is made for."""
        return {need.pod_class for need in self.rooms.needs if need.is_pending}

    def take(self, scenarios: Scenarios) -> None:
        for need in self.needs:
            if need.is_pending:
                self.rooms.place(need, scenarios, self.node)

    def why_in_vain(self, scenarios: Scenarios) -> str:
        """That others have taken the room by now, so that what waits for it would not fit all the same."""
        short = [need for need in self.needs if not self.rooms.fits(need, self.before)]
        after = [scenario.after_termination for scenario in scenarios.all]
        if not short or any(self.rooms.fits(need, state) for need in short for state in after):
            return ""
        return f"{short[0].name} would not fit on {self.name} without it either"
