"""Pods in files, as people write them."""

from __future__ import annotations

import json
from typing import Any

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer_lab.what_if.fit import Fit, fit
from rebalancer_lab.what_if.pod_specs import AskedPod, asked_pod, read_pod

LABELS = {"app": "new"}  # what the pods of a manifest carry, unless another name is given
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": LABELS},
    }
]


def a_manifest(kind: str = "Pod", name: str = "new", namespace: str = "", **spec: Any) -> dict[str, Any]:
    """A pod with one container, or a controller of such pods; ``spec`` is the pod's."""
    pod = {"metadata": {"labels": {"app": name}}, "spec": a_pod_spec() | spec}
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    if kind == "Pod":
        return {"kind": kind, "metadata": metadata | pod["metadata"], "spec": pod["spec"]}
    return {
        "kind": kind,
        "metadata": metadata,
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": pod},
    }


def a_pod_spec(cpu: Any = "1", memory: Any = "1Mi") -> dict[str, Any]:
    """The spec of a pod with one container."""
    requests = {"cpu": cpu, "memory": memory}
    return {"containers": [{"name": "main", "image": "app:v1", "resources": {"requests": requests}}]}


def asked(manifest: Any, snapshot: Snapshot, namespace: str | None = None) -> AskedPod:
    """What a file with this content asks for."""
    return asked_pod(read_pod(json.dumps(manifest), "file", namespace), snapshot, namespace)


def fit_of(inputs: PlanningInputs, manifest: Any, at_most: int = 100) -> Fit:
    """The answer for a file with this content."""
    return fit(Planner(inputs), asked(manifest, inputs.snapshot), at_most)
