"""A small hot cluster as kubectl would have dumped it, to be damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builders import a_budget, a_node, a_pod, a_replica_set, owned_by

NOW = "2026-11-20T12:00:00Z"
VERSIONS = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "replicasets": ("apps/v1", "ReplicaSet"),
    "statefulsets": ("apps/v1", "StatefulSet"),
    "deployments": ("apps/v1", "Deployment"),
    "daemonsets": ("apps/v1", "DaemonSet"),
    "jobs": ("batch/v1", "Job"),
    "replicationcontrollers": ("v1", "ReplicationController"),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget"),
    "namespaces": ("v1", "Namespace"),
    "services": ("v1", "Service"),
    "priorityclasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
    "persistentvolumes": ("v1", "PersistentVolume"),
    "storageclasses": ("storage.k8s.io/v1", "StorageClass"),
    "csinodes": ("storage.k8s.io/v1", "CSINode"),
    "csidrivers": ("storage.k8s.io/v1", "CSIDriver"),
    "csistoragecapacities": ("storage.k8s.io/v1", "CSIStorageCapacity"),
    "volumeattachments": ("storage.k8s.io/v1", "VolumeAttachment"),
    "nodemetrics": ("metrics.k8s.io/v1beta1", "NodeMetrics"),
    "podmetrics": ("metrics.k8s.io/v1beta1", "PodMetrics"),
}

Items = dict[str, list[Any]]


def a_metric(node: str, cpu: str, *, moment: str = NOW) -> dict[str, Any]:
    usage = {"cpu": cpu, "memory": "1Gi"}
    return {"metadata": {"name": node}, "timestamp": moment, "window": "15s", "usage": usage}


def a_hot_cluster() -> Items:
    """n0 is hot, n1 and n2 are not; every kind was read."""
    pods = [
        a_pod(
            f"web-{number}",
            node="n0",
            namespace="shop",
            cpu="500m",
            memory="256Mi",
            labels={"app": "web"},
            owner=owned_by("ReplicaSet", "web", namespace="shop"),
        )
        for number in range(4)
    ]
    owner = a_replica_set(
        "web",
        replicas=4,
        namespace="shop",
        labels={"app": "web"},
        template={"containers": pods[0]["spec"]["containers"]},
    )
    items: Items = {plural: [] for plural in VERSIONS}
    return items | {
        "nodes": [a_node(f"n{number}") for number in range(3)],
        "pods": pods,
        "replicasets": [owner],
        "namespaces": [{"metadata": {"name": "shop"}}],
        "poddisruptionbudgets": [a_budget("web", labels={"app": "web"}, allowed=2, namespace="shop")],
        "nodemetrics": [a_metric("n0", "3800m"), a_metric("n1", "400m"), a_metric("n2", "300m")],
    }


def a_rich_cluster() -> Items:
    """The hot cluster, with one of everything that bears on scheduling."""
    items = a_hot_cluster()
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}],
    }
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, "namespaceSelector": {}}
    wanted = {"matchExpressions": [{"key": "disk", "operator": "Gt", "values": ["3"]}]}
    spec = {
        "priority": 5,
        "overhead": {"cpu": "10m"},
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 3,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": wanted}],
            },
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "podAffinityTerm": term}]
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "podAffinityTerm": term}]
            },
        },
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "tmp", "emptyDir": {}},
        ],
        "initContainers": [
            {"name": "init", "resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"}
        ],
    }
    for pod in items["pods"]:
        pod["spec"] |= spec
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    items["pods"][3]["status"]["containerStatuses"] = [
        {"name": "main", "resources": {"requests": {"cpu": "600m"}}, "allocatedResources": {"cpu": "600m"}}
    ]
    items["replicasets"][0]["spec"]["template"]["spec"] |= spec
    for node in items["nodes"]:
        node["metadata"]["labels"] |= {"zone": "a", "disk": "5"}
        node["spec"]["taints"] = [{"key": "dedicated", "value": "", "effect": "NoSchedule"}]
        node["status"]["images"] = [{"names": ["app:v1"], "sizeBytes": 10**8}]
    volume = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    bound = {"name": "data", "namespace": "shop", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    affinity = {"required": {"nodeSelectorTerms": [wanted]}}
    csi = {"driver": "csi.example.com", "volumeHandle": "v1"}
    return items | {
        "persistentvolumeclaims": [
            {"metadata": bound, "spec": {**volume, "volumeName": "pv-1"}, "status": {"phase": "Bound"}}
        ],
        "persistentvolumes": [
            {
                "metadata": {"name": "pv-1", "labels": {"topology.kubernetes.io/zone": "a"}},
                "spec": {**volume, "capacity": {"storage": "1Gi"}, "nodeAffinity": affinity, "csi": csi},
            }
        ],
        "storageclasses": [
            {
                "metadata": {"name": "fast"},
                "provisioner": "csi.example.com",
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
            }
        ],
        "csinodes": [
            {
                "metadata": {"name": "n0"},
                "spec": {"drivers": [{"name": "csi.example.com", "allocatable": {"count": 5}}]},
            }
        ],
        "csidrivers": [{"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}],
        "csistoragecapacities": [
            {
                "metadata": {"name": "c", "namespace": "kube-system"},
                "storageClassName": "fast",
                "capacity": "10Gi",
                "nodeTopology": {"matchLabels": {"zone": "a"}},
            }
        ],
        "volumeattachments": [
            {
                "metadata": {"name": "a"},
                "spec": {"nodeName": "n0", "source": {"persistentVolumeName": "pv-1"}},
            }
        ],
        "services": [
            {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}}
        ],
        "priorityclasses": [{"metadata": {"name": "p"}, "value": 5, "globalDefault": True}],
        "podmetrics": [
            {
                "metadata": {"name": "web-0", "namespace": "shop"},
                "timestamp": NOW,
                "window": "15s",
                "containers": [{"name": "main", "usage": {"cpu": "1", "memory": "1Gi"}}],
            }
        ],
    }


def list_of(plural: str, items: Any) -> bytes:
    api_version, kind = VERSIONS[plural]
    return json.dumps({"apiVersion": api_version, "kind": f"{kind}List", "items": items}).encode()


def write_dump(folder: Path, items: Items) -> Path:
    """A file a kind."""
    folder.mkdir(exist_ok=True)
    for plural, objects in items.items():
        (folder / f"{plural}.json").write_bytes(list_of(plural, objects))
    return folder
