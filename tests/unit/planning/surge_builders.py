"""A single-replica Deployment, as evictable.singleReplica: surge moves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalancer.planning.inputs import PlanningInputs
from tests.builders import a_node
from tests.unit.planning.builders import Workload, a_policy, a_workload, planning_inputs

HASH = "pod-template-hash"
SURGE = {"protect": ["SingleReplica"], "singleReplica": "surge"}


def a_deployment(
    name: str = "web", *, metadata: Mapping[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A Deployment of one replica with nothing left to do, as the API server stores it."""
    status = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "generation": 1,
            **(metadata or {}),
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            **spec,
        },
        "status": {**status, "observedGeneration": 1},
    }


def a_single_pod(name: str = "web", node: str = "hot", **changes: Any) -> Workload:
    """The ReplicaSet of such a Deployment and its pod."""
    labels = {HASH: "old"}
    found = a_workload(f"{name}-old", [node], **{"cpu": "3900m", "labels": labels, **changes})
    carried = {"app": name, HASH: "old"}
    found.item["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": name,
            "uid": f"uid-{name}",
            "controller": True,
        }
    ]
    found.item["spec"]["selector"] = {"matchLabels": carried}
    found.item["spec"]["template"]["metadata"]["labels"] = carried
    for pod in found.pods:
        pod["metadata"]["labels"] = carried
    return found


def surge_inputs(
    workload: Workload | None = None,
    deployment: Mapping[str, Any] | None = None,
    evictable: Mapping[str, Any] | None = None,
    **inputs: Any,
) -> PlanningInputs:
    """A hot node with the pod of a Deployment of one replica, and a cool one, planned with surge allowed."""
    workloads = [workload or a_single_pod(), *inputs.pop("others", ())]
    policy = inputs.pop("policy", None) or a_policy(evictable=evictable or SURGE)
    nodes = inputs.pop("nodes", [a_node("hot"), a_node("cool", cpu=8)])
    deployments = [a_deployment() if deployment is None else deployment, *inputs.pop("deployments", ())]
    return planning_inputs(nodes, workloads, policy=policy, deployments=deployments, **inputs)
