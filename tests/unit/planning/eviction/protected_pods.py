"""A pod of a hot node that something may protect, and the plan for it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from rebalancer.planning.inputs import PlanningInputs
from tests.builders import a_node
from tests.unit.planning.builders import Workload, a_workload, plan_of, planning_inputs

EVICT = "descheduler.alpha.kubernetes.io/evict"
CLAIM = {
    "metadata": {
        "name": "data",
        "namespace": "default",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {"volumeName": "disk", "accessModes": ["ReadWriteMany"]},
    "status": {"phase": "Bound"},
}
DISK = {"metadata": {"name": "disk"}, "spec": {"claimRef": {"namespace": "default", "name": "data"}}}
Case = Mapping[str, Any]


def the_pod(**changes: Any) -> Workload:
    """A pod of a workload of two, whose leaving would be enough."""
    return a_workload("web", ["hot"], **{"cpu": "3900m", "replicas": 2, **changes})


# As those who remove nodes write them.
LEAVING = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "node.cloudprovider.kubernetes.io/shutdown",
    "aws-node-termination-handler/spot-itn",
    "cloud.google.com/impending-node-termination",
    "node.kubernetes.io/out-of-service",
)


def a_taint(key: str, effect: str = "PreferNoSchedule") -> dict[str, str]:
    return {"key": key, "value": "", "effect": effect}


def case(workload: Workload | None = None, **inputs: Any) -> Case:
    return {"workloads": [workload or the_pod()], **inputs}


def volume(**source: Any) -> Mapping[str, Any]:
    return {"volumes": [{"name": "data", **source}]}


def plan_for(given: Case, **annotations: str) -> Any:
    return plan_of(inputs_of(given, **annotations))


def inputs_of(given: Case, **annotations: str) -> PlanningInputs:
    # Cases are shared by all tests of a table: what one changes must not be there for the next.
    values: dict[str, Any] = {"nodes": [a_node("hot"), a_node("cool", cpu=8)], **copy.deepcopy(dict(given))}
    change = values.pop("change", None)
    nodes = values.pop("nodes")
    if change:
        change(values["workloads"][0])
    for workload in values["workloads"]:
        for pod in workload.pods:
            pod["metadata"]["annotations"] = {**pod["metadata"]["annotations"], **annotations}
    return planning_inputs(nodes, values.pop("workloads"), **values)
