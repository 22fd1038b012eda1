"""Nodes, workloads and pods of generated clusters: the same arguments give the same objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

NOW = "2026-11-20T12:00:00Z"
LONG_AGO = "2026-06-01T00:00:00Z"
ZONES = 3
_SIZES = ((16, 64), (32, 128), (64, 256))  # cores, GiB
_CPU_MILLI = (100, 250, 500, 1000, 2000)
_MEMORY_MIB = (128, 256, 512, 1024, 4096)
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """A controller, its template and how many pods it wants."""

    kind: str
    name: str
    namespace: str
    replicas: int
    cpu_milli: int
    memory_mib: int
    template: Object
    usage: float  # of its request, on average

    @property
    def controller(self) -> str:
        """The name of what owns its pods."""
        return f"{self.name}-6d4f8b7c9d" if self.kind == "Deployment" else self.name

    @property
    def owner(self) -> Object:
        """The ownerReference of its pods."""
        kind = "ReplicaSet" if self.kind == "Deployment" else self.kind
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "name": self.controller,
            "uid": f"uid-{self.namespace}-{self.controller}",
            "controller": True,
            "blockOwnerDeletion": True,
        }


def _managed_fields(padding: int) -> list[Object]:
    """What an API server stores beside a pod: most of its bytes, and of no use to us."""
    fields: Object = {
        f"f:field{index}": {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
        for index in range(padding)
    }
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": LONG_AGO,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": fields}, "f:spec": fields},
        }
        for manager in ("kube-controller-manager", "kubelet")
    ]


def nodes(count: int, random: np.random.Generator) -> list[Object]:
    """Nodes in three zones; one in twenty tainted for a dedicated use."""
    found = []
    for index in range(count):
        cores, memory = _SIZES[int(random.integers(len(_SIZES)))]
        name = f"node-{index:05}"
        room = {"cpu": str(cores), "memory": f"{memory}Gi", "pods": "110", "ephemeral-storage": "500Gi"}
        free = {**room, "cpu": f"{cores * 1000 - 400}m", "memory": f"{memory - 2}Gi"}
        taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}] if index % 20 == 7 else []
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "uid": f"uid-{name}",
                    "creationTimestamp": LONG_AGO,
                    "labels": {
                        "kubernetes.io/hostname": name,
                        "topology.kubernetes.io/zone": f"zone-{index % ZONES}",
                        "topology.kubernetes.io/region": "region-1",
                        "node.kubernetes.io/instance-type": f"type-{cores}",
                    },
                },
                "spec": {"taints": taints},
                "status": {
                    "capacity": room,
                    "allocatable": free,
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
                    "images": [
                        {
                            "names": [f"registry.example/app-{(index * 7 + step) % 997}:v1"],
                            "sizeBytes": 80_000_000,
                        }
                        for step in range(20)
                    ],
                },
            }
        )
    return found


def _constraints(index: int, labels: Object) -> Object:
    """Every fifth workload spreads over zones, every tenth keeps its pods apart."""
    selector = {"matchLabels": labels}
    found: Object = {}
    if index % 5 == 0:
        found["topologySpreadConstraints"] = [
            {
                "maxSkew": 2,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway" if index % 2 else "DoNotSchedule",
                "labelSelector": selector,
            }
        ]
    if index % 10 == 3:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        found["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]
            }
        }
    if index % 20 == 11:
        found["tolerations"] = [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]
    return found


def workloads(
    node_count: int, pod_count: int, random: np.random.Generator, *, stateless: bool = False
) -> list[Workload]:
    """A DaemonSet, and Deployments (85 %) and StatefulSets of heavy-tailed sizes for the other pods.

    ``stateless``: there are no StatefulSets, whose controller takes pods by their names.
    """
    found = [_workload("DaemonSet", 0, node_count, random)]
    left = pod_count - node_count
    index = 1
    while left > 0:
        replicas = min(left, 1 + int(random.pareto(1.1) * 4), 400)
        kind = "Deployment" if stateless or index % 7 else "StatefulSet"
        found.append(_workload(kind, index, replicas, random))
        left -= replicas
        index += 1
    return found


def _workload(kind: str, index: int, replicas: int, random: np.random.Generator) -> Workload:
    namespace = "kube-system" if kind == "DaemonSet" else f"team-{index % 40:02}"
    name = "agent" if kind == "DaemonSet" else f"app-{index:05}"
    labels = {"app": name, "team": namespace}
    cpu = 100 if kind == "DaemonSet" else int(random.choice(_CPU_MILLI))
    memory = 128 if kind == "DaemonSet" else int(random.choice(_MEMORY_MIB))
    spec: Object = {
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "main",
                "image": f"registry.example/app-{index % 997}:v1",
                "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}},
                "env": [{"name": f"SETTING_{number}", "value": "x" * 24} for number in range(8)],
            }
        ],
        **(
            _constraints(index, {"app": name})
            if kind != "DaemonSet"
            else {"tolerations": [{"operator": "Exists"}]}
        ),
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return Workload(
        kind, name, namespace, replicas, cpu, memory, template, float(random.lognormal(-0.7, 0.5))
    )


def place(
    all_nodes: list[Object], all_workloads: list[Workload], random: np.random.Generator, *, even: bool = False
) -> list[tuple[Workload, int]]:
    """Pods by node: an agent on each, the others where a node that attracts many still has room.

    ``even``: as many of a workload in each zone, and none beside another.
    """
    count = len(all_nodes)
    cpu = np.array([int(node["status"]["allocatable"]["cpu"][:-1]) for node in all_nodes], np.float64)
    memory = np.array(
        [int(node["status"]["allocatable"]["memory"][:-2]) * 1024 for node in all_nodes], np.float64
    )
    pods_left = np.full(count, 109.0)
    tainted = np.array([bool(node["spec"]["taints"]) for node in all_nodes])
    attraction = random.lognormal(0.0, 0.6, count)
    found: list[tuple[Workload, int]] = []
    for workload in all_workloads:
        if workload.kind == "DaemonSet":
            found += [(workload, row) for row in range(count)]
            cpu -= workload.cpu_milli
            memory -= workload.memory_mib
            continue
        fits = (cpu >= workload.cpu_milli * 2) & (memory >= workload.memory_mib * 2) & (pods_left > 1)
        if "tolerations" not in workload.template["spec"]:
            fits &= ~tainted
        chance = np.where(fits, attraction, 0.0)
        if not chance.any():
            continue
        if even:
            zones = [np.flatnonzero(chance * (np.arange(count) % ZONES == zone)) for zone in range(ZONES)]
            most = min(workload.replicas // ZONES, *map(len, zones))
            rows = np.concatenate([random.choice(zone, size=most, replace=False) for zone in zones])
        else:
            rows = random.choice(count, size=workload.replicas, p=chance / chance.sum())
        taken = np.bincount(rows, minlength=count)
        room = np.minimum(cpu // workload.cpu_milli, np.minimum(memory // workload.memory_mib, pods_left))
        taken = np.minimum(taken, room.astype(np.int64))
        cpu -= taken * workload.cpu_milli
        memory -= taken * workload.memory_mib
        pods_left -= taken
        found += [(workload, row) for row in np.repeat(np.arange(count), taken).tolist()]
    return found


def pods(placed: list[tuple[Workload, int]], all_nodes: list[Object]) -> Iterator[Object]:
    """Running pods as an API server hands them out."""
    fields = [_managed_fields(padding) for padding in range(14, 26)]
    for number, (workload, row) in enumerate(placed):
        name = f"{workload.controller}-{number:06}"
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": workload.namespace,
                "uid": f"uid-pod-{number}",
                "resourceVersion": str(1000 + number),
                "creationTimestamp": LONG_AGO,
                "labels": workload.template["metadata"]["labels"],
                "ownerReferences": [workload.owner],
                "managedFields": fields[number % len(fields)],
            },
            "spec": {
                **workload.template["spec"],
                "nodeName": all_nodes[row]["metadata"]["name"],
                "priority": 0,
            },
            "status": {
                "phase": "Running",
                "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
                "startTime": LONG_AGO,
                "conditions": [
                    {"type": kind, "status": "True", "lastTransitionTime": LONG_AGO}
                    for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
                ],
                "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "image": "app"}],
            },
        }
