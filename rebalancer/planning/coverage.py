"""Of how many nodes the load is known, among those where it matters.

A run that knows too little refuses to act. A node matters when a pod may leave it or land on it; a virtual
node without metrics, on which no pod of ours can run, must not stop every run.

    n1, n2, n3   workers with fresh figures          counted, known
    virtual-1    tainted, nothing tolerates it       not counted
    n4           tainted, a pod there tolerates it   counted: 3 of 4 are known
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rebalancer.cluster.leaving_nodes import why_leaving
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import Taint
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.scheduling.matching import tolerates_any

HARD_EFFECTS = ("NoSchedule", "NoExecute")
OF_THEIR_NODE = frozenset({"DaemonSet", "Node"})  # owners of pods that belong to one node


class Coverage(msgspec.Struct, frozen=True):
    """How many of the nodes that matter have a fresh figure."""

    known: int
    counted: int

    @property
    def share(self) -> float:
        """The share that is known; 1 where no node matters."""
        return self.known / self.counted if self.counted else 1.0


def coverage_of(inputs: PlanningInputs) -> Coverage:
    """Count the nodes that pods may leave or land on, and those of them whose load is known."""
    nodes, pods = inputs.snapshot.nodes, inputs.snapshot.pods
    movable = [pod for pod in pods.classes if pod.owner.kind not in OF_THEIR_NODE]
    tolerates_all: dict[tuple[Taint, ...], bool] = {}
    known = counted = 0
    for row, node in enumerate(nodes.records):
        if inputs.load.known[row]:
            known, counted = known + 1, counted + 1
            continue
        if why_leaving(node):
            continue
        hard = tuple(taint for taint in node.spec.taints or () if taint.effect in HARD_EFFECTS)
        if hard not in tolerates_all:
            tolerates_all[hard] = may_be_tolerated(movable, hard)
        here = pods.by_node.get(row)
        runs_one = here is not None and any(
            pods.class_of(pod).owner.kind not in OF_THEIR_NODE for pod in here.tolist()
        )
        counted += tolerates_all[hard] or runs_one
    return Coverage(known, counted)


def may_be_tolerated(movable: Sequence[PodClass], taints: Sequence[Taint]) -> bool:
    """Whether pods of a class may land in spite of these taints."""
    return not taints or any(
        all(tolerates_any(pod.spec.tolerations, taint) for taint in taints) for pod in movable
    )
