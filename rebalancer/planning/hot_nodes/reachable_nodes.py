"""Nodes that could take over load: those whose taints an evictable pod tolerates.

A mean says how busy a node would be if load were spread evenly, so it may only hold nodes that load can be
spread to. Three idle control-plane nodes beside three workers at 60 % would otherwise put the mean at 30 %,
and all three workers would be hot although there is nowhere to go.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import BoolArray
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import Taint
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.scheduling import tolerates_any

_HARD = ("NoSchedule", "NoExecute")
# Pods of a DaemonSet or of a node itself never leave it, whatever they tolerate; nor do those of nobody.
_BOUND_TO_THEIR_NODE = ("", "DaemonSet", "Node")


def reachable_nodes(inputs: PlanningInputs) -> BoolArray:
    """(nodes,) has no taint that would keep every pod away that the policy lets move."""
    tainted = [
        tuple(taint for taint in node.spec.taints or () if taint.effect in _HARD)
        for node in inputs.snapshot.nodes.records
    ]
    if not any(tainted):
        return np.ones(len(tainted), np.bool_)
    movable = _movable_classes(inputs)
    verdicts: dict[frozenset[tuple[str, str, str]], bool] = {}
    found: list[bool] = []
    for taints in tainted:
        key = frozenset((taint.key, taint.value or "", taint.effect) for taint in taints)
        if key not in verdicts:
            verdicts[key] = not taints or any(_tolerates_all(pod, taints) for pod in movable)
        found.append(verdicts[key])
    return np.array(found, np.bool_)


def _movable_classes(inputs: PlanningInputs) -> list[PodClass]:
    """Classes of bound pods that their kind and the policy's namespaces and profiles let move."""
    pods, policy = inputs.snapshot.pods, inputs.policy
    profiles = policy.scheduler.profiles or inputs.configuration.scheduler_names
    classes = (pods.classes[index] for index in np.unique(pods.pod_class[pods.node >= 0]).tolist())
    return [
        pod
        for pod in classes
        if pod.owner.kind not in _BOUND_TO_THEIR_NODE
        and policy.evictable.namespaces.allows(pod.namespace)
        and pod.scheduler_name in profiles
    ]


def _tolerates_all(pod: PodClass, taints: tuple[Taint, ...]) -> bool:
    return all(tolerates_any(pod.spec.tolerations, taint) for taint in taints)
