"""Where a scheduler is looked for, and its lease and pods."""

from __future__ import annotations

from typing import Any

from rebalancer.cluster import times
from rebalancer.planning.scheduler_location import LeaseName, PodSelection, SchedulerLocation
from tests.unit.execution.builders import NOW

LEASE = LeaseName("kube-system", "trimaran")
BY_LEASE = SchedulerLocation("trimaran", LEASE)
BY_CONFIG_MAP = SchedulerLocation(
    "trimaran", None, "leader election is off", PodSelection(("sched",), "trimaran-config")
)
BY_IMAGE = SchedulerLocation("trimaran", None, "leader election is off", PodSelection(("sched",)))


def a_lease(age: float, *, holder: str = "node-1_abc", seconds: int = 15) -> dict[str, Any]:
    return {
        "metadata": {"name": "trimaran"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "renewTime": times.render(NOW - age),
        },
    }


def a_scheduler_pod(
    name: str = "trimaran-0",
    *,
    image: str = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.31.8",
    config_map: str = "trimaran-config",
    projected: bool = False,
    owner: str = "trimaran-7d9f",
    ready: str = "True",
    phase: str = "Running",
    **metadata: Any,
) -> dict[str, Any]:
    mounted: dict[str, Any] = {"configMap": {"name": config_map}}
    since = times.render(NOW - 90)
    owners = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}] if owner else []
    return {
        "metadata": {"namespace": "sched", "name": name, "ownerReferences": owners, **metadata},
        "spec": {
            "nodeName": "a",
            "containers": [{"name": "scheduler", "image": image}],
            "volumes": [
                {"name": "config", **({"projected": {"sources": [mounted]}} if projected else mounted)}
            ],
        },
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}],
        },
    }
